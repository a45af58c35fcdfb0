"""Support vector regression on simulated rows: coverage of intervals, error of f.

    python benchmarks/regression.py --jobs 2

Five standard normal columns, coefficients drawn anew, noise of variance one.  ``coverage``: share
of 2,000 new numbers inside their 90 % interval; ``width`` its mean width, beside ``narrowest``,
that of the central interval of the noise itself.  ``rmse``: error of f at the new rows.  ``coef``:
share of coefficients inside their 90 % interval, by ``covariance="robust"`` and ``"model"``.
``ridge`` is scikit-learn's ``BayesianRidge``, with Gaussian intervals.  Rows in the file are not
computed again; the tables of ``docs/regression.md`` are filled from it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import BayesianRidge

import pages
import pool
from bayesvm import BayesianSVR
from tabular_tables import decimals, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "regression.md"
LEVEL, COLUMNS, NEW = 0.9, 5, 2000
ROWS = (100, 200, 1000)
NOISE: dict[str, Any] = {
    "Gaussian": stats.norm(),
    "Laplace": stats.laplace(scale=0.5**0.5),
    "uniform": stats.uniform(-(3**0.5), 2 * 3**0.5),
    "Student, 3 degrees": stats.t(3, scale=3**-0.5),
    "exponential": stats.expon(loc=-1.0),
}
FIELDS = [
    *("noise", "n", "inference", "repeat", "coverage", "width", "narrowest", "rmse"),
    *("coef_data", "coef_model", "ridge_coverage", "ridge_rmse", "epsilon", "scale"),
]


def simulated(noise: str, n: int, repeat: int) -> tuple[np.ndarray, ...]:
    """Rows, numbers, f and coefficients."""
    kinds = list(NOISE)
    rng = np.random.default_rng([kinds.index(noise), n, repeat])
    X, beta = rng.standard_normal((n + NEW, COLUMNS)), rng.standard_normal(COLUMNS)
    f = 3.0 + X @ beta
    return X, f + NOISE[noise].rvs(n + NEW, random_state=rng), f, beta


def inside(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> float:
    return float(np.mean((low <= x) & (x <= high)))


def work(noise: str, n: int, inference: str, repeat: int) -> pool.Row:
    """One fit, and its predictions of new rows."""
    X, y, f, beta = simulated(noise, n, repeat)
    old, new = slice(n), slice(n, None)
    model = BayesianSVR(inference=inference, random_state=0).fit(X[old], y[old])
    low, high = model.predict_interval(X[new], LEVEL)
    ends = NOISE[noise].ppf([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    ridge = BayesianRidge().fit(X[old], y[old])
    mean, sd = ridge.predict(X[new], return_std=True)
    half = stats.norm.ppf((1 + LEVEL) / 2) * sd
    told = {
        "coverage": inside(low, y[new], high),
        "width": float(np.mean(high - low)),
        "narrowest": float(np.diff(ends)[0]),
        "rmse": float(np.sqrt(np.mean((model.predict(X[new]) - f[new]) ** 2))),
        "coef_data": np.nan,
        "coef_model": np.nan,
        "ridge_coverage": inside(mean - half, y[new], mean + half),
        "ridge_rmse": float(np.sqrt(np.mean((mean - f[new]) ** 2))),
        "epsilon": model.epsilon_,
        "scale": model.scale_,
    }
    if inference != "em":
        b = model.coef_interval(LEVEL)
        told["coef_data"] = inside(b[0], beta, b[1])
        model.set_params(covariance="model").fit(X[old], y[old])
        b = model.coef_interval(LEVEL)
        told["coef_model"] = inside(b[0], beta, b[1])
    head = {"noise": noise, "n": n, "inference": inference, "repeat": repeat}
    return head | {k: f"{v:.6f}" for k, v in told.items()}


def _means(rows: pd.DataFrame, inference: str, columns: tuple[str, ...]) -> list[list[str]]:
    own = rows[rows["inference"] == inference]
    lines = []
    for noise in NOISE:
        for n, part in own[own["noise"] == noise].groupby("n"):
            lines.append([noise, f"{n:,}", *(decimals(part[k].mean(), 3) for k in columns)])
    return lines


def interval_table(rows: pd.DataFrame) -> str:
    """Coverage and width of intervals of new numbers, by variational Bayes and EM."""
    head = ["noise", "rows", "coverage", "width", "narrowest", "`BayesianRidge`", "EM"]
    own = _means(rows, "vb", ("coverage", "width", "narrowest", "ridge_coverage"))
    mode = {tuple(k[:2]): k[2] for k in _means(rows, "em", ("coverage",))}
    return table(head, [[*line, mode.get(tuple(line[:2]), "")] for line in own])


def fit_table(rows: pd.DataFrame) -> str:
    """Error of f, the tube, and coverage of coefficients."""
    head = ["noise", "rows", "error of f", "`BayesianRidge`", "`epsilon_`", "`scale_`"]
    head += ["coefficients", '`covariance="model"`']
    columns = ("rmse", "ridge_rmse", "epsilon", "scale", "coef_data", "coef_model")
    return table(head, _means(rows, "vb", columns))


TABLES: dict[str, Callable[[pd.DataFrame], str]] = {
    "intervals": interval_table,
    "fits": fit_table,
}


def filled(page: str, rows: pd.DataFrame) -> str:
    """The page with its tables."""
    return pages.PLACE.sub(lambda k: k[1] + TABLES[k[2]](rows) + "\n" + k[3], page)


def main() -> None:
    parser = pool.arguments(__doc__ or "", "regression.csv")
    parser.add_argument("--repeats", type=int, default=100)
    given = parser.parse_args()
    jobs = [
        (noise, n, inference, repeat)
        for repeat in range(given.repeats)
        for noise in NOISE
        for n in ROWS
        for inference in ("vb", "em")
    ]
    pool.run(work, jobs, given.out, FIELDS, given.jobs, given.seconds)
    rows = pd.read_csv(given.out)
    for make in TABLES.values():
        print(make(rows), "\n")
    if PAGE.exists():
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
