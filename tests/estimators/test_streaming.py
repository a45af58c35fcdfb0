"""Streams: what is said of them, and how they are kept."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss

import bayesvm
from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.core.types import Coef
from bayesvm.data import Blocks, Serial
from bayesvm.inference import VB, Gibbs
from bayesvm.inference.problem import Problem
from bayesvm.inference.state import bound_of
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
        exact = bound_of(problem, machine.state)
        assert heard[-1].bound == pytest.approx(exact, rel=1e-10)
    np.testing.assert_allclose(model.predict_proba(X), quiet.predict_proba(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", STREAMS)
def test_a_checkpoint_is_refused_before_anything_is_learned(name, tmp_path):
    model = clone(STREAMS[name]).set_params(checkpoint=tmp_path / "fit.npz")
    with pytest.raises(ValueError, match=r"save the model between calls by bayesvm.save"):
        model.partial_fit(X, Y, classes=[0, 1])
    assert not hasattr(model, "machines_")


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


def test_rows_held_are_the_last_of_each_class():
    from bayesvm.estimators.streaming import StreamRows

    codes = np.array([0, 1, 0, 0, 2, 0, 1, 0, 1, 1])
    rows = StreamRows(np.arange(10.0)[:, None], codes, np.ones(10), np.ones(10))
    held = rows.recent(6, 3)
    assert held.X[:, 0].tolist() == [4, 5, 7, 8, 9]
    assert held.codes.tolist() == [2, 0, 0, 1, 1]


# ----- the posterior as the prior


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_one_chunk_with_a_flat_start_is_the_posterior_of_the_prior(covariance):
    """Two steps of a Gaussian prior that has seen nothing equal the fit with that prior."""
    from bayesvm.inference.streaming import update_posterior
    from bayesvm.linalg.covariances import DiagonalCovariance

    fit = BayesianLinearSVC(
        Fixed(2.0), VB(bound="tight", covariance=covariance), width="model", intercept_scale=3.0
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
    assert run.bound == pytest.approx(machine.bound, rel=1e-7)


@pytest.mark.parametrize("options", [{}, {"likelihood": "hinge"}, {"prior": "ridge"}], ids=str)
@pytest.mark.parametrize("chunk", [20, 300])
def test_sequential_updates_approach_the_tight_fit(options, chunk):
    """Within half a posterior standard deviation, of which the spread is within 10 %."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((3000, 3))
    b = (A @ [1.0, -1.0, 0.0] + rng.logistic(size=3000) > 0.5).astype(int)
    stream = BayesianLinearSVC(**options, random_state=0)
    for i in range(0, 3000, chunk):
        stream.partial_fit(A[i : i + chunk], b[i : i + chunk], classes=[0, 1], buffer=600)
    fit = BayesianLinearSVC(**options, inference=VB(bound="tight"), width="model").fit(A, b)
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
