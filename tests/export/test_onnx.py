"""ONNX models give the numbers of the estimators that they were written from."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from bayesvm import (
    PCVC,
    RVC,
    AdditiveSVC,
    BayesianLinearSVC,
    BayesianSVC,
    FactorSVC,
    MixedSVC,
    save,
    to_onnx,
)
from bayesvm.inference import Gibbs
from bayesvm.kernels import RBF, Function, Linear, Matern, Polynomial
from bayesvm.terms import Columns, Intercept, Missing, Process

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

CLASSES = pytest.mark.parametrize("classes", [2, 3])
TERMS = [("level", Intercept()), ("s", Process(0, n_inducing=8)), ("x", Columns([1, 2, 3]))]


def data(classes, n=70):
    X, y = load_iris(return_X_y=True) if classes == 3 else load_breast_cancer(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(y))[:n]
    return X[some, :4], y[some]


def new_rows(X):
    """Rows near the training rows, far from them, and beyond all of them."""
    return np.vstack([X[:40], 3.0 * X[:20] + 5.0, X[:5] - 100.0])


def run(model, X, text=None, **options):
    session = runtime.InferenceSession(
        to_onnx(model, **options).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [end.name for end in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X} | (text or {})), strict=True))


def check(model, X, level=0.9, tol=1e-5):
    """Outputs of the graph against the estimator's."""
    got = run(model, X, level=level)
    np.testing.assert_array_equal(got["label"], model.predict(X))
    np.testing.assert_allclose(got["probabilities"], model.predict_proba(X), atol=tol)
    for name, end in zip(("lower", "upper"), model.predict_interval(X, level=level)):
        np.testing.assert_allclose(got[name], end, atol=tol)


