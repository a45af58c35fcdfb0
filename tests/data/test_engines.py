"""Engines may change speed, never values."""

import inspect
import os
import signal
import threading
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.problems import make_problem, simulate
from threadpoolctl import ThreadpoolController, threadpool_info

from bayesvm import BayesianLinearSVC, data
from bayesvm.core.types import Coef
from bayesvm.data import Blocks, Dask, Gpu, Serial, Threads
from bayesvm.data.engines import available_memory
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.linalg.covariances import FullCovariance

ENGINES = [
    Serial(),
    Threads(1),
    Threads(2),
    Threads(4),
    Threads(),
    Dask(),
    pytest.param(
        Gpu("cpu"), marks=pytest.mark.skipif(not find_spec("torch"), reason="torch is missing")
    ),
]
every = pytest.mark.parametrize("engine", ENGINES, ids=str)
COEF = Coef(np.linspace(-1, 1, 6), FullCovariance(np.eye(6) + np.tril(np.full((6, 6), 0.1))))


def test_no_missing_engine():
    public = {
        item
        for item in vars(data).values()
        if inspect.isclass(item) and issubclass(item, data.Serial)
    }
    assert public == {Serial, Threads, Dask, Gpu}


def numbers(n=13, size=3):
    return Blocks(np.zeros((n, 1)), size), np.arange(float(n))


@every
def test_blocks_come_back_in_order(engine):
    found = list(engine.collect(lambda b, y: (b.number, float(y.sum())), *numbers()))
    assert found == [(0, 3.0), (1, 12.0), (2, 21.0), (3, 30.0), (4, 12.0)]


@every
def test_sum_of_one_block_and_of_many(engine):
    assert engine.sum(lambda b, y: float(y.sum()), *numbers(4, 9)) == 6.0
    assert engine.sum(lambda b, y: float(y.sum()), *numbers()) == 78.0


def test_sums_over_blocks_are_made_by_the_workers():
    found = Threads(2).sum(lambda block: [threading.get_ident()], numbers()[0])
    assert len(found) == 5
    assert threading.get_ident() not in found


@every
def test_an_error_in_a_block_is_not_lost(engine):
    def visit(block):
        if block.number == 3:
            raise FloatingPointError("block 3")
        return 0.0

    with pytest.raises(FloatingPointError, match="block 3"):
        engine.sum(visit, numbers()[0])


@pytest.mark.parametrize("lik", [Hinge(), Logistic(), Probit()], ids=str)
@pytest.mark.parametrize("form", ["dense", "factored", "diagonal"])
def test_workers_change_nothing_not_even_the_last_bit(lik, form):
    X, y, c = simulate(501, 6, seed=4, weighted=True)
    c = np.ceil(c)  # whole, for the samplers that draw copies

    def passes(engine):
        p = make_problem(X, y, c, likelihood=lik, engine=engine, form=form, size=50)
        found = [p.expectations(COEF, gram=True), p.draw(COEF.mean, (5, 6))]
        S = [s.S.M if form == "dense" else s.S.d if form == "diagonal" else s.S.w for s in found]
        return [*S, *(s.g for s in found), *(np.array([s.bound]) for s in found)]

    reference = passes(Threads(1))
    for workers in (2, 4):
        for a, b in zip(passes(Threads(workers)), reference):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(passes(Serial()), reference):  # BLAS may use more threads here
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


class Alive:
    """A number that counts how many of its kind are held at once."""

    now = most = 0

    def __init__(self, x):
        self.x = x
        Alive.now += 1
        Alive.most = max(Alive.most, Alive.now)

    def __del__(self):
        Alive.now -= 1

    def __add__(self, other):
        return Alive(self.x + other.x)

    def __iadd__(self, other):
        self.x += other.x
        return self


@pytest.mark.parametrize("engine", [Serial(), Threads(2)], ids=str)
def test_sums_hold_no_more_results_where_there_are_more_blocks(engine):
    most = []
    for n in (200, 1000):
        Alive.now = Alive.most = 0
        assert engine.sum(Alive, range(n)).x == n * (n - 1) / 2
        most.append(Alive.most)
    assert max(most) < (8 if type(engine) is Serial else 100)


