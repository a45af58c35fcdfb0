"""What users see of an estimator: before fit, errors that translate, logs of probabilities."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bayesvm
from bayesvm import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.where(X[:, 0] + RNG.logistic(size=60) > 0, "<i>yes</i>", "no")
EVERY = [
    BayesianLinearSVC(),
    MixedSVC(),
    BayesianSVC(tune=False),
    AdditiveSVC(),
    PCVC(tune=False),
    RVC(tune=False),
    FactorSVC(1, random_state=0),
]


BEFORE = {"fit", "partial_fit", "fit_transform", "from_formula", "get_params", "set_params"}
BEFORE |= {"get_metadata_routing", "set_output"}
GIVEN = {"X": X, "y": [0, 1, 0], "n": 2, "indices": [0], "columns": None, "names": None}


@pytest.mark.parametrize("model", EVERY, ids=lambda m: type(m).__name__)
def test_what_is_asked_before_fit(model, tmp_path):
    model = clone(model)
    asked = 0
    for name, method in inspect.getmembers(type(model), callable):
        skipped = name.startswith(("_", "set_")) or name in BEFORE or inspect.isclass(method)
        if skipped or not hasattr(model, name):  # such as the novelty of sparse kernel classifiers
            continue
        call, asked = getattr(model, name), asked + 1
        needed = [
            k
            for k, p in inspect.signature(call).parameters.items()
            if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call(**{k: GIVEN.get(k, 0) for k in needed})
    assert asked > 5
    for attribute in ("classes_", "feature_importances_", "coef_", "kernel_", "n_iter_"):
        assert not hasattr(model, attribute)
    with pytest.raises(NotFittedError, match="fit"):
        bayesvm.save(model, tmp_path / "model")


@pytest.mark.parametrize("model", EVERY, ids=lambda m: type(m).__name__)
def test_logs_are_those_of_the_probabilities(model):
    model = clone(model).fit(X, Y)
    assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)), rtol=1e-12)
    shares = {"<i>yes</i>": 0.1, "no": 0.9}
    logs = model.predict_log_proba(X, prevalence=shares)
    assert_allclose(np.exp(logs), model.predict_proba(X, prevalence=shares), rtol=1e-12)


@pytest.mark.parametrize(
    ("work", "error", "told"),
    [
        (lambda: BayesianSVC().fit(sparse.csr_array(X), Y), TypeError, "BayesianLinearSVC takes"),
        (lambda: BayesianSVC().fit(sparse.csr_array(X), Y), TypeError, "sparse_output=False"),
        (lambda: BayesianSVC().fit(X, np.ones((60, 3))), ValueError, "MultiOutputClassifier"),
    ],
)
def test_what_is_different_is_said_in_words(work, error, told):
    with pytest.raises(error, match=told):
        work()


def test_logs_of_zero_are_finite():
    model = BayesianLinearSVC(prior="fixed", probability="normalised").fit(X, Y)
    with np.errstate(all="raise"):
        logs = model.predict_log_proba(np.array([[1e6, 0.0], [-1e6, 0.0]]))
    assert np.all(np.isfinite(logs))
    groups = np.arange(60) % 5
    mixed = MixedSVC().fit(X, Y, groups=groups)
    assert_allclose(
        mixed.predict_log_proba(X, groups), np.log(mixed.predict_proba(X, groups)), rtol=1e-12
    )


def test_logs_are_of_the_kind_of_the_rows():
    da = pytest.importorskip("dask.array")
    model = BayesianLinearSVC().fit(X, Y)
    lazy = model.predict_log_proba(da.from_array(X, chunks=20))
    assert_allclose(lazy.compute(), model.predict_log_proba(X), rtol=1e-12)
    torch = pytest.importorskip("torch")
    logs = model.predict_log_proba(torch.from_numpy(X))
    assert isinstance(logs, torch.Tensor)
    assert_allclose(logs, model.predict_log_proba(X), rtol=1e-9)


def test_other_errors_of_parameters_stay():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        BayesianSVC(nonsense=1)
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        BayesianSVC().set_params(nonsense=1)
