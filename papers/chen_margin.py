r"""Chen, Tiňo & Yao (2009), section IV: signs and margins under Gaussian and truncated priors.

With the same precisions of weights and bias, the modes under the Gaussian prior (eq. 18) and under
the truncated one (eq. 20) are found exactly: two convex problems.  The paper says that in a sparse
model with localised basis functions weights of the first have the signs of their labels (IV-A), and
that the margin :math:`y_i(2\Phi(f_i) - 1)` of every row is no lower under the second (IV-B).  Here:
how many weights have the other sign, and how many rows a lower margin.  ``vectors`` is the share of
the rows that are basis functions, drawn at random, ``width`` the theta of eq. 13 in standard
deviations of a column, ``precision`` that of the weights.  With the Gaussian likelihood of the
labels (eq. 19), which is not convex, the two minima are those that a descent from zero finds;
``precision`` is then the ratio C.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import norm

from bayesvm import __version__
from bayesvm.datasets import load_benchmark, load_raetsch
from bayesvm.sparse_kernel.newton import PenalisedLikelihood

from .running import Task, table_of

LIKELIHOODS = ("Bernoulli", "Gaussian")
SETS = ("ripley", "banana", "heart", "thyroid", "titanic")
WIDTHS, SHARES, PRECISIONS = (0.3, 1.0, 3.0), (0.05, 0.2, 1.0), (0.1, 1.0, 10.0)
BIAS = 1e-2  # beta of eqs 16 to 20
MEASURED = ("wrong_signs", "lower_margins", "higher_margins", "mean_gap", "least_gap")
SAME = 1e-6  # margins and weights nearer than this are equal


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by width, share of the rows that are basis functions, and precision."""
    sets, widths = (SETS[2:3], WIDTHS[1:2]) if quick else (SETS, WIDTHS)
    return [
        {
            "version": __version__,
            "seed": seed,
            "set": name,
            "width": width,
            "vectors": share,
            "precision": precision,
            "likelihood": likelihood,
        }
        for likelihood in LIKELIHOODS
        for name in sets
        for width in widths
        for share in SHARES
        for precision in PRECISIONS
    ]


def solve(task: Task) -> dict[str, float]:
    """Signs under the Gaussian prior, and margins under both."""
    real = load_benchmark("ripley") if task["set"] == "ripley" else load_raetsch(task["set"], 1)
    X = (real.data - real.data.mean(0)) / np.maximum(real.data.std(0), 1e-12)
    y = np.where(real.target == np.unique(real.target)[1], 1.0, -1.0)
    rng = np.random.default_rng((task["seed"], len(y)))
    chosen = rng.permutation(len(y))[: max(2, round(task["vectors"] * len(y)))]
    return compare(X, y, chosen, task["width"], task["precision"], likelihood=task["likelihood"])


def compare(
    X: Any,
    y: Any,
    chosen: Any,
    width: float,
    precision: float,
    bias: float = BIAS,
    likelihood: str = "Bernoulli",
) -> dict[str, float]:
    """The two modes with the rows ``chosen`` as basis functions."""
    square = ((X[:, None, :] - X[None, chosen, :]) ** 2).sum(-1)
    A = np.column_stack([np.exp(-square / width**2) * y[chosen], np.ones(len(y))])
    Q = np.append(np.full(len(chosen), precision), bias)
    if likelihood == "Gaussian":
        x = [squared_errors(A, y, Q, signed) for signed in (False, True)]
    else:
        given = (A, y, np.ones(len(y)), np.zeros(Q.size), np.diag(Q))
        start = np.zeros(Q.size)
        x = [PenalisedLikelihood(*given, signed=s).newton(start, 1e-12)[0] for s in (False, True)]
    wrong = x[0][:-1] < -SAME
    margin = [y * (2 * ndtr(A @ mode) - 1) for mode in x]
    gap = margin[1] - margin[0]
    return {
        "wrong_signs": float(wrong.mean()),
        "lower_margins": float(np.mean(gap < -SAME)),
        "higher_margins": float(np.mean(gap > SAME)),
        "mean_gap": float(gap.mean()),
        "least_gap": float(gap.min()),
    }


def squared_errors(A: Any, y: Any, Q: Any, signed: bool) -> Any:
    """A minimum of sum (Phi(f) - t)^2 + w'Cw + T b^2, eq. 19; ``Q`` has C and T."""

    def loss(x: Any) -> tuple[float, Any]:
        z = A @ x
        rest = ndtr(z) - (y > 0)
        return float(rest @ rest + Q @ x**2), 2 * (A.T @ (rest * norm.pdf(z)) + Q * x)

    bounds = [(0.0 if signed else None, None)] * (Q.size - 1) + [(None, None)]
    how = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 30}
    return minimize(
        loss, np.zeros(Q.size), jac=True, method="L-BFGS-B", bounds=bounds, options=how
    ).x


def report(frame: Any, console: Any) -> None:
    """Shares by set and share of basis functions, then the verdict."""
    for likelihood, part in frame.groupby("likelihood", sort=False):
        told = f"{likelihood} likelihood"
        title = f"Truncated against Gaussian prior, {told}: % of weights and rows"
        heads = ("weights of the other sign", "margins lower", "higher", "mean difference", "least")
        table = table_of(title, ("set", "share of rows that are vectors", *heads), left=0)
        for (name, share), cell in part.groupby(["set", "vectors"], sort=False):
            m = cell.mean(numeric_only=True)
            keys = ("wrong_signs", "lower_margins", "higher_margins")
            shares = (f"{100 * m[key]:.0f}" for key in keys)
            gaps = f"{m['mean_gap']:+.3f}", f"{cell['least_gap'].min():+.3f}"
            table.add_row(str(name), f"{100 * share:.0f} %", *shares, *gaps)
        console.print(table)
        holds = int((part["lower_margins"] == 0).sum())
        differ = int((part["wrong_signs"] > 0).sum())
        both = int(((part["wrong_signs"] > 0) & (part["lower_margins"] == 0)).sum())
        console.print(
            f"{told}: no margin is lower in {holds} of {len(part)} cases; the two modes differ in "
            f"{differ}, and in {both} of these no margin is lower."
        )
