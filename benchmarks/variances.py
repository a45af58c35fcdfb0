"""Variances of groups by variational Bayes beside Gibbs sampling: one row a set and likelihood.

    python benchmarks/variances.py --jobs 16 --seconds 280
    python benchmarks/variances.py --first 0 --sets 20       # development seeds

1,900 rows in 60 groups of about equal size, intercepts of groups of a given standard deviation, and
three columns, of which the last differs between groups only.  Printed at the end: over the sets of
a cell the mean of vb / gibbs, its range, the share of intervals of vb that hold the mean of gibbs,
and CPU times.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.special import expit

import pool
from bayesvm import MixedSVC
from bayesvm.inference import Gibbs

ROWS, GROUPS = 1900, 60
CELLS = [("logistic", 1.0), ("logistic", 2.0), ("soft_hinge", 1.0)]  # likelihood, sd of groups
SWEEPS = {"draws": 1500, "burn_in": 300, "chains": 1}
REPORTED, SETS = 1000, 20  # first seed and number of sets
FIELDS = [
    *("likelihood", "sd", "seed"),
    *(f"{how}_{part}" for how in ("vb", "gibbs") for part in ("mean", "lower", "upper", "cpu_s")),
]


def simulated(sd: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels and groups."""
    rng = np.random.default_rng([seed, ROWS, GROUPS])
    groups = np.arange(ROWS) % GROUPS
    X = rng.standard_normal((ROWS, 3))
    X[:, 2] = rng.standard_normal(GROUPS)[groups]
    f = X @ np.array([1.0, -0.5, 0.5]) + sd * rng.standard_normal(GROUPS)[groups]
    return X, (rng.random(ROWS) < expit(f)).astype(int), groups


def work(likelihood: str, sd: float, seed: int) -> dict[str, object]:
    X, y, groups = simulated(sd, seed)
    row: dict[str, object] = {"likelihood": likelihood, "sd": sd, "seed": seed}
    for how, scheme in (("vb", "vb"), ("gibbs", Gibbs(**SWEEPS))):
        begun = time.process_time()
        model = MixedSVC(inference=scheme, likelihood=likelihood, random_state=seed)
        found = model.fit(X, y, groups=groups).variance_components_.iloc[0]
        row[f"{how}_cpu_s"] = f"{time.process_time() - begun:.2f}"
        row |= {f"{how}_{part}": f"{found[part]:.5f}" for part in ("mean", "lower", "upper")}
    return row


def summary(rows: list[dict[str, str]]) -> list[str]:
    """One line a cell."""
    out = []
    for likelihood, sd in CELLS:
        some = [r for r in rows if r["likelihood"] == likelihood and float(r["sd"]) == sd]
        if not some:
            continue
        at = {k: np.array([float(r[k]) for r in some]) for k in FIELDS[3:]}
        ratio = at["vb_mean"] / at["gibbs_mean"]
        inside = (at["vb_lower"] < at["gibbs_mean"]) & (at["gibbs_mean"] < at["vb_upper"])
        wide = (at["vb_upper"] - at["vb_lower"]) / (at["gibbs_upper"] - at["gibbs_lower"])
        out.append(
            f"{likelihood}, sd {sd}: {len(some)} sets, vb / gibbs {ratio.mean():.3f} "
            f"({ratio.min():.3f} to {ratio.max():.3f}), widths {wide.mean():.2f}, intervals that "
            f"hold the other {inside.mean():.0%}, CPU {at['vb_cpu_s'].mean():.2f} and "
            f"{at['gibbs_cpu_s'].mean():.1f} s"
        )
    return out


def main() -> None:
    parser = pool.arguments(__doc__ or "", "variances.csv")
    parser.add_argument("--first", type=int, default=REPORTED, help="first seed")
    parser.add_argument("--sets", type=int, default=SETS, help="sets a cell")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.sets)
    every = [(*cell, seed) for seed in seeds for cell in CELLS]
    print(pool.run(work, every, given.out, FIELDS, given.jobs, given.seconds))
    print(*summary(pool.read(given.out)), sep="\n")


if __name__ == "__main__":
    main()
