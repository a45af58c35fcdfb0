"""Limits of BLAS threads."""

import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from bayesvm import BayesianLinearSVC

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning"),
]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((80, 4))
Y = (X @ [1.0, -2.0, 0.5, 0.0] + RNG.standard_normal(80) > 0).astype(int)


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
