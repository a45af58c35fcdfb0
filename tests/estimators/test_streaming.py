"""Streams: as good as a fit to the rows so far; what is said of them, and how they are kept."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

import bayesvm
from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.core.types import Coef
from bayesvm.data import Blocks, Serial
from bayesvm.inference import VB, Gibbs
from bayesvm.inference.cavi import bound_of
from bayesvm.inference.problem import Problem
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.priors import Fixed, Ridge

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 2))
Y = (X[:, 0] + 0.5 * RNG.standard_normal(300) > 0).astype(int)
C = RNG.integers(0, 3, 300).astype(float)
STREAMS = {
    "linear": BayesianLinearSVC(random_state=0),
    "kernel": BayesianSVC(tune=False, n_inducing=10, random_state=0),
}


@pytest.mark.parametrize("name", STREAMS)
def test_callbacks_hear_of_every_chunk(name):
    heard, quiet = [], clone(STREAMS[name])
    model = clone(quiet).set_params(callbacks=[heard.append, lambda progress: True])
    for k in (1, 2):
        for stream in (model, quiet):
            stream.partial_fit(X, Y, classes=[0, 1])
        assert len(heard) == k
        assert heard[-1].stage == "stream"
        assert heard[-1].iteration == heard[-1].total == k
        assert heard[-1].bound == model.elbo_
        machine = model.machines_[0]
        signs = np.where(np.tile(Y, k) == 1, 1.0, -1.0)
        blocks, c = Blocks(np.tile(X, (k, 1)), 100), np.ones(300 * k)
        problem = Problem(machine.model, blocks, Serial(), signs, c)
        exact = bound_of(problem, machine.ascent.state)
        assert heard[-1].bound == pytest.approx(exact, rel=1e-10)
    np.testing.assert_allclose(model.predict_proba(X), quiet.predict_proba(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on_from_its_file(name, tmp_path):
    pytest.importorskip("skops.io")
    model = clone(STREAMS[name]).partial_fit(X[:200], Y[:200], classes=[0, 1])
    bayesvm.save(model, tmp_path / "stream")
    again = bayesvm.load(tmp_path / "stream").partial_fit(X[200:], Y[200:])
    model.partial_fit(X[200:], Y[200:])
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-6, atol=1e-9)


# ----- rows that are held


@pytest.mark.parametrize(
    "options", [{}, {"inference": VB(bound="tight")}, {"prior": "lasso"}], ids=str
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_linear_stream_is_a_fit_while_all_rows_are_held(kind, options):
    """To the last digit, in chunks of any size."""
    stream = BayesianLinearSVC(**options, random_state=0)
    for rows in np.split(np.arange(300), [1, 2, 40, 41, 200]):
        stream.partial_fit(kind(X[rows]), Y[rows], classes=[0, 1], sample_weight=C[rows])
    fit = BayesianLinearSVC(**options, random_state=0).fit(kind(X), Y, sample_weight=C)
    np.testing.assert_allclose(stream.predict_proba(X), fit.predict_proba(X), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(stream.coef_, fit.coef_, rtol=1e-6, atol=1e-9)
    assert stream.elbo_ == pytest.approx(fit.elbo_, rel=1e-9)
    assert stream.n_iter_ == fit.n_iter_


def test_more_columns_than_rows_are_first_in_the_form_of_a_fit():
    """First in rows, as a fit would, then in coefficients."""
    wide = np.column_stack([X, RNG.standard_normal((300, 298))])
    stream = BayesianLinearSVC(random_state=0)
    for rows in np.split(np.arange(300), [60, 120]):
        stream.partial_fit(wide[rows], Y[rows], classes=[0, 1], buffer=100)
    fit = BayesianLinearSVC().fit(wide, Y)
    # the stream and the fit choose their variance on different rows
    assert np.corrcoef(stream.coef_[0], fit.coef_[0])[0, 1] > 0.98


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_does_not_grow(name):
    stream, sizes = clone(STREAMS[name]), []
    for _ in range(6):
        stream.partial_fit(X, Y, classes=[0, 1], buffer=100)
        sizes.append(len(pickle.dumps(stream)))
    assert max(sizes[1:]) - min(sizes[1:]) < 1000  # a bound path may be longer by some passes


# ----- the posterior as the prior


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_one_chunk_with_a_flat_start_is_the_posterior_of_the_prior(covariance):
    """Two steps of a Gaussian prior that has seen nothing equal the fit with that prior."""
    from bayesvm.inference.streaming import update_posterior
    from bayesvm.linalg.covariances import DiagonalCovariance

    fit = BayesianLinearSVC(
        Fixed(2.0),
        VB(bound="tight", covariance=covariance),
        covariance="model",
        intercept_scale=3.0,
    ).fit(X, Y)
    machine = fit.machines_[0]
    variance = np.array([9.0, 0.5, 0.5])
    cov = DiagonalCovariance(variance)
    if covariance == "full":
        cov = FullCovariance(np.diag(variance**-0.5))
    y, c = np.where(Y == 1, 1.0, -1.0), np.ones(300)
    run = update_posterior(
        Problem(machine.model, Blocks(X, 300), Serial(), y, c),
        Coef(np.zeros(3), cov),
        VB(bound="tight"),
        np.random.default_rng(0),
    )
    np.testing.assert_allclose(run.state.coef.mean, machine.posterior.mean, atol=1e-4)
    np.testing.assert_allclose(run.state.coef.cov.diag(), machine.posterior.variance(), rtol=1e-4)
    assert run.bound == pytest.approx(machine.ascent.bound, rel=1e-7)


@pytest.mark.parametrize("options", [{}, {"likelihood": "hinge"}, {"prior": "ridge"}], ids=str)
def test_sequential_updates_approach_the_tight_fit(options):
    """Within half a posterior standard deviation, of which the spread is within 10 %."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((2000, 3))
    b = (A @ [1.0, -1.0, 0.0] + rng.logistic(size=2000) > 0.5).astype(int)
    stream = BayesianLinearSVC(**options, random_state=0)
    for rows in np.split(np.arange(2000), [*range(20, 1200, 20), 1500]):
        stream.partial_fit(A[rows], b[rows], classes=[0, 1], buffer=600)
    fit = BayesianLinearSVC(**options, inference=VB(bound="tight"), covariance="model").fit(A, b)
    assert np.max(np.abs(stream.coef_ - fit.coef_) / fit.coef_std_) < 0.5
    np.testing.assert_allclose(stream.coef_std_, fit.coef_std_, rtol=0.1)


