"""Streams: what is said of them, and how they are kept."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss

import bayesvm
from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.blocks import Blocks
from bayesvm.engines import Serial
from bayesvm.inference import VB, Gibbs
from bayesvm.inference.state import bound_of
from bayesvm.model.problem import Problem
from bayesvm.priors import Ridge

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
        problem = Problem.of(machine.model, blocks, Serial(), signs, c)
        exact = bound_of(problem, machine.state)
        assert heard[-1].bound == pytest.approx(exact, rel=1e-10)
    np.testing.assert_allclose(model.predict_proba(X), quiet.predict_proba(X), rtol=1e-6, atol=1e-9)


def test_each_class_reports():
    heard = []
    model = BayesianLinearSVC(callbacks=[heard.append], random_state=0)
    model.partial_fit(X, Y + (X[:, 1] > 1), classes=[0, 1, 2])
    assert len(heard) == 3


def test_verbose_says_something(capsys, monkeypatch):
    monkeypatch.setattr("bayesvm.inference.progress.terminal_bar", lambda: None)
    BayesianLinearSVC(verbose=1).partial_fit(X, Y, classes=[0, 1])
    assert "[bayesvm] stream: 1" in capsys.readouterr().out


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


# ----- rows that are kept


@pytest.fixture
def few_kept(monkeypatch):
    monkeypatch.setattr("bayesvm.estimators.streaming.LEAST_KEPT", 100)
    monkeypatch.setattr("bayesvm.estimators.streaming.MOST_KEPT", 100)


@pytest.mark.parametrize(
    "options", [{}, {"inference": VB(bound="tight")}, {"prior": "lasso"}], ids=str
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_linear_stream_is_a_fit_while_all_rows_are_kept(kind, options):
    """To the last digit, in chunks of any size."""
    stream = BayesianLinearSVC(**options, random_state=0)
    for rows in np.split(np.arange(300), [1, 2, 40, 41, 200]):
        stream.partial_fit(kind(X[rows]), Y[rows], classes=[0, 1], sample_weight=C[rows])
    fit = BayesianLinearSVC(**options, random_state=0).fit(kind(X), Y, sample_weight=C)
    np.testing.assert_allclose(stream.predict_proba(X), fit.predict_proba(X), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(stream.coef_, fit.coef_, rtol=1e-6, atol=1e-9)
    assert stream.elbo_ == pytest.approx(fit.elbo_, rel=1e-9)
    assert stream.n_iter_ == fit.n_iter_


def test_more_columns_than_rows_are_kept_in_the_form_of_a_fit(few_kept):
    """First in rows, as a fit would, then in coefficients."""
    wide = np.column_stack([X, RNG.standard_normal((300, 298))])
    stream = BayesianLinearSVC(random_state=0)
    for rows in np.split(np.arange(300), [60, 120]):
        stream.partial_fit(wide[rows], Y[rows], classes=[0, 1])
    fit = BayesianLinearSVC().fit(wide, Y)
    # the stream and the fit choose their variance on different rows
    assert np.corrcoef(stream.coef_[0], fit.coef_[0])[0, 1] > 0.98


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_does_not_grow(name, few_kept):
    stream, sizes = clone(STREAMS[name]), []
    for _ in range(6):
        stream.partial_fit(X, Y, classes=[0, 1])
        sizes.append(len(pickle.dumps(stream)))
    assert max(sizes[1:]) - min(sizes[1:]) < 1000  # a bound path may be longer by some passes


def test_what_the_caller_does_to_the_rows_later_does_not_matter():
    rows, labels = X[:200].copy(), Y[:200].copy()
    stream = BayesianLinearSVC().partial_fit(rows, labels, classes=[0, 1])
    rows[:], labels[:] = 0.0, 0
    stream.partial_fit(X[200:], Y[200:])
    fit = BayesianLinearSVC().fit(X, Y)
    np.testing.assert_allclose(stream.predict_proba(X), fit.predict_proba(X), rtol=1e-6, atol=1e-9)


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    most=st.integers(8, 80),
    seed=st.integers(0, 9),
)
def test_kept_rows_stand_for_all_of_their_class(sizes, most, seed):
    from bayesvm.estimators.streaming import Kept

    rng = np.random.default_rng(seed)
    kept, seen = Kept.none(np.empty((0, 1)), 4), np.empty(0, dtype=int)
    for n in sizes:
        codes = rng.choice(4, n, p=[0.6, 0.3, 0.1, 0.0])
        seen = np.concatenate([seen, codes])
        rows = np.arange(len(seen) - n, len(seen), dtype=float)[:, None]
        before = kept.joined(rows, codes, np.ones(n), np.ones(n), rng)
        kept, gone = before.fewer(most)
        assert kept.n <= most
        assert kept.n == before.n or kept.n > most - 3  # of three classes as many of each
        assert kept.n + gone.size == before.n
        np.testing.assert_array_equal(kept.codes, seen[kept.X[:, 0].astype(int)])
        assert np.all(np.diff(kept.X[:, 0]) > 0)
        recent = min(len(seen), most // 2)
        np.testing.assert_array_equal(kept.X[kept.n - recent :, 0], np.arange(len(seen))[-recent:])
        weight = np.bincount(kept.codes, kept.stands_for, 4)
        met = np.bincount(kept.codes, minlength=4) > 0
        np.testing.assert_allclose(weight[met], np.bincount(seen, minlength=4)[met])


def test_the_sample_of_a_class_is_uniform():
    """3000 rows in chunks of 30, 100 kept: how often each third is in the sample, |z| < 4."""
    from bayesvm.estimators.streaming import Kept

    count = np.zeros(3)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        kept = Kept.none(np.empty((0, 1)), 1)
        for i in range(0, 3000, 30):
            rows = np.arange(i, i + 30.0)[:, None]
            kept = kept.joined(rows, np.zeros(30, dtype=int), np.ones(30), np.ones(30), rng).fewer(
                100
            )[0]
        sample = kept.X[: kept.sampled, 0]
        count += np.histogram(sample, [0, 983, 1966, 2950])[0]
    total = count.sum()
    assert total == 40 * 50
    assert np.abs(count - total / 3).max() < 4 * np.sqrt(total * 2 / 9)


@pytest.mark.parametrize("inference", ["em", "svi", Gibbs(draws=400, burn_in=100, chains=2)])
def test_any_fit_can_be_gone_on_from(inference):
    fit = BayesianLinearSVC(inference=inference, prior=Ridge(a=2, b=1), random_state=0)
    fit.fit(X[:150], Y[:150])
    for i in range(150, 300, 50):
        fit.partial_fit(X[i : i + 50], Y[i : i + 50])
    whole = BayesianLinearSVC(prior=Ridge(a=2, b=1)).fit(X, Y)
    loss = [log_loss(Y, k.predict_proba(X)) for k in (fit, whole)]
    assert loss[0] < 1.1 * loss[1]  # the ratio of tests/found_broken/test_streams.py
    assert fit.coef_std_.shape == (1, 2)
    assert np.isfinite(fit.elbo_) == (inference == "svi")
