"""One fit, whoever visits the rows: serial, threads, files, Dask and torch."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from tests.problems import engines

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.data import Dask, Gpu, Serial, Threads, from_iterable
from bayesvm.inference import VB, Gibbs
from bayesvm.kernels import RBF, Linear, Matern
from bayesvm.likelihoods import SkewedLaplace

N, P = 2400, 4
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, P))
Y = (RNG.random(N) < 1 / (1 + np.exp(-2 * (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2])))).astype(int)
KERNEL = 3.0 * RBF((1.5, 2.0, 2.0, 3.0)) + 0.5 * Matern(2.0) * Linear()
MOVING = {"inducing": "optimise", "n_inducing": 6}


def dasked(cut=(500, 900, 1000)):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(cut, (2, 2))), da.from_array(Y, chunks=800)


def torched(device="cpu"):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(X).to(device), torch.from_numpy(Y).to(device)


def filed():
    return from_iterable(lambda: ((X[i : i + 350], Y[i : i + 350]) for i in range(0, N, 350))), None


WAYS = {
    "threads 1": lambda: (X, Y, {"engine": Threads(1)}),
    "threads 2": lambda: (X, Y, {"engine": Threads(2)}),
    "threads 4": lambda: (X, Y, {"engine": Threads(4)}),
    "out of core": lambda: (*filed(), {}),
    "out of core, threads": lambda: (*filed(), {"engine": "threads"}),
    "dask": lambda: (*dasked(), {}),
    "torch": lambda: (*torched(), {}),
    "torch, from files": lambda: (torched() and filed()[0], None, {"engine": Gpu("cpu")}),
    "torch, sent there": lambda: (torched() and X, Y, {"engine": Gpu("cpu")}),
}
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks and thresholds so small that a few thousand rows are many."""
    monkeypatch.setattr("bayesvm.data.blocks.CACHE_BYTES", 2**15)
    monkeypatch.setattr("bayesvm.data.gpu.Gpu.block_bytes", 2**15)
    monkeypatch.setattr("bayesvm.data.tables.MERGED_ROWS", 1000)


def kernel_fit(data, labels, dtype="float64", memory=None, **options):
    how = {"n_inducing": 24, "tune": False, "random_state": 0}
    with engines(dtype=dtype, memory=memory):
        return BayesianSVC(KERNEL, **(how | options)).fit(data, labels)


def fitted(model, data, labels, **options):
    return clone(model).set_params(**options).fit(data, labels)


def means(*models):
    return [m.machines_[0].posterior.mean for m in models]


def check_left_out(have, want):
    """The same rows have been left out, with the same predictions: sets and novelty are equal."""
    a, b = (model.fit_.left_out for model in (have, want))
    for name in ("score", "spread", "c"):
        one, other = (np.sort(getattr(x, name)) for x in (a, b))
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.fixture(scope="module")
def reference():
    """Fits by the serial engine, one for each model; they are not to be changed."""
    patch = pytest.MonkeyPatch()
    patch.setattr("bayesvm.data.blocks.CACHE_BYTES", 2**15)
    patch.setattr("bayesvm.data.tables.MERGED_ROWS", 1000)
    held = {
        "linear": BayesianLinearSVC(engine=Serial(), random_state=0).fit(X, Y),
        "kernel": kernel_fit(X, Y, engine=Serial()),
        "moving": kernel_fit(X, Y, engine=Serial(), **MOVING),
        "still": kernel_fit(X, Y, engine=Serial(), **(MOVING | {"inducing": "kmeans"})),
    }
    patch.undo()
    return held


