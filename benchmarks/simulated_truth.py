"""Linear, mixed and additive models beside simulated truths and independent estimates.

    PYTHONPATH=. python benchmarks/simulated_truth.py                 # all cases, about 10 minutes
    PYTHONPATH=. python benchmarks/simulated_truth.py --only mixed effects --sets 50

Maximum likelihood is written out here with SciPy (adaptive Gauss-Hermite quadrature for random
intercepts), so that no code of the package is used for what it is compared with.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC

Z = 1.6448536269514722  # .95 quantile of the normal distribution
Row = tuple[str, float, str]  # what, value, beside what


def mixed_ml(X: np.ndarray, y: np.ndarray, g: np.ndarray, nodes: int = 15) -> tuple:
    """Coefficients (intercept first) and standard errors of a logit with random intercepts."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    C, sign, G = np.column_stack([np.ones(len(y)), X]), 2.0 * y - 1.0, g.max() + 1

    def negative(theta: np.ndarray) -> float:
        eta, sd = C @ theta[:-1], np.exp(theta[-1])
        mode, curve = np.zeros(G), np.ones(G)
        for _ in range(12):  # Newton's method for the mode of each group's standardised effect
            f = eta + sd * mode[g]
            p = expit(f)
            slope = np.bincount(g, sd * (y - p), G) - mode
            curve = np.bincount(g, sd**2 * p * (1 - p), G) + 1.0
            mode = mode + slope / curve
        scale = 1.0 / np.sqrt(curve)
        u = mode[:, None] + scale[:, None] * x
        rows = log_expit(sign[:, None] * (eta[:, None] + sd * u[g]))
        inside = np.stack([np.bincount(g, column, G) for column in rows.T], axis=1)
        inside = inside - 0.5 * u**2 + 0.5 * x**2
        return -float(np.sum(logsumexp(inside + np.log(w), axis=1) + np.log(scale)))

    found = minimize(negative, np.zeros(C.shape[1] + 1), method="BFGS")
    return found.x[:-1], np.sqrt(np.diag(found.hess_inv))[:-1]


def crossed(rng: np.random.Generator, persons: int, items: int) -> tuple:
    """Answers of persons to items; a column varies between persons, another between items."""
    person, item = (a.ravel() for a in np.indices((persons, items)))
    x = np.column_stack([rng.integers(0, 2, persons)[person], rng.standard_normal(items)[item]])
    f = 0.5 * x[:, 0] + 0.5 * x[:, 1] + 0.8 * rng.standard_normal(persons)[person]
    f = f + 0.8 * rng.standard_normal(items)[item]
    return x.astype(float), rng.random(f.size) < expit(f), person, item


def several_factors(sets: int) -> Iterator[Row]:
    """Standard errors of columns between the groups of two crossed factors, 60 x 12."""
    found = []
    for seed in range(sets):
        x, y, person, item = crossed(np.random.default_rng(seed), 60, 12)
        groups = pd.DataFrame({"person": person, "item": item})
        model = MixedSVC().fit(x, y, groups=groups)
        found.append([model.coef_[0], np.ravel(model.coef_std_)])
    mean, sd = np.array(found).swapaxes(0, 1)
    for j, name in enumerate(("person", "item")):
        inside = np.mean(np.abs(mean[:, j] - 0.5) < Z * sd[:, j])
        yield f"column of {name}: se", sd[:, j].mean(), f"empirical {mean[:, j].std(ddof=1):.3f}"
        yield f"column of {name}: coverage of 90 % intervals", inside, ".90"


def children(sets: int) -> Iterator[Row]:
    """Few effects of unequal size, four rows a group: coefficients beside maximum likelihood."""
    for groups, label in ((400, "400 children"), (50, "trial of 50 children")):
        truth, found = np.array([0.45, -0.2, 1.0]), []
        for seed in range(sets):
            rng = np.random.default_rng([seed, groups])
            g = np.repeat(np.arange(groups), 4)
            X = np.column_stack(
                [rng.integers(0, 2, groups)[g], np.tile(np.arange(4.0) - 1.5, groups),
                 rng.standard_normal(g.size)]
            )  # fmt: skip
            f = -0.5 + X @ truth + 1.5 * rng.standard_normal(groups)[g]
            y = (rng.random(g.size) < expit(f)).astype(float)
            model = MixedSVC().fit(X, y, groups=g)
            beta, se = mixed_ml(X, y, g)
            low, high = (np.ravel(end) for end in model.coef_interval(0.9))
            inside = (low <= truth) & (truth <= high)
            ml = np.abs(beta[1:] - truth) < Z * se[1:]
            found.append([np.ravel(model.coef_), beta[1:], inside, ml])
        mean, ml, inside, ml_inside = np.array(found, dtype=float).mean(axis=0)
        for j in range(3):
            beside = f"ML {ml[j]:.3f}, truth {truth[j]:g}"
            yield f"{label}: effect {j + 1}", mean[j], beside
            yield f"{label}: coverage {j + 1}", inside[j], f"ML {ml_inside[j]:.2f}"


