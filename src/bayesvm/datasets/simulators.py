"""Simulators from the papers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from ..core.types import Array


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
    """
    beta, u = rng.standard_normal(), rng.standard_normal(d)
    X = rng.standard_normal((n + n_test, d))
    y = np.where(rng.random(n + n_test) < expit(beta + X @ u), 1, -1)
    return X[:n], y[:n], X[n:], y[n:]


CHEN = ("spiral", "overlap", "bumpy", "relevance")


def simulate_chen(
    name: str, n: int, rng: np.random.Generator, n_test: int = 1000
) -> tuple[Array, Array, Array, Array]:
    r"""The four synthetic sets in the plane of Chen, Tiňo & Yao (2009), section III-A.

    The paper describes them by text and a figure.  The parameters here are our choice:

    - spiral: two arms of one and a half turns, one rotated by half a circle, with normal noise of
      sd 0.15 around radii from 0.3 to 3.  Without noise the error would be zero.
    - overlap: Gaussians of equal covariance (unit variances, correlation 0.5) at (-1, 0) and
      (1, 0).  The best boundary is a line, its error :math:`\Phi(-2/\sqrt 3) = 12.4\%`.
    - bumpy: a Gaussian of sds 2 and 0.5 at the origin, and the same turned by 90 degrees.  The best
      boundary is :math:`|x_1| = |x_2|`, its error :math:`(2/\pi) \arctan(1/4) = 15.6\%`.
    - relevance: :math:`x_1` normal around -1 or 1 with sd 0.5, :math:`x_2` standard normal for both
      classes.  The best boundary is :math:`x_1 = 0`, its error :math:`\Phi(-2) = 2.3\%`.

    Parameters
    ----------
    name : {'spiral', 'overlap', 'bumpy', 'relevance'}
        Name of the data set.
    n : int
        Training rows.
    rng : numpy.random.Generator
        Source of randomness.
    n_test : int, default=1000
        Test rows.

    Returns
    -------
    X, y, X_test, y_test : arrays
        Labels are -1 and +1, with equal probability.
    """
    if name not in CHEN:
        raise ValueError(f"name must be one of {', '.join(map(repr, CHEN))}; got {name!r}.")
    total = n + n_test
    y = np.where(rng.random(total) < 0.5, 1, -1)
    z = rng.standard_normal((total, 2))
    if name == "spiral":
        way = np.sqrt(rng.random(total))  # equal density on outer and inner turns
        angle = 3 * np.pi * way + np.pi * (y > 0)
        radius = 0.3 + 2.7 * way
        X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.15 * z
    elif name == "overlap":
        X = np.column_stack([z[:, 0] + y, 0.5 * z[:, 0] + np.sqrt(0.75) * z[:, 1]])
    elif name == "bumpy":
        X = z * np.where((y > 0)[:, None], [2.0, 0.5], [0.5, 2.0])
    else:
        X = np.column_stack([0.5 * z[:, 0] + y, z[:, 1]])
    return X[:n], y[:n], X[n:], y[n:]


def simulate_messy_table(n: int, rng: np.random.Generator) -> Any:
    """A table of customers as from a database, with all common data problems.

    It has an identifier, dates, numbers with thousands separators, percent signs and currencies, an
    empty and a constant column, text with 300 levels, free text, missing cells, rows without a
    label, and a column that leaks the label.  The label ``cancelled`` is yes or no.  All cells are
    text, as in a file; missing ones are empty.

    Parameters
    ----------
    n : int
        Rows.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    table : pandas.DataFrame
    """
    import pandas as pd

    income = np.exp(10.0 + 0.6 * rng.standard_normal(n))
    discount, age = 30.0 * rng.random(n), rng.integers(18, 90, n)
    start = np.datetime64("2019-01-01") + rng.integers(0, 1800, n)
    plan = rng.choice(["basic", "plus", "pro", "gold"], n, p=[0.5, 0.3, 0.19, 0.01])
    city = np.minimum(rng.geometric(0.01, n), 300)
    words = ["the", "service", "was", "slow", "nobody", "answered", "my", "call", "about", "price"]
    f = 1.2 * (np.log(income) - 10) - 0.06 * discount + 0.8 * (plan == "pro") + 0.5 * (city < 40)
    f += (start - np.datetime64("2021-06-01")).astype(float) / 600 - 0.4
    no = rng.random(n) < expit(f + 0.03 * (50 - age))
    table = {
        "customer_id": [f"C{i:06d}" for i in rng.permutation(n)],
        "signed_up": start.astype(str),
        "last_call": [f"{d:02d}/{m:02d}/2024" for d, m in rng.integers(1, [29, 13], (n, 2))],
        "income": [f"{x:,.2f}" for x in income],
        "discount": [f"{x:.0f} %" for x in discount],
        "fee": [f"${x:.2f}" for x in rng.gamma(4.0, 5.0, n)],
        "age": age.astype(str),
        "sex": rng.choice(["female", "male"], n),
        "plan": plan,
        "city": [f"city {k}" for k in city],
        "comment": [" ".join(rng.choice(words, rng.integers(3, 15))) for _ in range(n)],
        "fax": [""] * n,
        "currency": ["USD"] * n,
        "closing_reason": np.where(no, "", rng.choice(["price", "moved", "other"], n)),
        "cancelled": np.where(no, "no", "yes"),
    }
    frame = pd.DataFrame(table, dtype=object)
    for name, share in (("age", 0.1), ("income", 0.05), ("sex", 0.08), ("cancelled", 0.04)):
        frame.loc[rng.random(n) < share, name] = ""
    frame.loc[rng.random(n) < 0.01, "income"] = "n.a."
    return frame