@ways
def test_linear_models(way, reference):
    data, labels, options = WAYS[way]()
    want, have = (
        reference["linear"],
        BayesianLinearSVC(random_state=0, **options).fit(data, labels),
    )
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(have.coef_cov_, want.coef_cov_, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(have.predict_proba(X), want.predict_proba(X), rtol=1e-8)
    check_left_out(have, want)


@ways
def test_kernel_models(way, reference):
    data, labels, options = WAYS[way]()
    want = reference["kernel"]
    for memory in (None, 0):  # columns kept, and made again
        have = kernel_fit(data, labels, memory=memory, **options)
        a, b = means(have, want)
        assert np.abs(a - b).max() < 1e-8 * np.abs(b).max()
        np.testing.assert_allclose(have.elbo_, want.elbo_, rtol=1e-10)
        np.testing.assert_allclose(have.predict_proba(X), want.predict_proba(X), rtol=1e-8)
        check_left_out(have, want)
        widths = [m.machines_[0].width.by for m in (have, want)]
        np.testing.assert_allclose(*widths, rtol=1e-8)


@ways
def test_class_weights(way):
    """What leaving a row out takes from its weight is known wherever the row is."""
    data, labels, options = WAYS[way]()
    weight = {"class_weight": {0: 0.5, 1: 3.0}}
    for fit in (partial(fitted, BayesianLinearSVC(random_state=0)), kernel_fit):
        want, have = fit(X, Y, **weight), fit(data, labels, **weight, **options)
        np.testing.assert_allclose(have.predict_proba(X), want.predict_proba(X), rtol=1e-7)
        widths = [m.decision_function(X[:5], return_std=True)[1] for m in (have, want)]
        np.testing.assert_allclose(*widths, rtol=1e-7)
        check_left_out(have, want)


@ways
def test_points_that_move(way, reference):
    """A sample in memory moves them, so that they end in the same places."""
    data, labels, options = WAYS[way]()
    have, want = kernel_fit(data, labels, **MOVING, **options), reference["moving"]
    assert want.elbo_ > reference["still"].elbo_ + 10
    np.testing.assert_allclose(have.inducing_points_, want.inducing_points_, rtol=1e-7)
    np.testing.assert_allclose(have.elbo_, want.elbo_, rtol=1e-9)
    np.testing.assert_allclose(have.predict_proba(X), want.predict_proba(X), rtol=1e-6)


@ways
def test_float32_columns(way, reference):
    """Stated: 1e-4 of the scale of the posterior mean; met with two digits to spare."""
    data, labels, options = WAYS[way]()
    have, want = kernel_fit(data, labels, dtype="float32", **options), reference["kernel"]
    a, b = means(have, want)
    assert np.abs(a - b).max() < 1e-4 * np.abs(b).max()
    np.testing.assert_allclose(have.predict_proba(X), want.predict_proba(X), atol=1e-4)


@ways
def test_linear_models_in_float32(way, reference):
    data, labels, options = WAYS[way]()
    engine = options.get("engine", Serial())
    engine = {"dask": Dask(), "out of core, threads": Threads()}.get(way, engine)
    engine = Gpu("cpu") if way == "torch" else engine
    engine = replace(engine, dtype="float32")
    have = BayesianLinearSVC(engine=engine, random_state=0).fit(data, labels)
    a, b = means(have, reference["linear"])
    assert 0 < np.abs(a - b).max() < 1e-4 * np.abs(b).max()


@pytest.mark.parametrize("way", ["threads 2", "torch", "torch, sent there"])
@pytest.mark.parametrize("likelihood", ["logistic", "probit"])
def test_other_likelihoods(way, likelihood):
    data, labels, options = WAYS[way]()
    few = 600
    cut = (slice(0, few), slice(None))
    have = BayesianLinearSVC(likelihood=likelihood, random_state=0, **options)
    have.fit(data[cut], labels[:few])
    want = BayesianLinearSVC(likelihood=likelihood, engine="serial", random_state=0)
    want.fit(X[:few], Y[:few])
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("way", ["dask", "torch"])
@pytest.mark.parametrize(
    "options",
    [
        {"inference": VB(covariance="diagonal")},
        {"inference": VB(covariance="diagonal", bound="augmented", accelerate=False)},
        {"prior": "spike_slab"},
        {"likelihood": SkewedLaplace()},
    ],
    ids=["diagonal", "diagonal, printed", "selection", "scale learned"],
)
def test_other_posteriors(way, options):
    data, labels, own = WAYS[way]()
    have, want = (BayesianLinearSVC(random_state=0, **options, **e) for e in (own, {}))
    have.fit(data, labels)
    want.fit(X, Y)
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8, atol=1e-10)


@settings(max_examples=6, deadline=None)
@given(cuts=st.sets(st.integers(1, N - 1), max_size=5))
def test_any_partition_gives_the_same_kernel_fit(cuts, reference):
    edges = [0, *sorted(cuts), N]
    pairs = list(itertools.pairwise(edges))
    want = reference["kernel"]
    source = from_iterable(lambda: ((X[a:b], Y[a:b]) for a, b in pairs))
    found = [kernel_fit(source, None)]
    da = pytest.importorskip("dask.array")
    sizes = tuple(b - a for a, b in pairs)
    found.append(kernel_fit(da.from_array(X, chunks=(sizes, P)), Y))
    for have in found:
        a, b = means(have, want)
        assert np.abs(a - b).max() < 1e-8 * np.abs(b).max()