def test_workers_hold_blas_to_one_thread():
    def blas_threads(block):
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    for found in Threads(2).collect(blas_threads, numbers(4, 2)):
        assert set(found) <= {1}


@pytest.mark.parametrize("kind", [Serial, Threads, Gpu, Dask])
def test_engines_have_a_precision_and_a_limit_of_memory(kind):
    assert (kind().dtype, kind().memory) == ("auto", None)
    engine = kind(dtype="float32", memory=10)
    assert (engine.dtype, engine.memory) == ("float32", 10)
    for wrong, text in (
        ({"dtype": "half"}, "dtype='half' is not known"),
        ({"memory": -1}, "'memory' parameter"),
    ):
        with pytest.raises(ValueError, match=text):
            kind(**wrong).check()


def test_number_of_workers():
    assert Threads(3).workers == 3
    assert Threads(0).workers == 1
    assert Threads().workers == Threads(-1).workers >= 1
    assert Threads(-10_000).workers == 1


def test_whole_numbers_stay_whole_there():
    torch, engine = pytest.importorskip("torch"), Gpu("cpu")
    for kind in (np.int8, np.int16, np.int64, np.uint32):
        found = engine.place(np.array([1, 0, 1], dtype=kind))
        assert not found.is_floating_point()
        np.testing.assert_array_equal(found, [1, 0, 1])
    assert engine.place(np.array([True, False])).dtype == torch.float64


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_process_has_threads_of_its_own():
    assert list(Threads(2).collect(abs, [-1, -2])) == [1, 2]
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # threads of the parent would never answer
        os._exit(0 if list(Threads(2).collect(abs, [-3, -4])) == [3, 4] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_no_thread_is_left_where_results_are_not_all_read():
    before = threading.active_count()
    found = Threads(2).collect(lambda at: at, iter(range(9)))
    assert next(found) == 0
    found.close()
    assert threading.active_count() == before


def test_sums_leave_what_blocks_return_as_it_is():
    """A function of blocks may return an array that it keeps."""
    kept = np.ones(3)
    for engine in (Serial(), Threads(2)):
        np.testing.assert_array_equal(engine.sum(lambda b: kept, numbers()[0]), np.full(3, 5.0))
        np.testing.assert_array_equal(kept, np.ones(3))


def test_what_engines_are_given_holds_no_rows():
    """They may send it to other processes."""
    cloudpickle, sent = pytest.importorskip("cloudpickle"), []

    class Sending(Serial):
        def sum(self, fn, blocks, *vectors):
            sent.append(len(cloudpickle.dumps(fn)))
            return super().sum(fn, blocks, *vectors)

    X, y = simulate(5000, 5, seed=0)[:2]
    problem = make_problem(X, y, engine=Sending())
    coef = Coef(np.zeros(problem.model.width), FullCovariance(np.eye(problem.model.width)))
    for v in (None, 1.0):
        problem.expectations(coef, v)
    assert len(sent) == 2
    assert max(sent) < 20_000  # all rows are ten times that


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_in_two_threads_leave_the_limits_of_blas_as_they_were():
    """The second begins within the first and ends after it."""
    X, y = np.random.default_rng(5).standard_normal((80, 4)), np.arange(80) % 2
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
        BayesianLinearSVC(callbacks=[once(first_in, second_in)]).fit(X, y)
        first_out.set()

    def second():
        assert first_in.wait(30)
        BayesianLinearSVC(callbacks=[once(second_in, first_out)]).fit(X, y)

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


def test_what_is_free_is_the_least_of_all_limits(monkeypatch):
    texts = {
        "/proc/meminfo": "MemTotal: 8000 kB\nMemAvailable: 4000 kB\n",
        "/sys/fs/cgroup/memory.max": "3000000",
        "/sys/fs/cgroup/memory.current": "1000000",
    }
    monkeypatch.setattr(Path, "is_file", lambda path: str(path) in texts)
    monkeypatch.setattr(Path, "read_text", lambda path: texts[str(path)])
    assert available_memory() == 2_000_000
    assert Serial().available() == 1_000_000
    texts["/sys/fs/cgroup/memory.max"] = "max"
    assert available_memory() == 4000 * 1024
    texts.clear()
    assert available_memory() > 0