@CLASSES
@pytest.mark.parametrize(
    "model",
    [
        BayesianLinearSVC(),
        BayesianLinearSVC(likelihood="hinge", prior="ridge", probability="probit"),
        BayesianSVC(random_state=0),
        BayesianSVC(kernel=0.5 * Matern(2.0, nu=2.5) * RBF(3.0) + Linear(4.0), n_inducing=12),
        PCVC(random_state=0),
        RVC(random_state=0),
        AdditiveSVC(TERMS, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_outputs_are_the_estimators(model, classes):
    X, y = data(classes)
    # log odds of a probit at f of 1000 are 1e6, and their differences have few digits
    check(model.fit(X, y), X if model.probability == "probit" else new_rows(X))


def test_terms_with_missing_cells():
    pd = pytest.importorskip("pandas")
    X, y = data(2)
    frame = pd.DataFrame(X, columns=list("pqrs"))
    model = AdditiveSVC([("level", Intercept()), ("x", Missing(Columns(["p", "s"])))]).fit(frame, y)
    got = run(model, X)
    np.testing.assert_allclose(got["probabilities"], model.predict_proba(frame), atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        BayesianLinearSVC(),
        BayesianSVC(),
        BayesianSVC(Polynomial(2, np.linspace(2.0, 5.0, 10)), tune=False),  # indicators have theirs
    ],
    ids=["linear", "rbf", "polynomial"],
)
def test_text_and_missing_cells(model):
    pd = pytest.importorskip("pandas")
    X, y = data(2)
    rng = np.random.default_rng(3)
    X[rng.random(X.shape) < 0.1] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame.insert(1, "X", rng.choice(["p", "q"], len(y)))
    frame["kind"] = rng.choice(["one", "two", "thr\nee"], len(y))
    model.fit(frame, y)
    new = frame[:30].copy()
    new.loc[[0, 3], ["X", "kind"]] = "unseen"
    text = {"X_": new["X"].to_numpy(object), "kind": new["kind"].to_numpy(object)}
    got = run(model, X[:30], text)
    np.testing.assert_allclose(got["probabilities"], model.predict_proba(new), atol=1e-9)
    np.testing.assert_allclose(got["upper"], model.predict_interval(new)[1], atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_schemes():
    X, y = data(2, 60)
    check(BayesianLinearSVC(inference="svi", random_state=0).fit(X, y), new_rows(X))
    drawn = BayesianLinearSVC(inference=Gibbs(60, 30), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="give level=None"):
        to_onnx(drawn)


def test_more_columns_than_rows_and_one_row():
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((25, 40)), np.arange(25) % 2
    check(model := BayesianLinearSVC().fit(X, y), 2.0 * X)
    check(model, X[:1], level=0.5)


def test_point_estimates_have_no_intervals():
    X, y = data(2)
    model = BayesianLinearSVC(inference="em").fit(X, y)
    got = run(model, X)
    assert set(got) == {"label", "probabilities"}
    np.testing.assert_allclose(got["probabilities"], model.predict_proba(X), atol=1e-9)
    assert set(run(BayesianLinearSVC().fit(X, y), X, level=None)) == set(got)


@pytest.mark.parametrize("labels", [["no", "ja"], [False, True], [-1, 7], [1.0, 2.0]])
def test_labels_keep_their_type(labels):
    X, y = data(2, 60)
    model = BayesianLinearSVC().fit(X, np.array(labels)[y])
    got = run(model, X)["label"]
    np.testing.assert_array_equal(got, model.predict(X))
    assert isinstance(got[0], type(labels[0]) if labels[0] == "no" else np.generic)


def test_single_precision_at_the_border_only():
    X, y = data(2)
    X = X.astype(np.float32)
    model = BayesianSVC(random_state=0).fit(X, y)
    got = run(model, X, dtype="float32")
    assert got["probabilities"].dtype == got["upper"].dtype == np.float32
    np.testing.assert_allclose(got["probabilities"], model.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (BayesianSVC(kernel=Function(lambda A, B: A @ B.T)), "kernel of the type Function"),
        (FactorSVC(n_factors=1), "scores are latent"),
        (FactorSVC(n_factors=1, classifier="linear"), "type FactorScores"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_cannot_be_written_is_refused(model, reason):
    X, y = data(2, 40)
    with pytest.raises(ValueError, match=reason):
        to_onnx(model.fit(X, y))


def test_groups_are_refused():
    X, y = data(2, 60)
    model = MixedSVC().fit(X, y, groups=np.arange(60) % 6)
    with pytest.raises(ValueError, match="groups may be new"):
        to_onnx(model)


def test_a_kernel_export_is_about_as_large_as_the_model_file(tmp_path):
    pytest.importorskip("skops")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    model = BayesianSVC(random_state=0).fit(X, np.sin(X[:, 0]) + rng.logistic(size=400) > 0)
    save(model, tmp_path / "m.bayesvm")
    to_onnx(model, tmp_path / "m.onnx")
    sizes = [(tmp_path / name).stat().st_size for name in ("m.onnx", "m.bayesvm")]
    # the graph holds in double precision what the file holds in single, and its nodes
    assert sizes[0] < 2.1 * sizes[1]


def test_truth_values_are_refused_with_a_remedy():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(60), "old": rng.random(60) < 0.5})
    frame["old"] = frame["old"].astype("category")
    y = frame["x"] + rng.logistic(size=60) > 0
    with pytest.raises(ValueError, match=r"'old'.*fit with 0 and 1"):
        to_onnx(BayesianLinearSVC().fit(frame, y))


def test_what_is_no_estimator_is_refused():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    X, y = data(2, 40)
    for model in (LogisticRegression(), make_pipeline(BayesianLinearSVC())):
        with pytest.raises(ValueError, match="takes an estimator of bayesvm"):
            to_onnx(model.fit(X, y))
    with pytest.raises(ValueError, match="dtype must be"):
        to_onnx(BayesianLinearSVC().fit(X, y), dtype="int8")


def test_the_command_writes_the_file(tmp_path):
    pytest.importorskip("skops")
    app, runner = pytest.importorskip("bayesvm.cli").app, pytest.importorskip("typer.testing")
    X, y = data(2, 60)
    model = BayesianLinearSVC().fit(X, y)
    save(model, tmp_path / "m.bayesvm")
    done = runner.CliRunner().invoke(app, ["export", str(tmp_path / "m.bayesvm"), "--level", "0.5"])
    assert done.exit_code == 0, done.output
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    lower = session.run(["lower"], {"X": X})[0]
    np.testing.assert_allclose(lower, model.predict_interval(X, level=0.5)[0], atol=1e-9)
