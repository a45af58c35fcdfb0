"""Checkpoints: what they belong to, fits that go on from them, damaged files."""

import contextlib
import errno
import os
import signal

import numpy as np
import pytest
from sklearn.base import clone
from tests.data.ways import check_flipped_bits

import bayesvm
from bayesvm import PCVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC
from bayesvm.data import from_memmap
from bayesvm.inference import EM, SVI, Gibbs
from bayesvm.terms import Columns, Groups, Intercept, Process

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning"),
]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((80, 4))
Y = (X @ [1.0, -2.0, 0.5, 0.0] + RNG.standard_normal(80) > 0).astype(int)
WIDE = RNG.standard_normal((25, 270))  # more columns than rows: the dual form
WIDE_Y = (WIDE[:, :3].sum(axis=1) > 0).astype(int)
CHAIN = Gibbs(draws=20, burn_in=5, chains=3)


@pytest.fixture
def written_at_once(monkeypatch):
    """Checkpoints are written at every step instead of every few seconds."""
    monkeypatch.setattr("bayesvm.data.checkpoint.Checkpoint.seconds", 0.0)


def ending_at(number, calls):
    """A callback that ends the fit at its call of a number."""

    def callback(progress):
        calls.append(progress)
        return len(calls) == number

    return callback


class Interrupt(Exception):
    """Raised in the middle of a fit."""


def failing_at(number, calls):
    """A callback that raises at its call of a number."""

    def callback(progress):
        calls.append(progress)
        if len(calls) == number:
            raise Interrupt

    return callback


def test_a_checkpoint_of_a_file_knows_the_rows_of_that_file(tmp_path):
    other = X.copy()
    other[::2] += 3.0
    np.save(tmp_path / "A.npy", X)
    np.save(tmp_path / "B.npy", other)
    model = BayesianLinearSVC(
        inference=CHAIN, standardize=False, random_state=0, checkpoint=tmp_path / "c.npz"
    )
    model.fit(from_memmap(tmp_path / "A.npy", Y))
    with pytest.raises(ValueError, match=r"c\.npz.* belongs to another fit: data"):
        clone(model).fit(from_memmap(tmp_path / "B.npy", Y))


@pytest.mark.parametrize(
    ("change", "what"),
    [({"random_state": 1}, "seed 0 there and 1 here"), ({"probability": "probit"}, "parameters")],
)
def test_a_checkpoint_knows_seed_and_parameters(change, what, tmp_path):
    model = BayesianLinearSVC(random_state=0, checkpoint=tmp_path / "c.npz").fit(X, Y)
    with pytest.raises(ValueError, match=f"belongs to another fit: {what}"):
        clone(model).set_params(**change).fit(X, Y)


def test_without_a_seed_a_fit_goes_on_with_the_stream_it_began(tmp_path):
    """Chains begun after the resumption draw what they would have drawn, kernel rows too."""
    file = tmp_path / "c.npz"
    model = BayesianSVC(n_inducing=10, inference=CHAIN, tune=False, checkpoint=file)
    early = clone(model).set_params(callbacks=[ending_at(3, [])]).fit(X, Y)
    resumed = clone(model).fit(X, Y)
    assert resumed.machines_[0].draws.theta.shape[0] == CHAIN.chains
    np.testing.assert_allclose(
        resumed.inducing_points_, early.inducing_points_, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        clone(model).fit(X, Y).predict_proba(X), resumed.predict_proba(X), rtol=1e-6, atol=1e-9
    )


GOING_ON = {
    "vb": (BayesianLinearSVC(), X, Y),
    "vb, gates": (BayesianLinearSVC(prior="spike_slab", random_state=0), X, Y),
    "vb, dual": (BayesianLinearSVC(max_iter=40), WIDE, WIDE_Y),
    "em": (BayesianLinearSVC(inference="em"), X, Y),
    "em, lasso, dual": (
        BayesianLinearSVC(prior="lasso", inference=EM(learn="mode")),
        WIDE,
        WIDE_Y,
    ),
    "kernel": (BayesianSVC(n_inducing=10, tune=False, tol=1e-8, random_state=0), X, Y),
    "kernel, tuned": (BayesianSVC(random_state=0), X, Y),
    "pcvc": (PCVC(), X, Y),
    "additive": (
        AdditiveSVC(
            [("l", Intercept()), ("x", Columns([0])), ("f", Process([1, 2], n_inducing=5))],
            random_state=0,
        ),
        X,
        Y,
    ),
}


