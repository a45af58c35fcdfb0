"""The shape of the package: imports go down, shared parameters have one default."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator, is_classifier

import bayesvm
from bayesvm import (
    PCVC,
    RVC,
    AdditiveSVC,
    BayesianLinearSVC,
    BayesianSVC,
    BayesianSVR,
    FactorSVC,
    MixedSVC,
)

ROOT = Path(__file__).parents[1]
ESTIMATORS = (
    *(AdditiveSVC, BayesianLinearSVC, BayesianSVC, BayesianSVR),
    *(FactorSVC, MixedSVC, PCVC, RVC),
)

# Parameters that mean the same wherever they occur, and their default.
SHARED = {
    "inference": "vb",
    "fit_intercept": True,
    "intercept_scale": None,
    "categorical": "auto",
    "missing": "auto",
    "standardize": True,
    "probability": "calibrated",
    "class_weight": None,
    "engine": "auto",
    "max_iter": None,
    "tol": None,
    "random_state": None,
    "n_jobs": None,
    "verbose": 0,
    "callbacks": None,
    "warm_start": False,
    "checkpoint": None,
}


CHOSEN = {"likelihood", "kernel"}  # for each estimator, by scores: see docs/benchmarks.md


@pytest.fixture(scope="module")
def graph():
    spec = importlib.util.spec_from_file_location("graph", ROOT / "docs" / "import_graph.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_folder_imports_one_above_it(graph):
    assert graph.upward(graph.edges()) == []


def test_upward_imports_are_found(graph):
    edges = {("core", "data"): ["core/types.py"], ("data", "core"): ["data/cut.py"]}
    assert graph.upward(edges) == ["core/types.py in core import data, which is above"]


def test_nothing_is_loose_at_the_top_level(graph):
    assert graph.loose() == []


def test_the_graph_is_drawn(graph):
    picture = graph.draw(graph.edges())
    assert picture.count("<path") == len(graph.edges())
    for folder in graph.ORDER:
        assert f">{folder}</text>" in picture


def parameters(cls):
    signature = inspect.signature(cls)
    return {name: p.default for name, p in signature.parameters.items()}


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_shared_parameters_have_one_default(cls):
    given = parameters(cls)
    assert {k: v for k, v in given.items() if k in SHARED} == {
        k: v for k, v in SHARED.items() if k in given
    }


def test_a_parameter_of_several_estimators_is_on_the_list_or_has_one_default():
    found = {}
    for cls in ESTIMATORS:
        for name, default in parameters(cls).items():
            found.setdefault(name, {})[cls.__name__] = default
    several = {k: d for k, d in found.items() if len(d) > 1 and k not in SHARED and k not in CHOSEN}
    differing = {name: d for name, d in several.items() if len({repr(v) for v in d.values()}) > 1}
    assert differing == {}


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_docstrings_describe_all_parameters_in_order(cls):
    section = inspect.getdoc(cls).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = [line.split(" :")[0] for line in section.splitlines() if not line.startswith(" ")]
    assert [name for head in heads for name in head.split(", ")] == list(parameters(cls))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_what_defines_the_model_comes_first_and_is_short(cls):
    own = [name for name in parameters(cls) if name not in SHARED or name == "inference"]
    assert len(own) <= 10


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_estimators_have_few_bases(cls):
    """scikit-learn's own ancestors aside: the base of all, of classifiers, and shared reports."""
    ours = [k.__name__ for k in cls.__mro__ if k.__module__.startswith("bayesvm.")]
    bases = (["BayesianClassifier"] if is_classifier(cls()) else []) + ["BayesianEstimator"]
    assert [ours[0], *ours[-len(bases) :]] == [cls.__name__, *bases]
    shared = {"GroupReports", "LinearClassifier", "LinearReports", "VectorClassifier"}
    assert set(ours[1 : -len(bases)]) <= shared
    above = [k for k in cls.__mro__ if k not in BaseEstimator.__mro__]
    assert len(above) <= 7


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_summaries_take_a_level(cls):
    assert inspect.signature(cls.summary).parameters["level"].default == 0.9


def test_importing_the_package_imports_nothing_else():
    code = "import sys, bayesvm; print(*[m for m in sys.modules if m.startswith('bayesvm.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_an_estimator_does_not_import_what_it_does_not_use():
    code = (
        "import sys; from bayesvm import BayesianLinearSVC as m; "
        "print(*[k for k in sys.modules if k.startswith('bayesvm.') or k == 'matplotlib'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    folders = {name.split(".")[1] if "." in name else name for name in done.stdout.split()}
    unused = {"compare", "plot", "datasets", "cli", "export", "html_report"}
    unused |= {"sparse_kernel", "factor_models", "matplotlib"}
    assert folders & unused == set()


def test_public_names_exist():
    for name in bayesvm.__all__:
        assert getattr(bayesvm, name) is not None
    assert set(bayesvm.__all__) <= set(dir(bayesvm))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bayesvm.nothing  # noqa: B018
