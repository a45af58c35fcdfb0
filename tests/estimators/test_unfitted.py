"""What estimators answer before ``fit``."""

import inspect

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import bayesvm
from bayesvm import terms

ESTIMATORS = {
    "AdditiveSVC": lambda: bayesvm.AdditiveSVC([terms.Columns(["x"])]),
    "BayesianLinearSVC": bayesvm.BayesianLinearSVC,
    "BayesianSVC": bayesvm.BayesianSVC,
    "FactorSVC": bayesvm.FactorSVC,
    "MixedSVC": bayesvm.MixedSVC,
    "PCVC": bayesvm.PCVC,
    "RVC": bayesvm.RVC,
}
BEFORE = {"fit", "partial_fit", "fit_transform", "from_formula", "get_params", "set_params"}
BEFORE |= {"get_metadata_routing", "set_output"}
X = np.zeros((3, 2))
GIVEN = {"X": X, "y": [0, 1, 0], "n": 2, "indices": [0], "columns": None, "names": None}


def methods():
    for name, make in ESTIMATORS.items():
        kind = type(make())
        for method, value in inspect.getmembers(kind, callable):
            public = not method.startswith("_") and not method.startswith("set_")
            if public and method not in BEFORE and not inspect.isclass(value):
                yield pytest.param(name, method, id=f"{name}-{method}")


@pytest.mark.parametrize(("name", "method"), methods())
def test_methods_ask_for_fit(name, method):
    call = getattr(ESTIMATORS[name](), method)
    needed = [
        k
        for k, p in inspect.signature(call).parameters.items()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    with pytest.raises(NotFittedError, match="not fitted yet"):
        call(**{k: GIVEN.get(k, 0) for k in needed})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_attributes_are_absent(name):
    model = ESTIMATORS[name]()
    for attribute in ("classes_", "feature_importances_", "coef_", "kernel_", "n_iter_"):
        assert not hasattr(model, attribute)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_files_and_exports_ask_for_fit(name, tmp_path):
    with pytest.raises(NotFittedError, match="fit"):
        bayesvm.save(ESTIMATORS[name](), tmp_path / "model")