def test_the_size_of_the_buffer_is_checked():
    with pytest.raises(ValueError, match="buffer must be a whole number"):
        BayesianLinearSVC().partial_fit(X, Y, classes=[0, 1], buffer=0)


@pytest.mark.parametrize("inference", ["em", "svi", Gibbs(draws=400, burn_in=100, chains=2)])
def test_any_fit_can_be_gone_on_from(inference):
    fit = BayesianLinearSVC(inference=inference, prior=Ridge(a=2, b=1), random_state=0)
    fit.fit(X[:150], Y[:150])
    for i in range(150, 300, 50):
        fit.partial_fit(X[i : i + 50], Y[i : i + 50])
    whole = BayesianLinearSVC(prior=Ridge(a=2, b=1)).fit(X, Y)
    loss = [log_loss(Y, k.predict_proba(X)) for k in (fit, whole)]
    assert loss[0] < 1.1 * loss[1]
    assert fit.coef_std_.shape == (1, 2)
    assert np.isfinite(fit.elbo_) == (inference == "svi")


# ----- after every chunk as good as a fit to the rows so far

LINEAR = BayesianLinearSVC(random_state=0)
KERNEL = BayesianSVC(random_state=0)
FEWEST = 100  # rows from which on the stream is judged
RATIO = 1.1  # of its log loss to that of a fit


def linear(n, seed, scale=1.0):
    """Five columns of unequal level and scale, logistic labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    y = (2.0 * X @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.logistic(size=n) > 0.5).astype(int)
    return scale * (X * np.exp(rng.standard_normal(5)) + 3.0 * rng.standard_normal(5)), y


def three(n, seed):
    """Five columns, three classes of a multinomial logit."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    p = np.exp(1.5 * X @ rng.standard_normal((5, 3)))
    share = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)
    return X, (share > rng.random((n, 1))).argmax(axis=1)