def links(sets: int) -> Iterator[Row]:
    """A rare class with 290 redundant columns, hinge and class weights; far rows."""
    X, y = make_classification(
        16384, 300, weights=[0.97], random_state=0, n_informative=5, n_redundant=290,
        class_sep=3.0, flip_y=0,
    )  # fmt: skip
    half = len(y) // 2
    model = BayesianLinearSVC(likelihood="hinge", class_weight="balanced").fit(X[:half], y[:half])
    P = model.predict_proba(X[half:])
    yield "rare class, hinge, balanced: log loss", log_loss(y[half:], P), "constant .5 is .693"
    X, y = make_classification(
        120000, 20, n_informative=10, weights=[0.99], flip_y=0.002, random_state=0
    )
    model = BayesianLinearSVC().fit(X[:10000], y[:10000])
    P = model.predict_proba(X[10000:])
    low, high = model.predict_interval(X[10000:])
    yield "far rows: smallest probability", P.min(), "above 0"
    yield "far rows: smallest upper end of an interval", high.min(), "what 10,000 rows can say"


def smooths(sets: int) -> Iterator[Row]:
    """Bands of s(x) over a narrow bump, a sine and a line, 600 rows."""
    shapes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "bump": lambda x: 3 * np.exp(-(((x - 0.7) / 0.08) ** 2)),
        "sine": lambda x: 1.5 * np.sin(2 * np.pi * x),
        "line": lambda x: 2 * x,
    }
    for name, shape in shapes.items():
        inside, grid = [], np.linspace(0.02, 0.98, 60)
        for seed in range(sets):
            rng = np.random.default_rng(seed)
            x, z = rng.random(600), rng.standard_normal(600)
            data = pd.DataFrame({"x": x, "z": z})
            data["y"] = rng.random(600) < expit(-0.5 + shape(x) + 0.5 * z)
            model = AdditiveSVC.from_formula("y ~ s(x) + z", data)
            at = pd.DataFrame({"x": grid, "z": 0.0})
            mean, sd = (v["s(x)"] for v in model.partial(at, return_std=True, centred=True))
            truth = shape(grid) - shape(grid).mean()
            mean = mean - mean.mean()
            inside.append(np.mean(np.abs(mean - truth) < Z * sd))
        yield f"band of s(x), {name}: coverage", float(np.mean(inside)), ".85 to .95"


def counts(sets: int) -> Iterator[Row]:
    """Word counts of nine classes, 810 x 856, dense and sparse."""
    rng = np.random.default_rng(0)
    rate = np.exp(rng.normal(-3.5, 1.2, 856) + 0.8 * rng.standard_normal((9, 856)))
    y = rng.integers(0, 9, 1620)
    X = rng.poisson(rate[y] * rng.gamma(2.0, 0.5, 1620)[:, None]).astype(float)
    half = 810
    for name, rows in (("dense", X), ("sparse", sparse.csr_array(X))):
        start = time.process_time()
        model = BayesianLinearSVC().fit(rows[:half], y[:half])
        spent = time.process_time() - start
        yield f"counts, {name}: log loss", log_loss(y[half:], model.predict_proba(rows[half:])), ""
        yield f"counts, {name}: CPU seconds", spent, "at most 5"
    start = time.process_time()
    peer = LogisticRegression(C=1.0, max_iter=2000).fit(X[:half], y[:half])
    spent = time.process_time() - start
    yield "LogisticRegression: log loss", log_loss(y[half:], peer.predict_proba(X[half:])), ""
    yield "LogisticRegression: CPU seconds", spent, ""


def effects(sets: int) -> Iterator[Row]:
    """Average effects of one unit at n = 500 beside the margins of maximum likelihood."""
    ratios, inside = [], []
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        X, b = rng.standard_normal((500, 4)), np.array([1.0, -0.7, 0.4, 0.0])
        y = rng.random(500) < expit(X @ b)
        ml = LogisticRegression(C=1e6, max_iter=1000).fit(X, y)
        model = BayesianLinearSVC().fit(X, y)
        frame = model.average_effects(X, change="unit")
        f, half = ml.decision_function(X)[:, None], 0.5 * ml.coef_[0]
        margin = (expit(f + half) - expit(f - half)).mean(axis=0)
        f, half = (X @ b)[:, None], 0.5 * b
        truth = (expit(f + half) - expit(f - half)).mean(axis=0)
        ratios.append(frame["mean"].to_numpy()[:3] / margin[:3])
        inside.append((frame["lower"] <= truth) & (truth <= frame["upper"]))
    for j, ratio in enumerate(np.mean(ratios, axis=0)):
        yield f"effect {j + 1}: share of the margin of ML", ratio, "1 within .02"
    yield "effects: coverage", float(np.mean(inside)), ".90"


CASES = {
    "factors": several_factors, "mixed": children, "links": links, "smooths": smooths,
    "counts": counts, "effects": effects,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sets", type=int, default=40, help="simulated data sets of a case")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in a.only:
        for what, value, beside in CASES[name](a.sets):
            print(f"{name:8} {what:52} {value:10.4g}  {beside}", flush=True)


if __name__ == "__main__":
    main()