@pytest.mark.filterwarnings("ignore:the chains do not agree")
@pytest.mark.parametrize("way", ["threads 2", "out of core", "dask"])
def test_draws_are_the_same_where_blocks_are(way):
    from bayesvm.data import block_rows

    scheme = Gibbs(draws=6, burn_in=4, chains=1, leaps=0)
    want = BayesianLinearSVC(inference=scheme, engine="serial", random_state=0).fit(X, Y)
    data, labels, options = WAYS[way]()
    if way == "dask":  # blocks are numbered through, so partitions of whole blocks draw alike
        size = block_rows(P + 1)
        data, labels = dasked((*[size] * (N // size), N % size))
    have = BayesianLinearSVC(inference=scheme, random_state=0, **options).fit(data, labels)
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-7)


def test_answers_come_back_where_the_question_was(reference):
    tensor = torched()[0][:50]
    for model in reference.values():
        for ask in ("predict_proba", "decision_function", "predict"):
            answer = getattr(model, ask)(tensor)
            assert isinstance(answer, type(tensor))
            np.testing.assert_allclose(answer, getattr(model, ask)(X[:50]))
        low, _ = model.predict_interval(tensor)
        np.testing.assert_allclose(low, model.predict_interval(X[:50])[0])


def test_answers_to_dask_are_lazy(reference):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X[:50], chunks=(20, 2))
    for model in reference.values():
        for ask in ("predict_proba", "decision_function", "predict"):
            answer = getattr(model, ask)(lazy)
            assert answer.__dask_graph__()
            np.testing.assert_allclose(answer.compute(), getattr(model, ask)(X[:50]))


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_intervals_and_draws_of_rows_that_are_not_at_hand(kind, reference):
    da, few = pytest.importorskip("dask.array"), X[:1500]
    model, lazy = reference[kind], da.from_array(few, chunks=(400, 2))
    source = from_iterable(lambda: (few[i : i + 350] for i in range(0, 1500, 350)))
    for rows in (lazy, source):
        ends, wanted = model.predict_interval(rows, 0.8), model.predict_interval(few, 0.8)
        np.testing.assert_allclose(np.asarray(ends), wanted, rtol=1e-10)
        f = model.sample_posterior(200, X=rows, random_state=1)
        again = model.sample_posterior(200, X=rows, random_state=1)
        assert f.shape == (200, 1500)
        np.testing.assert_allclose(np.asarray(f), np.asarray(again), rtol=1e-6, atol=1e-9)
        want = model.sample_posterior(200, X=few, random_state=1)
        if kind == "linear":  # nothing is left open by the coefficients
            np.testing.assert_allclose(np.asarray(f), want, rtol=1e-8)
        m, sd = model.machines_[0].moments(few)[0], model.decision_function(few, True)[1]
        z = (np.asarray(f).mean(axis=0) - m) / (sd / np.sqrt(200))
        assert np.sqrt(np.mean(z**2)) < 1.3
        np.testing.assert_allclose(np.asarray(f).std(axis=0).mean(), sd.mean(), rtol=0.05)
    for ask in (model.predict_interval(lazy), model.decision_function(lazy, return_std=True)):
        assert all(part.__dask_graph__() for part in ask)


def test_what_an_engine_cannot_do_is_said():
    with pytest.raises(ValueError, match="'vb' or 'gibbs'"):
        BayesianLinearSVC(inference="em").fit(*dasked())
    with pytest.raises(ValueError, match="engine='auto' or 'dask'"):
        BayesianLinearSVC(engine="threads").fit(*dasked())
    with pytest.raises(ValueError, match="is not known"):
        BayesianSVC(engine=Serial(dtype="float16")).fit(X, Y)


def test_tensors_are_checked():
    tensor, _ = torched()
    with pytest.raises(ValueError, match="inference='vb'"):
        BayesianLinearSVC(inference="gibbs").fit(tensor, Y)
    with pytest.raises(ValueError, match="NaN or infinity"):
        BayesianLinearSVC().fit(tensor.where(tensor < 2.5, np.nan), Y)
    with pytest.raises(ValueError, match="expecting 4 features"):
        BayesianLinearSVC().fit(X, Y).predict(tensor[:, :2])


def test_a_few_rows_on_a_device_are_fitted_on_the_host(monkeypatch):
    monkeypatch.setattr("bayesvm.data.tables.MERGED_ROWS", 10**6)
    few = torched()[0][:200]
    have = BayesianSVC(random_state=0).fit(few, Y[:200])
    want = BayesianSVC(random_state=0).fit(X[:200], Y[:200])
    np.testing.assert_allclose(have.predict_proba(X), want.predict_proba(X), rtol=1e-8)
    assert isinstance(have.predict_proba(few), type(few))


def test_engines_are_found_by_their_input():
    from bayesvm.estimators.fit import choose_engine

    assert isinstance(choose_engine("dask", X, P, None), Dask)
    assert choose_engine("auto", torched()[0], P, None) == Gpu("cpu")


def test_rows_that_do_not_fit_the_device_are_sent_block_by_block(reference, monkeypatch):
    monkeypatch.setattr(Gpu, "available", lambda self: X.nbytes // 2)
    have = kernel_fit(X, Y, engine=torched() and Gpu("cpu"))
    a, b = means(have, reference["kernel"])
    assert np.abs(a - b).max() < 1e-8 * np.abs(b).max()
