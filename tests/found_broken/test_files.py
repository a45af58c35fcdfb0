"""Checkpoints, model files, random streams, limits of threads, and fits that a callback ends."""

import contextlib
import errno
import importlib
import io
import json
import os
import signal
import threading
import warnings
import zipfile

import dask.array as da
import numpy as np
import pytest
import skops.io as sio
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_iris
from threadpoolctl import ThreadpoolController

import bayesvm
from bayesvm import PCVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.blocks import from_memmap
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
    for name in ("bayesvm.files.checkpoint", "bayesvm.inference.progress"):
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            if hasattr(module, "SAVE_SECONDS"):
                monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)


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


# ----- what a checkpoint belongs to


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


def test_a_checkpoint_of_a_dask_array_knows_its_rows(tmp_path):
    model = BayesianLinearSVC(
        inference=Gibbs(draws=5, burn_in=2, chains=1),
        standardize=False,
        random_state=0,
        checkpoint=tmp_path / "c.npz",
    )
    y = da.from_array(Y, chunks=40)
    model.fit(da.from_array(X, chunks=40), y)
    with pytest.raises(ValueError, match=r"c\.npz.* belongs to another fit: data"):
        clone(model).fit(da.from_array(-X, chunks=40), y)


def test_a_checkpoint_knows_the_seed(tmp_path):
    model = BayesianLinearSVC(inference=CHAIN, random_state=0, checkpoint=tmp_path / "c.npz")
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"belongs to another fit: seed 0 there and 1 here"):
        clone(model).set_params(random_state=1).fit(X, Y)


def test_a_checkpoint_knows_all_parameters(tmp_path):
    model = BayesianLinearSVC(checkpoint=tmp_path / "c.npz").fit(X, Y)
    with pytest.raises(ValueError, match="belongs to another fit: parameters"):
        clone(model).set_params(probability="probit").fit(X, Y)


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


# ----- going on


GOING_ON = {
    "vb": (BayesianLinearSVC(), X, Y),
    "vb, gates": (BayesianLinearSVC(prior="spike_slab", random_state=0), X, Y),
    "vb, dual": (BayesianLinearSVC(max_iter=40), WIDE, WIDE_Y),
    "vb, scale": (BayesianLinearSVC(likelihood="skewed_laplace"), X, Y),
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
        if name == "kernel":  # sites are kept, the means are found again: the same optimum
            assert gap <= 1e-4
            continue
        # the same steps: equal to the last digit, of which 1e-10 leaves some to the processor
        assert gap <= 1e-10
        assert resumed.n_iter_ == whole.n_iter_
        assert resumed.fit_.bound == pytest.approx(whole.fit_.bound, rel=1e-12)
        np.testing.assert_allclose(resumed.fit_.path, whole.fit_.path, rtol=1e-10)


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


@pytest.mark.parametrize("name", ["vb", "vb, gates", "vb, dual", "em", "kernel", "additive"])
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
    assert again.machines_[0].bound == pytest.approx(first.machines_[0].bound, rel=1e-9)
    assert again.n_iter_ == first.n_iter_


@pytest.mark.parametrize("name", ["vb", "em", "kernel", "pcvc", "additive"])
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
    (tmp_path / "c.npz.999-deadbeef.part").write_bytes(b"half a file")
    resumed = clone(model).set_params(checkpoint=file).fit(rows, labels)
    gap = np.abs(resumed.predict_proba(rows) - whole.predict_proba(rows)).max()
    assert gap <= (1e-4 if name == "kernel" else 1e-10)
    assert os.listdir(tmp_path) == ["c.npz"]  # no lock, no part


# ----- the file


def test_a_second_fit_does_not_use_a_checkpoint_that_is_in_use(tmp_path):
    model = BayesianLinearSVC(checkpoint=tmp_path / "c.npz")
    refusals = []

    def begin_another(progress):
        if not refusals:
            with pytest.raises(ValueError, match=r"c\.npz' is in use by another fit") as found:
                clone(model).fit(X, Y)
            refusals.append(str(found.value))

    clone(model).set_params(callbacks=[begin_another]).fit(X, Y)
    assert f"process {os.getpid()}" in refusals[0]
    clone(model).fit(X, Y)  # when the first has ended
    assert os.listdir(tmp_path) == ["c.npz"]


def finished(file, inference="vb"):
    """A model whose checkpoint is finished, and its probabilities."""
    model = BayesianLinearSVC(inference=inference, random_state=0, checkpoint=file)
    return model, clone(model).fit(X[:, :2], Y).predict_proba(X[:, :2])


def test_flipped_bits_of_a_checkpoint_are_found(tmp_path):
    file = tmp_path / "c.npz"
    model, wanted = finished(file)
    data = file.read_bytes()
    for place in np.linspace(0, len(data) - 1, 60).astype(int):
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place % 8)
        file.write_bytes(damaged)
        refusal = ""
        try:
            found = clone(model).fit(X[:, :2], Y)
        except ValueError as error:
            refusal = str(error)
        if refusal:
            assert "c.npz" in refusal
        else:  # in a date or the like
            np.testing.assert_allclose(found.predict_proba(X[:, :2]), wanted, rtol=1e-6, atol=1e-9)


