"""Models in files."""

import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import bayesvm
from bayesvm import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.data import Gpu, Threads
from bayesvm.estimators.formula import Code
from bayesvm.inference import VB, Gibbs
from bayesvm.terms import Columns, Intercept, Process

sio = pytest.importorskip("skops.io")
X, y = load_iris(return_X_y=True)

MODELS = [
    BayesianLinearSVC(),
    BayesianLinearSVC(inference="em"),
    BayesianLinearSVC(prior="spike_slab", inference=Gibbs(draws=30, burn_in=10), random_state=0),
    BayesianLinearSVC(inference=VB(covariance="diagonal"), likelihood="logistic"),
    BayesianSVC(tune=False),
    BayesianSVC(n_inducing=10, tune=False, random_state=0),
    PCVC(tune=False),
    RVC(tune=False),
    AdditiveSVC([("l", Intercept()), ("x", Columns([0])), ("f", Process([1, 2], n_inducing=5))]),
    make_pipeline(StandardScaler(), BayesianLinearSVC()),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_model_comes_back_as_it_was(model, tmp_path):
    model.fit(X, y)
    bayesvm.save(model, tmp_path / "model")
    back = bayesvm.load(tmp_path / "model")
    assert type(back) is type(model)
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))


def test_code_of_ones_own_is_refused_when_saving(tmp_path):
    model = BayesianLinearSVC(callbacks=[lambda progress: None]).fit(X, y)
    with pytest.raises(ValueError, match="set them to None"):
        bayesvm.save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


FRAME = pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 3, "a", "b"), "y": y > 0})
FRAME["g"] = np.arange(150) % 7
NUMBERS = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
TEXT = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False))
BY_KIND = [("n", NUMBERS, make_column_selector(dtype_include="number")), ("t", TEXT, ["kind"])]


@pytest.mark.parametrize(
    ("step", "columns"),
    [(NUMBERS, ["x", "g"]), (TEXT, ["kind"]), (ColumnTransformer(BY_KIND), ["x", "kind", "g"])],
    ids=["numbers", "text", "both"],
)
def test_a_pipeline_with_steps_of_scikit_learn_comes_back(step, columns, tmp_path):
    rows = FRAME[columns].astype({"x": "float32"} if "x" in columns else {})
    if "x" in columns:
        rows.loc[3, "x"] = np.nan
    model = bayesvm.make_pipeline(step, BayesianLinearSVC()).fit(rows, FRAME["y"])
    bayesvm.save(model, tmp_path / "model")
    back = bayesvm.load(tmp_path / "model")
    assert np.array_equal(back.predict_proba(rows), model.predict_proba(rows))


def test_the_step_that_holds_code_is_named(tmp_path):
    model = make_pipeline(StandardScaler(), FunctionTransformer(_doubled), BayesianLinearSVC())
    with pytest.raises(ValueError, match="in the step 'functiontransformer', which"):
        bayesvm.save(model.fit(X, y), tmp_path / "model")


def _doubled(x):
    return 2 * x


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("text", ["y ~ x * kind + (1 + x | g)", "y ~ scale(x) + C(g)"])
def test_a_formula_without_functions_comes_back(text, tmp_path):
    pytest.importorskip("formulae")
    model = MixedSVC.from_formula(text, FRAME)
    bayesvm.save(model, tmp_path / "model")
    back = bayesvm.load(tmp_path / "model")
    assert np.array_equal(back.predict_proba(FRAME), model.predict_proba(FRAME))
    assert list(back.summary().index) == list(model.summary().index)
    assert back.random_effects_.equals(model.random_effects_)


def test_a_formula_that_is_code_is_neither_saved_nor_run(tmp_path, monkeypatch):
    formulae = pytest.importorskip("formulae")
    model = MixedSVC.from_formula("y ~ np.exp(x) + (1 | g)", FRAME)
    with pytest.raises(
        ValueError, match=r"'y ~ np.exp\(x\) .*' calls functions, and they are code"
    ):
        bayesvm.save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    # a file that somebody else has made of such a formula
    forged = object.__new__(Code)
    forged.__dict__.update(text="y ~ np.exp(x)", frame=None)
    with monkeypatch.context() as patch:
        patch.setattr(Code, "__getstate__", lambda self: self.__dict__)
        sio.dump({"format": 2, "version": "0", "model": forged}, tmp_path / "model")

    def run(*_, **__):
        raise AssertionError("the formula was run")

    monkeypatch.setattr(formulae, "design_matrices", run)
    with pytest.raises(ValueError, match="holds no model"):
        bayesvm.load(tmp_path / "model")


