"""Models in files, also files that somebody has changed."""

import io
import os
import re
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from tests.data.ways import check_flipped_bits

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
    with pytest.raises(ValueError, match="was not opened") as refusal:
        bayesvm.load(tmp_path / "model")
    if "np.save" in text:
        assert re.search(r"calls 'np\.save'.*columns, operators and.*np\.log", str(refusal.value))
    with pytest.raises((ValueError, AttributeError)):  # nor is it run by a fit
        model.fit(FRAME)


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


@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x03\x04", None])
def test_another_file_is_named_as_such(content, tmp_path):
    if content is None:
        sio.dump(StandardScaler(), tmp_path / "other")
    else:
        (tmp_path / "other").write_bytes(content)
    with pytest.raises(ValueError, match=r"not (a file )?written by"):
        bayesvm.load(tmp_path / "other")


def test_flipped_bits_of_a_model_file_are_found(tmp_path):
    file, model = tmp_path / "model", BayesianLinearSVC().fit(X, y)
    bayesvm.save(model, file)
    with zipfile.ZipFile(file) as archive:
        arrays = [m for m in archive.infolist() if m.filename.endswith(".npy")]
    within = [m.header_offset + 30 + len(m.filename) + k for m in arrays[:6] for k in (7, 30, -1)]
    places = [*np.linspace(0, file.stat().st_size - 1, 30).astype(int), *within]
    wanted = model.predict_proba(X)
    check_flipped_bits(file, places, lambda: bayesvm.load(file).predict_proba(X), wanted)


def forged(file, change):
    """A saved model with its largest array, or the archive, changed."""
    bayesvm.save(BayesianLinearSVC().fit(X, y), file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(file, members)


def with_shape(shape):
    def change(file, members):
        name = next(name for name in members if name.endswith(".npy"))
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "<f8", "fortran_order": False, "shape": shape}
        )
        members[name] = head.getvalue() + bytes(80)
        with zipfile.ZipFile(file, "w") as archive:
            for each, data in members.items():
                archive.writestr(each, data)

    return change


def compressed(file, members):
    name = next(name for name in members if name.endswith(".npy"))
    array = io.BytesIO()
    np.save(array, np.zeros(10**6))
    members[name] = array.getvalue()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in members.items():
            archive.writestr(each, data)


@pytest.mark.parametrize(
    "change",
    [with_shape((10**13,)), with_shape((10**10, 10**10)), compressed],
    ids=["80 TB", "1e20", "compressed"],
)
def test_sizes_in_a_model_file_are_checked_before_memory_is_taken(change, tmp_path):
    forged(tmp_path / "model", change)
    with pytest.raises(ValueError, match=r"model is not a file written by bayesvm.save, or it is"):
        bayesvm.load(tmp_path / "model")


def test_sparse_arrays_in_a_model_file_inflate_within_limits(tmp_path):
    model = BayesianLinearSVC()
    model.extra_ = sparse.csr_array(
        (np.zeros(6 * 10**6), np.zeros(6 * 10**6, int), [0, 6 * 10**6]), shape=(1, 6 * 10**6)
    )
    held = {"format": 2, "version": bayesvm.__version__, "model": model}
    sio.dump(held, tmp_path / "model")
    with pytest.raises(ValueError, match="too large when inflated"):
        bayesvm.load(tmp_path / "model")
    model.extra_ = sparse.csr_array(X)
    sio.dump(held, tmp_path / "model")
    assert np.array_equal(bayesvm.load(tmp_path / "model").extra_.toarray(), X)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"format": 2, "version": "0.1.0"}, "holds no model"),
        ({"format": 2, "version": "0.1.0", "model": 5}, "holds no model: it has an object of int"),
        (
            {"format": 2, "version": "99.0", "model": BayesianLinearSVC()},
            "an earlier one: got '99.0'",
        ),
        ({"format": 2, "model": BayesianLinearSVC()}, "an earlier one: got None"),
    ],
    ids=["no model", "five", "too new", "no version"],
)
def test_a_model_file_holds_a_model_of_a_known_version(held, message, tmp_path):
    sio.dump(held, tmp_path / "model")
    with pytest.raises(ValueError, match=message) as found:
        bayesvm.load(tmp_path / "model")
    assert str(tmp_path / "model") in str(found.value)


def test_what_is_no_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="type int"):
        bayesvm.save(5, tmp_path / "model")
    assert os.listdir(tmp_path) == []
