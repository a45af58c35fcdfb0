"""Rows with probabilities for labels: the same as each row twice, with weights."""

import numpy as np
import pandas as pd
import pytest

from bayesvm import PCVC, RVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.data.labels import SoftLabels

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
P = 1 / (1 + np.exp(-2 * X[:, 0] + RNG.standard_normal(60)))
P = np.stack([1 - P, P], axis=1)
P[:10] = np.round(P[:10])  # some are certain
WEIGHT = RNG.uniform(0.5, 2.0, size=60)
AT, K = np.nonzero(P)
BY_HAND = X[AT], K, WEIGHT[AT] * P[AT, K]


MODELS = [
    BayesianLinearSVC(),
    BayesianLinearSVC(likelihood="hinge", class_weight="balanced"),
    BayesianSVC(random_state=0),
    PCVC(random_state=0),
    RVC(random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_soft_label_is_two_weighted_rows(model):
    soft = model.fit(X, P, sample_weight=WEIGHT).predict_proba(X)
    hard = model.fit(BY_HAND[0], BY_HAND[1], sample_weight=BY_HAND[2]).predict_proba(X)
    np.testing.assert_allclose(soft, hard, rtol=1e-7)


def test_groups_follow_their_rows():
    groups = RNG.integers(6, size=60)
    soft = MixedSVC().fit(X, P, groups=groups)
    hard = MixedSVC().fit(X[AT], K, sample_weight=P[AT, K], groups=groups[AT])
    new = X[:9], groups[:9]
    np.testing.assert_allclose(soft.predict_proba(*new), hard.predict_proba(*new), rtol=1e-7)


def test_classes_are_the_columns_of_a_frame():
    frame = pd.DataFrame(P[:, ::-1], columns=["yes", "no"])
    model = BayesianLinearSVC().fit(X, frame)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(
        model.predict_proba(X), BayesianLinearSVC().fit(X, P).predict_proba(X), rtol=1e-9
    )


def test_certain_labels_are_labels():
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    soft, hard = (BayesianSVC(random_state=0).fit(X, labels) for labels in (np.eye(3)[y], y))
    np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(soft.support_proba_, hard.support_proba_, rtol=1e-6, atol=1e-9)


def test_rows_of_the_input_are_reported():
    model = BayesianSVC().fit(X, P)
    assert model.support_proba_.shape == (60,)
    vectors = RVC(random_state=0).fit(X, P)
    np.testing.assert_array_equal(vectors.vectors_, X[vectors.support_])


@pytest.mark.parametrize(
    "y",
    [
        np.array([[0.5, 0.6], [0.2, 0.8]]),
        np.array([[-0.5, 1.5], [0.2, 0.8]]),
        np.array([[np.nan, 1.0], [0.2, 0.8]]),
        np.array([["a", "b"], ["c", "d"]]),
        np.array([[1.0, 0.0], [1.0, 0.0]]),
        [[1, 1], [0, 1]],
    ],
)
def test_what_is_no_probability_is_refused(y):
    with pytest.raises(ValueError, match="probability"):
        SoftLabels.read(y)


def test_labels_in_one_column_are_no_soft_labels():
    for y in ([0, 1], np.zeros((3, 1)), ["a", "b"], pd.Series([1, 2]), None, [[1], [2]]):
        assert SoftLabels.read(y) is None


def test_given_kernel_values_have_no_rows_to_repeat():
    with pytest.raises(ValueError, match="soft labels"):
        BayesianSVC(kernel="precomputed").fit(X @ X.T, P)


def test_classes_that_cannot_be_told_apart_or_never_occur_are_named():
    with pytest.raises(ValueError, match="must differ"):
        SoftLabels.read(pd.DataFrame(P, columns=["a", "a"]))
    with pytest.raises(ValueError, match="class c has a probability of zero"):
        SoftLabels.read(pd.DataFrame(P, columns=["a", "b"]).assign(c=0.0))
