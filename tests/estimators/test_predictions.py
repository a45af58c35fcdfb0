"""Predictions in blocks, in either precision, of plain numbers; intervals of probabilities."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtri, softmax
from sklearn.datasets import load_breast_cancer, load_iris

from bayesvm import BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.data import Serial, Threads
from bayesvm.estimators import predictions
from bayesvm.inference import Gibbs
from bayesvm.kernels import RBF
from bayesvm.predictive.links import floored

RNG = np.random.default_rng(3)
X = RNG.standard_normal((120, 3))
Y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * RNG.standard_normal(120) > 0.5).astype(int)
NEW = RNG.standard_normal((150, 3))
KERNEL = {"kernel": 3.0 * RBF(1.5), "tune": False, "random_state": 0}


@pytest.mark.parametrize("points", [None, 30])
@pytest.mark.parametrize("engine", [Serial, Threads])
def test_predictions_in_single_precision_are_those_in_double(points, engine):
    plain = BayesianSVC(n_inducing=points, **KERNEL).fit(X, Y)
    single = BayesianSVC(n_inducing=points, engine=engine(dtype="float32"), **KERNEL).fit(X, Y)
    P = plain.predict_proba(NEW)
    np.testing.assert_allclose(single.predict_proba(NEW), P, atol=1e-4)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(single)).predict_proba(NEW), P, atol=1e-4)


@pytest.mark.parametrize("which", ["linear", "exact", "inducing", "mixed", "classes"])
def test_intervals_are_the_same_in_any_blocks_and_enclose_probabilities(which, monkeypatch):
    given = {}
    if which == "linear":
        model = BayesianLinearSVC().fit(X, Y)
    elif which == "mixed":
        model = MixedSVC().fit(X, Y, groups=np.arange(120) // 6)
        given = {"groups": np.arange(150) // 6}  # five of them are new
    elif which == "classes":
        model = BayesianSVC(**KERNEL).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    else:
        model = BayesianSVC(n_inducing=20 if which == "inducing" else None, **KERNEL).fit(X, Y)
    low, high = model.predict_interval(NEW, **given)
    P = model.predict_proba(NEW, **given)
    assert np.all((low <= P) & (high >= P) & (low < high))
    inner = model.predict_interval(NEW, 0.5, **given)
    assert np.all((low <= inner[0]) & (inner[1] <= high))
    monkeypatch.setattr(predictions, "block_rows", lambda *how, **more: 11)
    parts = model.predict_interval(NEW, **given)
    np.testing.assert_allclose(parts, (low, high), atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(NEW, **given), P, atol=1e-12)


def test_files_do_not_hold_what_is_computed_for_predictions():
    model = MixedSVC().fit(X, Y, groups=np.arange(120) // 6)
    before = len(pickle.dumps(model))
    interval = model.predict_interval(NEW)
    assert len(pickle.dumps(model)) == before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_interval(NEW), interval)


def test_rows_of_plain_numbers_are_read_as_all_others_are():
    names = ["a", "b", "c"]
    frame, new = pd.DataFrame(X, columns=names), pd.DataFrame(NEW, columns=names)
    model = BayesianLinearSVC().fit(frame, Y)
    P = model.predict_proba(new)
    np.testing.assert_allclose(model.predict_proba(new.astype(object)), P)
    np.testing.assert_allclose(model.predict_proba(new.astype({"a": np.float32})), P, atol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(new[["b", "a", "c"]])
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_allclose(model.predict_proba(NEW), P)
    with pytest.raises(ValueError, match="infinity"):
        model.predict_proba(new.where(new < 1.0, np.inf))
    gone = new.copy()
    gone.iloc[0, 0] = np.nan
    means = new.copy()
    means.iloc[0, 0] = X[:, 0].mean()
    np.testing.assert_allclose(model.predict_proba(gone), model.predict_proba(means))
    plain = BayesianLinearSVC().fit(X, Y)
    for wrong in (NEW[:, :2], NEW[0], NEW[:0]):
        with pytest.raises(ValueError):
            plain.predict_proba(wrong)


# ----- intervals under every link

LINKS = ["calibrated", "probit", "normalised"]
IRIS = load_iris(return_X_y=True)
CANCER = load_breast_cancer(return_X_y=True)


@pytest.mark.parametrize("link", LINKS)
def test_mean_and_deviation_are_both_those_of_f(link):
    X, y = CANCER
    model = BayesianLinearSVC(probability=link).fit(X, y)
    mean, std = model.decision_function(X, return_std=True)
    f = X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(mean, f + model.offset_[0], rtol=1e-9, atol=1e-9)
    draws = model.sample_posterior(1000, X, random_state=0)
    # a standard deviation of 1,000 draws is known to 2.2 %: 5 of those
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.12)
    np.testing.assert_allclose(draws.mean(axis=0), f, atol=5 * std.max() / np.sqrt(1000))
    # and the sign is that of the decision, which stays as it was
    values = model.decision_function(X)
    np.testing.assert_array_equal(values > 0, mean > 0)
    np.testing.assert_array_equal(values > 0, model.predict(X) == model.classes_[1])


def draws_of_probabilities(model, X, n=800):
    """Probabilities if f were known, drawn: ``(n, rows, classes)``; a softmax of a f."""
    f = model.sample_posterior(n, X, random_state=0)  # (n, classes, rows)
    p = softmax(model.fit_.link.a * np.moveaxis(f, 1, -1), axis=-1)
    return floored(p, model.fit_.over_classes.rows, p.shape[-1])


@pytest.mark.parametrize("link", LINKS)
def test_intervals_of_several_classes_enclose_their_probabilities(link):
    X, y = IRIS
    model = BayesianLinearSVC(probability=link).fit(X, y)
    p = model.predict_proba(X)
    for level in (0.9, 0.5):
        low, high = model.predict_interval(X, level)
        far = (p > 1e-12) & (p < 1 - 1e-12)  # from the ends, where rounding leaves no room
        assert np.all((low < p)[far])
        assert np.all((p < high)[far])
        assert np.all((low >= 0) & (high <= 1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_intervals_of_several_classes_are_those_of_normalised_probabilities():
    X, y = IRIS
    model = BayesianLinearSVC(
        inference=Gibbs(600, 50, 1), random_state=0, likelihood="logistic"
    ).fit(X, y)
    drawn = draws_of_probabilities(model, X)
    for level in (0.9, 0.5):
        low, high = model.predict_interval(X, level)
        unsure = np.abs(drawn.mean(axis=0) - 0.5) < 0.49  # others have an interval of Jeffreys
        mass = np.mean(((drawn >= low) & (drawn <= high))[:, unsure])
        # not less than expected (a mass of 800 draws, averaged over rows, is good to a hundredth),
        # nor much more: averaging over f moves one end, to hold the averaged probability
        assert level - 0.02 < mass < (1.0 + level) / 2 + 0.02


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("level", [0.9, 0.5])
def test_intervals_of_two_classes_enclose_their_probabilities(link, level):
    X, y = CANCER
    for covariance in ("robust", "model"):
        model = BayesianLinearSVC(probability=link, covariance=covariance).fit(X, y)
        p = model.predict_proba(X)
        low, high = model.predict_interval(X, level)
        far = (p > 1e-12) & (p < 1 - 1e-12)
        assert np.all((low < p)[far])
        assert np.all((p < high)[far])
        np.testing.assert_allclose(low[:, 0], 1.0 - high[:, 1], atol=1e-12)
    # what the posterior of f says by itself is inside, with the floor of all probabilities
    f, std = model.decision_function(X, return_std=True)
    reach = ndtri(0.5 + level / 2) * std
    ends = [
        model.machines_[0].link.logit(f - model.offset_[0] + k * reach, 0.0 * f) for k in (-1, 1)
    ]
    least, most = (floored(expit(end), model.machines_[0].link.rows, 2) for end in ends)
    assert np.all(low[:, 1] <= least * (1 + 1e-9) + 1e-300)  # but for underflow
    assert np.all(high[:, 1] >= most * (1 - 1e-9))
