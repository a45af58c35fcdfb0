"""Rare classes: recall and log loss with few positives, over seeds.

    python benchmarks/rare.py --jobs 16

``outside``, ``inside``: 9 positives in 3,000 rows of five columns, around a point away from the
negatives or among them; 20 seeds.  ``logistic``: log odds linear in five columns, 3 % and 0.1 %
positives, several numbers of rows.  Log loss is the expected one of new rows, by the known truth;
recall is of new positives at a probability of one half.  Seeds below 1000 are for choosing.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

import pool
from tabular_models import MODELS, WORDS
from tabular_tables import decimals, table

FIELDS = ["part", "rows", "positives", "seed", "model", "recall", "log_loss", "best", "cpu_s"]
COLUMNS = 5
# where the positives are, and their spread; that of the negatives is one, around zero
CLUSTERS = {
    "outside": (np.array([3.0, 3.0, 0.0, 0.0, 0.0]), 0.5),
    "inside": (np.array([1.0, 1.0, 0.0, 0.0, 0.0]), 0.15),
}
SLOPES = np.array([1.0, -1.0, 0.5, 0.0, 0.0])
NEW = 20_000  # rows to score on
LINEAR = ("linear", "linear_hinge", "linear_logistic", "logistic_cv")
KERNEL = ("kernel", "kernel_hinge")
MOST_KERNEL = 10_000  # rows
CASES = [(n, 0.03) for n in (1_000, 3_000, 10_000, 30_000)]
CASES += [(n, 0.001) for n in (10_000, 30_000, 100_000)]


def cluster_odds(part: str, X: np.ndarray, share: float) -> np.ndarray:
    """Log odds of a positive, known from the two densities."""
    ones = norm.logpdf(X, *CLUSTERS[part]).sum(axis=1)
    return ones - norm.logpdf(X).sum(axis=1) + np.log(share / (1 - share))


def cluster(
    part: str, rng: np.random.Generator, n: int, positives: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    centre, spread = CLUSTERS[part]
    X = rng.standard_normal((n, COLUMNS))
    X[n - positives :] = centre + spread * X[n - positives :]
    y = (np.arange(n) >= n - positives).astype(int)
    order = rng.permutation(n)
    return X[order], y[order]


def offset(share: float) -> float:
    """Intercept with which so large a share is positive, on average over the columns."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    f = np.linalg.norm(SLOPES) * nodes
    weights = weights / weights.sum()
    return float(brentq(lambda a: weights @ expit(a + f) - share, -30.0, 0.0))


def logistic(rng: np.random.Generator, n: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and the log odds of their labels."""
    X = rng.standard_normal((n, COLUMNS))
    return X, offset(share) + X @ SLOPES


def expected_log_loss(f: np.ndarray, p: np.ndarray) -> float:
    """Mean over rows of the log loss of ``p`` where the log odds are ``f``."""
    p, truth = np.clip(p, 1e-15, 1 - 1e-15), expit(f)
    return float(-np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p)))


def work(part: str, n: int, positives: float, seed: int, model: str) -> pool.Row:
    rng = np.random.default_rng((seed, n))
    if part in CLUSTERS:
        share = positives / n
        X, y = cluster(part, rng, n, int(positives))
        new = cluster(part, rng, NEW, round(share * NEW))[0]
        f = cluster_odds(part, new, share)
        ones = cluster(part, rng, NEW // 10, NEW // 10)[0]
    else:
        X, odds = logistic(rng, n, positives)
        y = (rng.random(n) < expit(odds)).astype(int)
        new, f = logistic(rng, NEW, positives)
        ones = new[rng.random(NEW) < expit(f)]
    names = [f"x{j}" for j in range(COLUMNS)]
    begun = time.process_time()
    fitted, _ = MODELS[model](pd.DataFrame(X, columns=names), y)
    p = fitted.predict_proba(pd.DataFrame(new, columns=names))[:, 1]
    spent = time.process_time() - begun
    found = fitted.predict_proba(pd.DataFrame(ones, columns=names))[:, 1] > 0.5
    return {
        "part": part,
        "rows": n,
        "positives": positives,
        "seed": seed,
        "model": model,
        "recall": f"{found.mean():.5f}",
        "log_loss": f"{expected_log_loss(f, p):.7f}",
        "best": f"{expected_log_loss(f, expit(f)):.7f}",
        "cpu_s": f"{spent:.3f}",
    }


def jobs(seeds: range) -> list[tuple]:
    """Part, rows, positives (a number, or a share), seed, model."""
    every = (*KERNEL, *LINEAR)
    out: list[tuple] = [(k, 3_000, 9, s, m) for k in CLUSTERS for s in seeds for m in every]
    for n, share in CASES:
        models = ("kernel", *LINEAR) if n <= MOST_KERNEL else LINEAR
        out += [("logistic", n, share, s, m) for s in seeds[: len(seeds) // 2] for m in models]
    return out


def cost(part: str, n: int, positives: float, seed: int, model: str) -> float:
    return n * (30.0 if model in KERNEL else 1.0)


# ---------------------------------------------------------------------------------------------
# Tables


def cluster_table(rows: pd.DataFrame) -> str:
    """Recall and log loss over seeds, where 9 of 3,000 rows are positive."""
    lines = []
    for part in CLUSTERS:
        some = rows[rows["part"] == part]
        for m in (*KERNEL, *LINEAR):
            mine = some[some["model"] == m]
            if len(mine):
                r, q = mine["recall"], mine["log_loss"]
                cells = [decimals(v, 2) for v in (r.mean(), r.min(), r.max())]
                cells += [decimals(v) for v in (q.mean(), q.min(), q.max())]
                lines.append([part, WORDS[m], f"{len(mine)}", *cells])
        if len(some):
            lines.append([part, "the truth", "", "", "", "", decimals(some["best"].mean()), "", ""])
    head = ["positives", "", "seeds", "recall", "least", "most", "log loss", "least", "most"]
    return table(head, lines)


def share_table(rows: pd.DataFrame) -> str:
    """Log loss against ``LogisticRegressionCV`` by share of positives and number of rows."""
    some = rows[rows["part"] == "logistic"]
    models = [m for m in (*LINEAR[:-1], *KERNEL) if m in set(some["model"])]
    lines = []
    for (share, n), part in some.groupby(["positives", "rows"]):
        wide = part.pivot(index="seed", columns="model", values="log_loss")
        if "logistic_cv" not in wide:
            continue
        cells = [
            f"{100 * share:g} %",
            f"{n:,}",
            f"{len(wide)}",
            decimals(wide["logistic_cv"].mean()),
        ]
        for m in models:
            told = ""
            if m in wide:
                both = wide[[m, "logistic_cv"]].dropna()
                if len(both):
                    told = f"{both[m].mean() / both['logistic_cv'].mean() - 1:+.1%}"
            cells.append(told)
        lines.append(cells)
    head = ["positives", "rows", "seeds", WORDS["logistic_cv"], *(WORDS[m] for m in models)]
    return table(head, lines)


def main() -> None:
    parser = pool.arguments(__doc__, "rare.csv")
    parser.add_argument("--seeds", default="1000:1020", help="first:last, last excluded")
    parser.add_argument("--models", nargs="+", choices=(*KERNEL, *LINEAR))
    a = parser.parse_args()
    seeds = range(*map(int, a.seeds.split(":")))
    wanted = [j for j in jobs(seeds) if not a.models or j[-1] in a.models]
    pool.run(work, wanted, Path(a.out), FIELDS, a.jobs, a.seconds, cost)
    rows = pd.read_csv(a.out)
    print(cluster_table(rows), share_table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