DAMAGE = {
    "cut by one": lambda x: x[:-1] if x.ndim else x,
    "another type": lambda x: x.astype(np.float32) if x.dtype == float else x,
    "other values": lambda x: x + 1e-9 if x.dtype == float else x,
    "objects": lambda x: x.astype(object) if x.dtype == float else x,
}


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("inference", ["vb", CHAIN], ids=["vb", "gibbs"])
def test_arrays_of_a_checkpoint_that_were_changed_by_hand_are_refused(what, inference, tmp_path):
    file = tmp_path / "c.npz"
    model, _ = finished(file, inference)
    with np.load(file) as held:
        arrays = {name: held[name] for name in held.files}
    changed = {name: DAMAGE[what](x) for name, x in arrays.items()}
    with file.open("wb") as handle:
        np.savez(handle, **changed)
    with pytest.raises(ValueError, match=r"c\.npz"):
        clone(model).fit(X[:, :2], Y)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_checkpoint_that_was_cut_short_is_refused(share, tmp_path):
    file = tmp_path / "c.npz"
    model, _ = finished(file)
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"c\.npz' is not a checkpoint of bayesvm, or it is dam"):
        clone(model).fit(X[:, :2], Y)


def test_a_checkpoint_that_would_inflate_is_refused(tmp_path):
    file = tmp_path / "c.npz"
    model, _ = finished(file)
    with np.load(file) as held:
        arrays = {name: held[name] for name in held.files}
    np.savez_compressed(file, **arrays, more=np.zeros(10**6))
    with pytest.raises(ValueError, match=r"c\.npz.* compressed"):
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


# ----- model files


def forged(file, change):
    """A saved model with its largest array, or the archive, changed."""
    bayesvm.save(BayesianLinearSVC().fit(X, Y), file)
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
    [with_shape((10**13,)), with_shape((10**30,)), with_shape((10**10, 10**10)), compressed],
    ids=["80 TB", "1e30", "1e20", "compressed"],
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
    with pytest.raises(ValueError, match="too large when it is inflated"):
        bayesvm.load(tmp_path / "model")
    model.extra_ = sparse.csr_array(X)
    sio.dump(held, tmp_path / "model")
    assert np.array_equal(bayesvm.load(tmp_path / "model").extra_.toarray(), X)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"format": 2, "version": "0.1.0"}, "holds no model"),
        ({"format": 2, "version": "0.1.0", "model": 5}, "holds no model.* int was found"),
        ({"format": 2, "version": "99.0", "model": BayesianLinearSVC()}, "bayesvm 99.0, which is"),
        ({"format": 2, "model": BayesianLinearSVC()}, "has no version of bayesvm"),
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


# ----- random streams


