"""Streams: what is said of them, and how they are kept."""

import numpy as np
import pytest
from sklearn.base import clone

import bayesvm
from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.blocks import Blocks
from bayesvm.engines import Serial
from bayesvm.inference.vb import bound_of
from bayesvm.model import Problem

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 2))
Y = (X[:, 0] + 0.5 * RNG.standard_normal(300) > 0).astype(int)
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
        blocks = Blocks(np.tile(X, (k, 1)), signs, np.ones(300 * k), 100)
        exact = bound_of(Problem(machine.model, blocks, Serial()), machine.state)
        assert heard[-1].bound == pytest.approx(exact, rel=1e-10)
    np.testing.assert_array_equal(model.predict_proba(X), quiet.predict_proba(X))


def test_each_class_reports():
    heard = []
    model = BayesianLinearSVC(callbacks=[heard.append], random_state=0)
    model.partial_fit(X, Y + (X[:, 1] > 1), classes=[0, 1, 2])
    assert len(heard) == 3


def test_verbose_says_something(capsys, monkeypatch):
    monkeypatch.setattr("bayesvm.progress.terminal_bar", lambda: None)
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
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
