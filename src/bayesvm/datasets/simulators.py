"""Simulators from the papers."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..types import Array


def simulate_luts(
    n: int, d: int, rng: np.random.Generator, n_test: int = 1000
) -> tuple[Array, Array, Array, Array]:
    """The simulation of Luts & Ormerod, section 4.2.

    Coefficients and predictors are standard normal and labels follow a logistic model.

    Parameters
    ----------
    n, d : int
        Training rows and predictors.
    rng : numpy.random.Generator
        Source of randomness.
    n_test : int, default=1000
        Test rows.

    Returns
    -------
    X, y, X_test, y_test : arrays
        Labels are -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.datasets import simulate_luts
    >>> X, y, X_test, y_test = simulate_luts(100, 10, np.random.default_rng(0))
    >>> X.shape, X_test.shape
    ((100, 10), (1000, 10))
    """
    beta, u = rng.standard_normal(), rng.standard_normal(d)
    X = rng.standard_normal((n + n_test, d))
    y = np.where(rng.random(n + n_test) < expit(beta + X @ u), 1, -1)
    return X[:n], y[:n], X[n:], y[n:]