HOSTILE = [
    "y ~ x + np.save('PWNED', x)",
    "y ~ x + np.save['a']('PWNED', x)",  # formulae calls the name before the brackets
    "y ~ x + scale(np.testing.measure('exec(1)'))",
    "y ~ x + (1 + {os.system('x')} | g)",
    "y ~ x + C(x, levels=open('PWNED'))",
    "y ~ x + `scale`(x)",
    "y ~ x + (scale)(x)",
    "y ~ x + (x",
    ["y ~ x"],
]


@pytest.mark.parametrize("text", HOSTILE, ids=str)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_formula_that_calls_other_functions_is_refused_at_load(text, wrapped, tmp_path):
    pytest.importorskip("formulae")
    model = BayesianLinearSVC.from_formula("y ~ x", FRAME)
    model.formula = text
    bayesvm.save(make_pipeline(model) if wrapped else model, tmp_path / "model")
    with pytest.raises(ValueError, match="was not opened"):
        bayesvm.load(tmp_path / "model")
    with pytest.raises((ValueError, AttributeError)):  # nor is it run by a fit
        model.fit(FRAME)


@pytest.mark.parametrize("text", HOSTILE[:2])
def test_the_error_names_what_was_found_and_what_is_allowed(text, tmp_path):
    pytest.importorskip("formulae")
    model = BayesianLinearSVC.from_formula("y ~ x", FRAME)
    bayesvm.save(model.set_params(formula=text), tmp_path / "model")
    with pytest.raises(ValueError, match=r"calls 'np\.save'.*columns, operators and.*np\.log"):
        bayesvm.load(tmp_path / "model")


def test_a_refit_of_a_loaded_model_writes_and_imports_nothing_the_file_names(tmp_path):
    model = BayesianLinearSVC().fit(X, y)
    model.set_params(checkpoint=str(tmp_path / "checkpoint"), engine=Gpu("cpu", "this"))
    bayesvm.save(model, tmp_path / "model")
    back = bayesvm.load(tmp_path / "model")
    assert back.checkpoint is None
    with pytest.raises(ValueError, match="backend must be 'torch'; got 'this'"):
        back.fit(X, y)
    assert "this" not in sys.modules
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_loaded_pipeline_has_no_memory_on_disk(tmp_path):
    """It would unpickle what it finds there when it is fitted again."""
    model = Pipeline(
        [("scale", StandardScaler()), ("model", BayesianLinearSVC(engine=Threads(memory=2**20)))],
        memory=str(tmp_path / "cache"),
    ).fit(X, y)
    bayesvm.save(model, tmp_path / "model")
    back = bayesvm.load(tmp_path / "model")
    assert back.memory is None
    assert back["model"].engine.memory == 2**20


class Trap:
    """What an attacker would like to be made."""

    def __setstate__(self, state):
        raise AssertionError("the trap was sprung")

    def __getstate__(self):
        return {"x": 1}


def test_a_file_with_foreign_types_is_not_opened(tmp_path):
    sio.dump({"format": 2, "version": "0", "model": Trap()}, tmp_path / "model")
    with pytest.raises(ValueError, match="Trap"):
        bayesvm.load(tmp_path / "model")


def test_what_the_package_merely_imports_is_foreign():
    from bayesvm.data.storage import _is_ours

    assert _is_ours("bayesvm.inference.model.Model")
    assert not _is_ours("bayesvm.inference.model.np")
    assert not _is_ours("bayesvm.data.storage.Path")
    assert not _is_ours("bayesvm.data.storage.load")
    assert not _is_ours("bayesvm.nowhere.Thing")
    assert not _is_ours("os.system")


@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x03\x04"])
def test_another_file_is_named_as_such(content, tmp_path):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ValueError, match="not a file written by"):
        bayesvm.load(tmp_path / "other")


def test_another_skops_file_is_named_as_such(tmp_path):
    sio.dump(StandardScaler(), tmp_path / "other")
    with pytest.raises(ValueError, match="not written by"):
        bayesvm.load(tmp_path / "other")


def test_flipped_bits_of_a_model_file_are_found(tmp_path):
    file, model = tmp_path / "model", BayesianLinearSVC().fit(X, y)
    bayesvm.save(model, file)
    data, wanted = file.read_bytes(), model.predict_proba(X)
    with zipfile.ZipFile(file) as archive:
        arrays = [m for m in archive.infolist() if m.filename.endswith(".npy")]
    within = [m.header_offset + 30 + len(m.filename) + k for m in arrays[:6] for k in (7, 30, -1)]
    for place in [*np.linspace(0, len(data) - 1, 30).astype(int), *within]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place % 8)
        file.write_bytes(damaged)
        refusal = ""
        try:
            found = bayesvm.load(file)
        except ValueError as error:
            refusal = str(error)
        if refusal:
            assert str(file) in refusal
        else:
            np.testing.assert_allclose(found.predict_proba(X), wanted, rtol=1e-6, atol=1e-9)