@pytest.mark.parametrize(
    "model",
    [
        BayesianLinearSVC(inference=CHAIN, random_state=0),
        BayesianSVC(n_inducing=10, inference=CHAIN, tune=False, random_state=0),
    ],
    ids=["linear", "kernel"],
)
def test_no_two_generators_of_a_fit_share_a_stream(model, monkeypatch):
    made, make = [], np.random.default_rng
    fixed = [json.dumps(make(k).bit_generator.state) for k in (0, 1)]  # seeds that are constants

    def noted(*args):
        rng = make(*args)
        if args and not isinstance(args[0], np.random.Generator):
            made.append(json.dumps(rng.bit_generator.state))
        return rng

    monkeypatch.setattr(np.random, "default_rng", noted)
    model.fit(X, Y)
    made = [state for state in made if state not in fixed]
    assert len(made) > CHAIN.chains * CHAIN.burn_in
    assert len(set(made)) == len(made)


def test_variances_of_two_factors_are_drawn_apart():
    groups = np.column_stack([np.arange(80) % 5, np.arange(80) // 16])  # as many of each
    model = MixedSVC().fit(X, Y, groups=groups)
    machine = model.machines_[0]
    first, second = (
        model._group_effects._covariances(machine, k)[:, 0, 0] for k in machine.model.grouped
    )
    # 4,000 independent pairs: the rank correlation has standard deviation 0.016; z = 6
    assert abs(spearmanr(first, second).statistic) < 0.1


# ----- threads


def test_fits_in_two_threads_leave_the_limits_of_blas_as_they_were():
    """The second begins within the first and ends after it."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [library.num_threads for library in libraries]
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def limited(numbers):
        for library, number in zip(libraries, numbers, strict=True):
            library.set_num_threads(number)
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread()

    def once(entered, wait):
        def callback(progress):
            entered.set()
            assert wait.wait(30)

        return callback

    def first():
        BayesianLinearSVC(callbacks=[once(first_in, second_in)]).fit(X, Y)
        first_out.set()

    def second():
        assert first_in.wait(30)
        BayesianLinearSVC(callbacks=[once(second_in, first_out)]).fit(X, Y)

    limited([2] * len(libraries))
    try:
        threads = [threading.Thread(target=each) for each in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = [library.num_threads for library in libraries]
    finally:
        limited(before)
    assert libraries
    assert after == [2] * len(libraries)


# ----- a callback ends the fit


ENDED = {
    "em": BayesianLinearSVC(inference="em"),
    "em, mode": BayesianLinearSVC(inference=EM(learn="mode")),
    "em, wide lasso": BayesianLinearSVC(prior="lasso", inference="em"),
    "gates": BayesianLinearSVC(prior="spike_slab", random_state=0),
    "gibbs": BayesianLinearSVC(inference=Gibbs(draws=20, burn_in=5, chains=3), random_state=0),
    "kernel, drawn": BayesianSVC(
        n_inducing=5, tune="sample", inference=Gibbs(draws=4, burn_in=2, chains=2), random_state=0
    ),
    "factors": FactorSVC(
        2, classifier="kernel", inference=Gibbs(draws=4, burn_in=2, chains=2), random_state=0
    ),
}


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("name", ENDED)
def test_no_callback_is_called_after_one_has_ended_the_fit(name, number):
    rows, labels = (WIDE, WIDE_Y) if "wide" in name else (X[:40], Y[:40])
    calls = []
    model = clone(ENDED[name]).set_params(callbacks=[ending_at(number, calls)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, labels)
    assert len(calls) == number
    assert not model.converged_
    assert np.all(np.isfinite(model.predict_proba(rows)))


def test_no_callback_is_called_for_the_classes_that_follow():
    calls = []
    rows, labels = load_iris(return_X_y=True)
    model = BayesianLinearSVC(callbacks=[ending_at(2, calls)]).fit(rows, labels)
    assert len(calls) == 2
    assert np.all(np.isfinite(model.predict_proba(rows)))


def test_chains_that_had_ended_before_the_fit_was_ended_are_kept():
    calls = []
    chains = Gibbs(draws=20, burn_in=5, chains=3, leaps=0)
    whole = BayesianLinearSVC(inference=chains, random_state=0).fit(X, Y)
    model = BayesianLinearSVC(
        inference=chains, random_state=0, callbacks=[ending_at(2 * 25 + 8, calls)]
    ).fit(X, Y)
    assert len(calls) == 58
    draws, all_draws = (m.machines_[0].draws.theta for m in (model, whole))
    np.testing.assert_allclose(draws, all_draws[:2], rtol=1e-6, atol=1e-9)
