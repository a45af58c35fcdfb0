"""Parameters that estimators have in common."""

import warnings

import numpy as np
import pytest

from bayesvm import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.core.parameters import CONSTRAINTS, check_draws
from bayesvm.data import Serial
from bayesvm.sparse_kernel import Power
from bayesvm.terms import Columns

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.arange(12) % 2
KINDS = [
    BayesianLinearSVC(),
    BayesianSVC(),
    PCVC(),
    RVC(),
    MixedSVC(),
    FactorSVC(1, inference="gibbs"),
    AdditiveSVC([("x", Columns(), "ridge")]),
]
WRONG = {
    "n_jobs": [0, "two"],
    "standardize": ["yes"],
    "fit_intercept": [None],
    "warm_start": [1],
    "joint": ["x"],
    "max_iter": [0],
    "tol": [-1.0, float("nan")],
    "callbacks": [3, print],
    "checkpoint": [5],
    "probability": ["odds", True],
    "verbose": ["loud", -1],
}


@pytest.mark.parametrize("model", KINDS, ids=lambda model: type(model).__name__)
def test_wrong_values_are_refused_by_every_estimator(model):
    known = model.get_params(deep=False)
    groups = {"groups": np.arange(12) % 3} if isinstance(model, MixedSVC) else {}
    assert set(known) & set(CONSTRAINTS)
    for name in WRONG.keys() & known.keys():
        for value in WRONG[name]:
            with pytest.raises(ValueError, match=f"'{name}' parameter of {type(model).__name__}"):
                type(model)(**(known | {name: value})).fit(X, Y, **groups)


def test_precision_of_the_kernel_machine_is_checked_for_few_rows_too():
    with pytest.raises(ValueError, match=r"dtype=.* is not known; choose 'auto'"):
        BayesianSVC(engine=Serial(dtype="foo")).fit(X, Y)


def test_tables_and_streams_are_checked_too():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(ValueError, match="n_jobs"):
        AdditiveSVC([("x", Columns(["a"]), "ridge")], n_jobs=0).fit(frame, Y)
    with pytest.raises(ValueError, match="standardize"):
        BayesianLinearSVC(standardize="no").partial_fit(X, Y, classes=[0, 1])


@pytest.mark.parametrize(
    "model",
    [
        BayesianLinearSVC(max_iter=50, tol=1e-4),
        BayesianLinearSVC(inference="em", max_iter=50),
        PCVC(tune=False, norm_penalty=0, n_folds=3),
        PCVC(tune=False, weight_prior=Power(-0.2, n_starts=0), max_iter=300),
        PCVC(tune=False, max_iter=None, n_folds=5),
        RVC(n_folds=3),
        BayesianSVC(tune=False, n_inducing=4, inducing="random", approximation="fitc"),
        FactorSVC(1, "linear", max_iter=50),
    ],
    ids=repr,
)
def test_parameters_with_an_effect_are_not_warned_of(model):
    X = np.random.default_rng(0).normal(size=(40, 2))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*no effect")
        model.fit(X, (X[:, 0] > 0).astype(int))


@pytest.mark.parametrize("wrong", [X, 2.5, 0, True, "5"], ids=lambda x: type(x).__name__)
def test_a_number_of_draws_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match="n, the number of draws, must be a whole number"):
        check_draws(wrong)
