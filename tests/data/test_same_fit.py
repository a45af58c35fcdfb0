"""One fit, whoever visits the rows: serial, threads, files, Dask and torch."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from tests.data.ways import WAYS, computed, dasked, filed, gap, rows_in, shrink, torched
from tests.problems import engines

from bayesvm import BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.data import Dask, Gpu, Serial, block_rows, from_iterable
from bayesvm.inference import VB, Gibbs
from bayesvm.kernels import RBF, Linear, Matern
from bayesvm.likelihoods import SkewedLaplace

N, P = 2400, 4
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, P))
Y = (RNG.random(N) < 1 / (1 + np.exp(-2 * (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2])))).astype(int)
KINDS = (X @ RNG.standard_normal((P, 3)) + RNG.gumbel(size=(N, 3))).argmax(axis=1)
KERNEL = 3.0 * RBF((1.5, 2.0, 2.0, 3.0)) + 0.5 * Matern(2.0) * Linear()
WEIGHTED = {"class_weight": {0: 0.5, 1: 3.0}}
MODELS = {
    "linear": (BayesianLinearSVC(random_state=0), Y),
    "several classes": (BayesianLinearSVC("ridge", likelihood="logistic", random_state=0), KINDS),
    "weighted": (BayesianLinearSVC(random_state=0, **WEIGHTED), Y),
    "kernel": (BayesianSVC(KERNEL, 24, tune=False, random_state=0), Y),
    "kernel, weighted": (BayesianSVC(KERNEL, 24, tune=False, random_state=0, **WEIGHTED), Y),
    "moving": (BayesianSVC(KERNEL, 6, tune=False, inducing="optimise", random_state=0), Y),
}
ways = pytest.mark.parametrize("way", WAYS)
models = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    shrink(monkeypatch, 2**15)


def fitted(name, rows, labels, dtype="float64", memory=None, **options):
    with engines(dtype=dtype, memory=memory):
        return clone(MODELS[name][0]).set_params(**options).fit(rows, labels)


@pytest.fixture(scope="module")
def reference():
    """Fits by the serial engine, one for each model; they are not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, 2**15)
        return {name: fitted(name, X, y, engine=Serial()) for name, (_, y) in MODELS.items()}


def check_same(have, want, rtol=1e-7):
    """The posterior, predictions and rows left out, on which sets and novelty depend, are equal."""
    assert gap(have, want) < rtol
    np.testing.assert_allclose(have.elbo_, want.elbo_, rtol=1e-9)
    np.testing.assert_allclose(have.predict_proba(X), want.predict_proba(X), rtol=10 * rtol)
    a, b = (model.fit_.left_out for model in (have, want))
    for name in ("score", "spread", "c"):
        one, other = (np.sort(getattr(x, name), axis=None) for x in (a, b))
        np.testing.assert_allclose(one, other, rtol=10 * rtol, atol=1e-8)


@ways
@models
def test_the_same_fit(name, way, reference):
    rows, labels, _, options = rows_in(way, X, MODELS[name][1])
    have, want = fitted(name, rows, labels, **options), reference[name]
    check_same(have, want)
    assert have.fit_.is_joint == (name == "several classes")
    widths = [m.decision_function(X[:5], return_std=True)[1] for m in (have, want)]
    np.testing.assert_allclose(*widths, rtol=1e-6)
    if name == "kernel":  # columns that are made again on every pass
        check_same(fitted(name, rows, labels, memory=0, **options), want)
    if name == "moving":  # a sample in memory moves the points
        np.testing.assert_allclose(have.inducing_points_, want.inducing_points_, rtol=1e-7)


@ways
@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_float32_columns(name, way, reference):
    """Stated: 1e-4 of the scale of the posterior mean."""
    rows, labels, _, options = rows_in(way, X, Y)
    engine = {"dask": Dask(), "torch": Gpu("cpu")}.get(way, options.get("engine", Serial()))
    have = fitted(name, rows, labels, "float32", engine=replace(engine, dtype="float32"))
    assert 0 < gap(have, reference[name]) < 1e-4
    np.testing.assert_allclose(have.predict_proba(X), reference[name].predict_proba(X), atol=1e-4)


POSTERIORS = {
    "logistic": {"likelihood": "logistic"},
    "probit": {"likelihood": "probit"},
    "diagonal": {"inference": VB(covariance="diagonal")},
    "diagonal, printed": {
        "inference": VB(covariance="diagonal", bound="augmented", accelerate=False)
    },
    "selection": {"prior": "spike_slab"},
    "scale learned": {"likelihood": SkewedLaplace()},
}


@pytest.mark.parametrize("way", ["threads 2", "dask", "torch", "torch, sent there"])
@pytest.mark.parametrize("options", POSTERIORS.values(), ids=POSTERIORS)
def test_other_posteriors(way, options):
    rows, labels, _, own = rows_in(way, X, Y)
    want = BayesianLinearSVC(random_state=0, engine="serial", **options).fit(X, Y)
    have = BayesianLinearSVC(random_state=0, **options, **own).fit(rows, labels)
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("way", ["threads 2", "torch"])
def test_several_classes_with_groups(way):
    rows, labels, groups, options = rows_in(way, X, KINDS, {"g": np.arange(N) % 12})
    mixed = {"likelihood": "logistic", "prior": "ridge"}
    one = MixedSVC(engine=Serial(), **mixed).fit(X, KINDS, groups=groups)
    other = MixedSVC(**mixed, **options).fit(rows, labels, groups=groups)
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-6)
    a, b = one.random_effects_["mean"], other.random_effects_["mean"]
    np.testing.assert_allclose(a, b, atol=1e-7)