@pytest.mark.parametrize("name", GOING_ON)
def test_a_fit_that_goes_on_is_the_fit_that_was_not_interrupted(name, tmp_path, written_at_once):
    model, rows, labels = GOING_ON[name]
    calls = []
    whole = clone(model).set_params(callbacks=[calls.append]).fit(rows, labels)
    for number, how in ((2, ending_at), (len(calls) // 2 + 1, failing_at)):
        part = clone(model).set_params(checkpoint=tmp_path / f"{how.__name__}.npz")
        with contextlib.suppress(Interrupt):
            clone(part).set_params(callbacks=[how(number, [])]).fit(rows, labels)
        resumed = clone(part).fit(rows, labels)
        gap = np.abs(resumed.predict_proba(rows) - whole.predict_proba(rows)).max()
        # the same optimum; of a kernel machine the sites are held and the means found again
        assert gap <= (1e-4 if name == "kernel" else 1e-6)
        assert resumed.fit_.bound == pytest.approx(whole.fit_.bound, rel=1e-6)


SEVERAL = {
    "svi": (BayesianLinearSVC(inference=SVI(batch_size=20, max_iter=5), random_state=0), X),
    "gibbs, dual": (BayesianLinearSVC(inference=CHAIN, random_state=0), WIDE),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_classes_that_follow_a_stop_go_on_with_their_own_stream(name, tmp_path, written_at_once):
    """Machines share a generator: one that was stopped leaves the next another place in it."""
    model, rows = SEVERAL[name]
    labels = np.arange(len(rows)) % 3
    whole = clone(model).fit(rows, labels)
    model = clone(model).set_params(checkpoint=tmp_path / "c.npz")
    clone(model).set_params(callbacks=[ending_at(2, [])]).fit(rows, labels)
    resumed = clone(model).fit(rows, labels)
    np.testing.assert_allclose(resumed.predict_proba(rows), whole.predict_proba(rows), atol=1e-10)


@pytest.mark.parametrize("seed", [None, 0])
def test_terms_of_groups_have_a_checkpoint(seed, tmp_path, written_at_once):
    rows = np.column_stack([X, np.arange(len(X)) % 5])
    terms = [("l", Intercept()), ("x", Columns([0, 1])), ("g", Groups(4))]
    model = AdditiveSVC(terms, inference=CHAIN, random_state=seed, checkpoint=tmp_path / "c.npz")
    with pytest.raises(Interrupt):
        clone(model).set_params(callbacks=[failing_at(20, [])]).fit(rows, Y)
    resumed = clone(model).fit(rows, Y)
    again = clone(model).fit(rows, Y)  # from the finished file
    np.testing.assert_allclose(
        again.predict_proba(rows), resumed.predict_proba(rows), rtol=1e-6, atol=1e-9
    )
    if seed is not None:
        whole = clone(model).set_params(checkpoint=None).fit(rows, Y)
        np.testing.assert_allclose(whole.predict_proba(rows), resumed.predict_proba(rows))


@pytest.mark.parametrize("name", ["vb", "vb, gates", "em", "kernel", "additive"])
def test_a_finished_file_gives_back_the_finished_fit(name, tmp_path):
    model, rows, labels = GOING_ON[name]
    model = clone(model).set_params(checkpoint=tmp_path / "c.npz")
    first = clone(model).fit(rows, labels)
    calls = []
    again = clone(model).set_params(callbacks=[calls.append]).fit(rows, labels)
    assert not calls
    np.testing.assert_allclose(
        again.predict_proba(rows), first.predict_proba(rows), rtol=1e-6, atol=1e-9
    )
    assert again.machines_[0].ascent.bound == pytest.approx(
        first.machines_[0].ascent.bound, rel=1e-9
    )
    assert again.n_iter_ == first.n_iter_


@pytest.mark.parametrize("name", ["vb"])
def test_a_killed_fit_can_be_gone_on_with(name, tmp_path, written_at_once):
    model, rows, labels = GOING_ON[name]
    steps = []
    whole = clone(model).set_params(callbacks=[steps.append]).fit(rows, labels)
    file, calls = tmp_path / "c.npz", []

    def kill(progress):
        calls.append(progress)
        if len(calls) == len(steps) // 2 + 1:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            clone(model).set_params(checkpoint=file, callbacks=[kill]).fit(rows, labels)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    resumed = clone(model).set_params(checkpoint=file).fit(rows, labels)
    gap = np.abs(resumed.predict_proba(rows) - whole.predict_proba(rows)).max()
    assert gap <= 1e-10


def finished(file):
    """A model whose checkpoint is finished, and its probabilities."""
    model = BayesianLinearSVC(random_state=0, checkpoint=file)
    return model, clone(model).fit(X[:, :2], Y).predict_proba(X[:, :2])


def test_flipped_bits_of_a_checkpoint_are_found(tmp_path):
    file = tmp_path / "c.npz"
    model, wanted = finished(file)
    places = np.linspace(0, file.stat().st_size - 1, 30).astype(int)

    def again():
        return clone(model).fit(X[:, :2], Y).predict_proba(X[:, :2])

    check_flipped_bits(file, places, again, wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f, d, a: np.savez(f, **{k: x.astype(object) for k, x in a.items()}), "objects"),
        (lambda f, d, a: f.write_bytes(b""), "is not a checkpoint of bayesvm, or it is damaged"),
        (lambda f, d, a: f.write_bytes(d[:-99]), "is not a checkpoint of bayesvm, or it is dam"),
        (lambda f, d, a: np.savez_compressed(f, **a, more=np.zeros(10**6)), "compressed"),
    ],
    ids=["objects", "empty", "cut short", "inflates"],
)
def test_a_damaged_checkpoint_is_refused(change, message, tmp_path):
    file = tmp_path / "c.npz"
    model, _ = finished(file)
    with np.load(file) as held:
        change(file, file.read_bytes(), {name: held[name] for name in held.files})
    with pytest.raises(ValueError, match=rf"c\.npz.* {message}"):
        clone(model).fit(X[:, :2], Y)


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def savez(file, **arrays):
        file.write(b"PK")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", savez)
    with pytest.raises(OSError, match=r"No space left on device: it cannot be written: '.*c\.npz'"):
        BayesianLinearSVC(checkpoint=tmp_path / "c.npz").fit(X, Y)
    assert os.listdir(tmp_path) == []


def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "far").mkdir()
    for name in ("c.npz", "model"):
        (tmp_path / name).symlink_to(tmp_path / "far" / name)
    model = BayesianLinearSVC(checkpoint=tmp_path / "c.npz").fit(X, Y)
    bayesvm.save(model.set_params(checkpoint=None), tmp_path / "model")
    for name in ("c.npz", "model"):
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "far" / name).is_file()
