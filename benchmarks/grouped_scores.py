"""Rows in groups against GPBoost: log loss for rows of known and of new groups.

    .venv-bench/bin/python benchmarks/grouped_scores.py --jobs 2

``toenail``: visits of patients, three columns.  ``small``, ``large``: log odds linear in five
columns plus an effect of the group; 100 groups of about 10 rows, 400 of about 5.  ``rare``: small
with few positives and effects of twice the spread.  Known: a quarter of the rows of every
group is left out.  New: a quarter of the groups is.  Seeds below 1000 are for choosing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

import pool
from grouped import Rows
from tabular_tables import decimals, signed, table

FIELDS = ["set", "groups", "seed", "method", "log_loss", "error", "rows", "cpu_s"]
COLUMNS = 5
# groups, rows, spread of the effects, offset of the log odds
SIMULATED = {
    "small": (100, 1_000, 1.0, 0.0),
    "large": (400, 2_000, 1.5, 0.0),
    "rare": (100, 1_500, 2.0, -3.5),
}
SETS = ("toenail", *SIMULATED)
BASE = "gpboost"


def data(name: str, seed: int) -> Rows:
    """All rows of a set; a simulated one is drawn anew for each seed."""
    if name == "toenail":
        from bayesvm.datasets import load_toenail

        bunch = load_toenail()
        X = np.column_stack([bunch.data, bunch.data[:, 0] * bunch.data[:, 1]])
        return Rows(X, (bunch.target == np.max(bunch.target)).astype(int), np.asarray(bunch.groups))
    G, n, spread, level = SIMULATED[name]
    rng = np.random.default_rng((seed, n))
    X, g = rng.standard_normal((n, COLUMNS)), rng.integers(0, G, n)
    f = level + X @ np.linspace(-1, 1, COLUMNS) + spread * rng.standard_normal(G)[g]
    return Rows(X, (rng.random(n) < expit(f)).astype(int), g)


def division(g: np.ndarray, groups: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows: a quarter of the rows of each group, or a quarter of the groups."""
    rng = np.random.default_rng((seed, 2))
    if groups == "new":
        names = rng.permutation(np.unique(g))
        out = np.isin(g, names[: len(names) // 4])
    else:
        out = np.zeros(len(g), bool)
        for name in np.unique(g):
            mine = rng.permutation(np.flatnonzero(g == name))
            out[mine[: len(mine) // 4]] = True
    return np.flatnonzero(~out), np.flatnonzero(out)


def _mixed(**options: str) -> Callable[[Rows, Rows], np.ndarray]:
    def fit(rows: Rows, new: Rows) -> np.ndarray:
        from bayesvm import MixedSVC

        model = MixedSVC(random_state=0, **options).fit(rows.X, rows.y, groups=rows.g)
        return model.predict_proba(new.X, groups=new.g)[:, 1]

    return fit


def _gpboost(rows: Rows, new: Rows) -> np.ndarray:
    import gpboost

    model = gpboost.GPModel(group_data=rows.g, likelihood="bernoulli_logit")
    X, at = (np.column_stack([np.ones(len(r.y)), r.X]) for r in (rows, new))
    model.fit(y=rows.y.astype(float), X=X)
    return model.predict(X_pred=at, group_data_pred=new.g, predict_response=True)["mu"]


def _no_groups(rows: Rows, new: Rows) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(rows.X, rows.y).predict_proba(new.X)[:, 1]


METHODS: dict[str, Callable[[Rows, Rows], np.ndarray]] = {
    "mixed": _mixed(),
    "mixed_hinge": _mixed(likelihood="hinge"),
    "mixed_logistic": _mixed(likelihood="logistic"),
    "gpboost": _gpboost,
    "no_groups": _no_groups,
}
WORDS = {
    "mixed": "`MixedSVC()`",
    "mixed_hinge": '`MixedSVC(likelihood="hinge")`',
    "mixed_logistic": '`MixedSVC(likelihood="logistic")`',
    "gpboost": "GPBoost",
    "no_groups": "`LogisticRegression`, no groups",
}


def work(name: str, groups: str, seed: int, method: str) -> pool.Row:
    every = data(name, seed)
    train, test = division(every.g, groups, seed)
    rows, new = (Rows(*(part[k] for part in every)) for k in (train, test))
    begun = time.process_time()
    p = np.clip(METHODS[method](rows, new), 1e-15, 1 - 1e-15)
    spent = time.process_time() - begun
    return {
        "set": name,
        "groups": groups,
        "seed": seed,
        "method": method,
        "log_loss": f"{-np.mean(np.where(new.y == 1, np.log(p), np.log1p(-p))):.6f}",
        "error": f"{np.mean((p > 0.5) != new.y):.6f}",
        "rows": len(test),
        "cpu_s": f"{spent:.3f}",
    }


def score_table(rows: pd.DataFrame) -> str:
    """Mean log loss by set; paired difference to GPBoost and its standard error over seeds."""
    lines = []
    for name in SETS:
        for groups in ("known", "new"):
            some = rows[(rows["set"] == name) & (rows["groups"] == groups)]
            wide = some.pivot(index="seed", columns="method", values="log_loss")
            wrong = some.pivot(index="seed", columns="method", values="error")
            for m in (m for m in METHODS if m in wide):
                told = ""
                if BASE in wide and m != BASE:
                    d = (wide[m] - wide[BASE]).dropna()
                    se = d.std(ddof=1) / len(d) ** 0.5
                    told = f"{signed(d.mean())} ({decimals(se)})"
                    told = f"**{told}**" if d.mean() > se else told
                cells = [decimals(wide[m].mean()), told, decimals(wrong[m].mean())]
                lines.append([name, groups, WORDS[m], f"{wide[m].count()}", *cells])
    head = ["set", "groups", "model", "draws", "log loss", "difference to GPBoost (se)", "error"]
    return table(head, lines)


def main() -> None:
    parser = pool.arguments(__doc__, "grouped_scores.csv")
    parser.add_argument("--seeds", default="1000:1020", help="first:last, last excluded")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    a = parser.parse_args()
    seeds = range(*map(int, a.seeds.split(":")))
    wanted = [
        (s, g, k, m) for s in a.sets for g in ("known", "new") for k in seeds for m in a.methods
    ]
    pool.run(work, wanted, Path(a.out), FIELDS, a.jobs, a.seconds)
    print(score_table(pd.read_csv(a.out)))


if __name__ == "__main__":
    main()