@settings(max_examples=6, deadline=None)
@given(cuts=st.sets(st.integers(1, N - 1), max_size=5))
def test_any_partition_gives_the_same_kernel_fit(cuts, reference):
    edges = [0, *sorted(cuts), N]
    lazy, labels, _ = dasked(X, Y, sizes=tuple(np.diff(edges).tolist()))
    for rows, y in ((filed(X, Y, edges=edges), None), (lazy, labels)):
        assert gap(fitted("kernel", rows, y), reference["kernel"]) < 1e-8


@pytest.mark.filterwarnings("ignore:the chains do not agree", "ignore:too few draws")
@pytest.mark.parametrize("name", ["linear", "several classes"])
@pytest.mark.parametrize("way", ["threads 2", "files", "dask"])
def test_draws_are_the_same_where_blocks_are(way, name):
    model, y = MODELS[name]
    model = clone(model).set_params(inference=Gibbs(draws=6, burn_in=4, chains=1, leaps=0))
    want = clone(model).set_params(engine="serial").fit(X, y)
    rows, labels, _, options = rows_in(way, X, y)
    if way == "dask":  # blocks are numbered through, so partitions of whole blocks draw alike
        size = block_rows(P + 1)
        rows, labels, _ = dasked(X, y, sizes=(*[size] * (N // size), N % size))
    have = clone(model).set_params(**options).fit(rows, labels)
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-6)


def test_answers_come_back_where_the_question_was(reference):
    da, few = pytest.importorskip("dask.array"), X[:50]
    asked = [da.from_array(few, chunks=(20, 2))]
    asked += torched(few) if find_spec("torch") else []
    for model in reference.values():
        for rows in asked:
            for ask in ("predict_proba", "decision_function", "predict"):
                answer = getattr(model, ask)(rows)
                assert isinstance(answer, type(rows))
                np.testing.assert_allclose(computed(answer), getattr(model, ask)(few))
            low, wanted = model.predict_interval(rows)[0], model.predict_interval(few)[0]
            np.testing.assert_allclose(computed(low), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_intervals_and_draws_of_rows_that_are_not_at_hand(name, reference):
    da, few = pytest.importorskip("dask.array"), X[:1500]
    model, lazy = reference[name], da.from_array(few, chunks=(400, 2))
    source = from_iterable(lambda: (few[i : i + 350] for i in range(0, 1500, 350)))
    for rows in (lazy, source):
        ends, wanted = model.predict_interval(rows, 0.8), model.predict_interval(few, 0.8)
        np.testing.assert_allclose(np.asarray(ends), wanted, rtol=1e-10)
        f = model.sample_posterior(200, X=rows, random_state=1)
        again = model.sample_posterior(200, X=rows, random_state=1)
        assert f.shape == (200, 1500)
        np.testing.assert_allclose(np.asarray(f), np.asarray(again), rtol=1e-6, atol=1e-9)
        want = model.sample_posterior(200, X=few, random_state=1)
        if name == "linear":  # nothing is left open by the coefficients
            np.testing.assert_allclose(np.asarray(f), want, rtol=1e-8)
        m, sd = model.machines_[0].moments(few)[0], model.decision_function(few, True)[1]
        z = (np.asarray(f).mean(axis=0) - m) / (sd / np.sqrt(200))
        assert np.sqrt(np.mean(z**2)) < 1.3
        np.testing.assert_allclose(np.asarray(f).std(axis=0).mean(), sd.mean(), rtol=0.05)
    for ask in (model.predict_interval(lazy), model.decision_function(lazy, return_std=True)):
        assert all(part.__dask_graph__() for part in ask)


def test_what_an_engine_cannot_do_is_said():
    lazy, labels, _ = dasked(X, Y)
    with pytest.raises(ValueError, match="'vb' or 'gibbs'"):
        BayesianLinearSVC(inference="em").fit(lazy, labels)
    with pytest.raises(ValueError, match="engine='auto' or 'dask'"):
        BayesianLinearSVC(engine="threads").fit(lazy, labels)
    with pytest.raises(ValueError, match="is not known"):
        BayesianSVC(engine=Serial(dtype="float16")).fit(X, Y)


def test_tensors_are_checked():
    (tensor,) = torched(X)
    with pytest.raises(ValueError, match="inference='vb'"):
        BayesianLinearSVC(inference="gibbs").fit(tensor, Y)
    with pytest.raises(ValueError, match="NaN or infinity"):
        BayesianLinearSVC().fit(tensor.where(tensor < 2.5, np.nan), Y)
    with pytest.raises(ValueError, match="expecting 4 features"):
        BayesianLinearSVC().fit(X, Y).predict(tensor[:, :2])


def test_a_few_rows_on_a_device_are_fitted_on_the_host(monkeypatch):
    monkeypatch.setattr("bayesvm.data.tables.MERGED_ROWS", 10**6)
    few = torched(X[:200])[0]
    have = BayesianSVC(random_state=0).fit(few, Y[:200])
    want = BayesianSVC(random_state=0).fit(X[:200], Y[:200])
    np.testing.assert_allclose(have.predict_proba(X), want.predict_proba(X), rtol=1e-8)
    assert isinstance(have.predict_proba(few), type(few))


def test_engines_are_found_by_their_input():
    from bayesvm.estimators.fit import choose_engine

    assert isinstance(choose_engine("dask", X, P, None), Dask)
    assert choose_engine("auto", torched(X)[0], P, None) == Gpu("cpu")


def test_rows_that_do_not_fit_the_device_are_sent_block_by_block(reference, monkeypatch):
    monkeypatch.setattr(Gpu, "available", lambda self: X.nbytes // 2)
    rows, labels, _, options = rows_in("torch, sent there", X, Y)
    assert gap(fitted("kernel", rows, labels, **options), reference["kernel"]) < 1e-8