def moons(n, seed):
    return make_moons(n, noise=0.25, random_state=seed)


def judge(model, X, y, X_new, y_new, chunk, every=1, buffer=2000):
    """Log loss after every chunk (every k-th), over that of a fit and of the class frequencies.

    Held-out rows are those of classes met so far; a fit knows no others.
    """
    classes = np.unique(y_new)
    stream, judged = clone(model), 0
    ends = [1, *range(chunk, len(y), chunk), len(y)]  # the first chunk is one row, without a scale
    for k, (i, n) in enumerate(zip([0, *ends], ends, strict=False)):
        stream.partial_fit(X[i:n], y[i:n], classes=classes, buffer=buffer)
        met = np.unique(y[:n])
        if n < FEWEST or len(met) < 2 or (k % every and n < len(y)):
            continue
        known = np.isin(y_new, met)
        loss = {"stream": stream.predict_proba(X_new[known])}
        whole = np.zeros_like(loss["stream"])
        whole[:, np.isin(classes, met)] = clone(model).fit(X[:n], y[:n]).predict_proba(X_new[known])
        loss["fit"] = whole
        share = np.array([np.mean(y[:n] == k) for k in classes])
        loss["frequency"] = np.broadcast_to(share, whole.shape)
        loss = {name: log_loss(y_new[known], p, labels=classes) for name, p in loss.items()}
        assert loss["stream"] <= RATIO * loss["fit"], (n, loss)
        assert loss["stream"] <= loss["frequency"], (n, loss)
        judged += 1
    assert judged
    return stream


def split(make, n, seed, n_new=2000, **options):
    X, y = make(n + n_new, seed, **options)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.parametrize(
    ("chunk", "n", "every", "options"),
    [
        (10, 150, 4, {}),
        (300, 3000, 5, {"buffer": 400}),
        (11, 110, 1, {"scale": 1e-6}),
        (11, 110, 1, {"scale": 1e6}),
    ],
    ids=["small", "beyond the buffer", "tiny columns", "huge columns"],
)
def test_a_linear_stream_is_as_good_as_a_fit(chunk, n, every, options):
    buffer, scale = options.get("buffer", 2000), options.get("scale", 1.0)
    judge(LINEAR, *split(linear, n, 2, scale=scale), chunk, every, buffer)


def test_a_kernel_stream_is_as_good_as_a_fit():
    judge(KERNEL, *split(moons, 120, 0), 30)


def test_a_class_may_first_appear_late():
    X, y, X_new, y_new = split(three, 200, 0)
    rows = np.flatnonzero((y < 2) | (np.arange(200) >= 60))
    judge(LINEAR, X[rows], y[rows], X_new, y_new, 30, every=2)


@pytest.mark.parametrize("model", [LINEAR, KERNEL], ids=["linear", "kernel"])
def test_the_second_class_may_first_appear_late(model):
    """Rows sorted by label: while one class was met the stream predicts it, but not for sure."""
    X, y, X_new, y_new = split(linear if model is LINEAR else moons, 120, 1)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    stream = clone(model).partial_fit(X[:1], y[:1], classes=[0, 1])
    np.testing.assert_allclose(stream.predict_proba(X_new)[:, 1], 0.25)  # half a count of two
    first = np.count_nonzero(y == 0)
    stream = clone(model).partial_fit(X[:first], y[:first], classes=[0, 1])
    np.testing.assert_allclose(stream.predict_proba(X_new)[:, 1], 0.5 / (first + 1.0))
    judge(model, X, y, X_new, y_new, 20, every=2)


def test_rows_may_come_dense_and_then_sparse():
    """The columns are the same in either format, centred or not."""
    X, y, X_new, _ = split(linear, 100, 3)
    mixed, dense = clone(LINEAR), clone(LINEAR)
    for i in range(0, 100, 20):
        rows = X[i : i + 20] if i % 40 == 0 else sparse.csr_array(X[i : i + 20])
        mixed.partial_fit(rows, y[i : i + 20], classes=[0, 1])
        dense.partial_fit(X[i : i + 20], y[i : i + 20], classes=[0, 1])
    np.testing.assert_allclose(mixed.predict_proba(X_new), dense.predict_proba(X_new), rtol=1e-10)
