"""Compare the default estimators with their recorded scores on the tabular data sets.

    BAYESVM_DATA=... python -m tests.golden.compare linear --jobs 2
    BAYESVM_DATA=... python -m tests.golden.compare kernel --sets wine bupa --seeds 0 1 2
    BAYESVM_DATA=... python -m tests.golden.compare linear --record

Folds 0 and 1 of four stratified folds. `scores.csv` has one row for each fit; `losses.npz` has the
log loss of each test observation, which the paired standard errors need.

A change is accepted if the sets that are worse by more than one paired standard error are at most
as many as those that are better by as much and a tenth of all sets more, and if no set is worse by
more than 10 % of its log loss (mean over folds and seeds).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedKFold

from bayesvm import BayesianLinearSVC, BayesianSVC

HERE = Path(__file__).parent
ESTIMATORS = {"linear": BayesianLinearSVC, "kernel": BayesianSVC}
KEYS = ["estimator", "set", "fold", "seed"]


class Scores(NamedTuple):
    """Scores of one fit on the test observations of one fold."""

    key: tuple[str, str, int, int]  # estimator, set, fold, seed
    losses: np.ndarray  # (n_test,) log loss, in half precision as it is recorded
    error: float
    cpu_s: float


def folder() -> Path:
    """Folder of the tabular data sets."""
    return Path(os.environ["BAYESVM_DATA"]) / "tabular"


def all_sets() -> list[str]:
    """Names of the sets, the smallest first."""
    return pd.read_csv(folder() / "index.csv").sort_values("rows")["set"].tolist()


def score(estimator: str, name: str, fold: int, seed: int) -> Scores:
    """Fit a default estimator to the training part of a fold and score it on the test part."""
    frame = pd.read_csv(folder() / f"{name}.csv.gz")
    X, y = frame.drop(columns="Class"), frame["Class"].to_numpy()
    train, test = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))[fold]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ESTIMATORS[estimator](random_state=seed, n_jobs=1).fit(X.iloc[train], y[train])
        P = model.predict_proba(X.iloc[test])
    cpu_s = time.process_time() - start
    observed = P[y[test][:, None] == model.classes_]  # every class has rows in every fold
    losses = -np.log(np.clip(observed, 1e-15, None))  # as in scikit-learn's log_loss
    error = float(np.mean(model.classes_[P.argmax(axis=1)] != y[test]))
    return Scores((estimator, name, fold, seed), losses.astype(np.float16), error, cpu_s)


def run(keys: list[tuple[str, str, int, int]], jobs: int) -> Iterator[Scores]:
    """Scores of the fits, as they are finished."""
    return Parallel(n_jobs=jobs, return_as="generator")(delayed(score)(*key) for key in keys)


def record(keys: list[tuple[str, str, int, int]], jobs: int) -> None:
    """Add the fits that are not yet in the recorded scores."""
    path, losses = HERE / "scores.csv", recorded_losses()
    missing = [key for key in keys if "/".join(map(str, key)) not in losses]
    for s in run(missing, jobs):
        losses["/".join(map(str, s.key))] = s.losses
        row = dict(zip(KEYS, s.key), log_loss=s.losses.mean(dtype=float), error=s.error)
        row = pd.DataFrame([row | {"cpu_s": round(s.cpu_s, 2)}])
        row.to_csv(path, mode="a", header=not path.exists(), index=False, float_format="%.6g")
        np.savez_compressed(HERE / "losses.npz", **losses)
        print(*s.key, f"{s.losses.mean(dtype=float):.4f} {s.cpu_s:.1f} s", flush=True)


def recorded_losses() -> dict[str, np.ndarray]:
    """Recorded log losses of test observations, by ``estimator/set/fold/seed``."""
    path = HERE / "losses.npz"
    return dict(np.load(path)) if path.exists() else {}


class Verdict(NamedTuple):
    """Comparison with the recorded scores: one row a set, and whether the change is accepted."""

    table: pd.DataFrame
    accepted: bool
    text: str


def compare(
    estimator: str,
    sets: list[str] | None = None,
    folds: tuple[int, ...] = (0, 1),
    seeds: tuple[int, ...] = (0,),
    jobs: int = 1,
) -> Verdict:
    """Fit a default estimator again and compare it with the recorded scores of the same seeds."""
    sets, recorded = sets or all_sets(), recorded_losses()
    found = list(run([(estimator, n, k, s) for n in sets for k in folds for s in seeds], jobs))
    old = pd.read_csv(HERE / "scores.csv").set_index(KEYS)
    rows = []
    for name in sets:
        new = [s for s in found if s.key[1] == name]
        past = old.loc[[s.key for s in new]]
        before, now = [], []  # losses of the test observations of each fold, means over seeds
        for fold in folds:
            keys = [f"{estimator}/{name}/{fold}/{seed}" for seed in seeds]
            before.append(np.mean([recorded[key] for key in keys], axis=0, dtype=float))
            now.append(np.mean([s.losses for s in new if s.key[2] == fold], axis=0, dtype=float))
        a, b = np.concatenate(before), np.concatenate(now)
        rows.append(
            {
                "set": name,
                "before": a.mean(),
                "now": b.mean(),
                "ratio": b.mean() / a.mean(),
                "se": (b - a).std(ddof=1) / np.sqrt(a.size),
                "error_before": past.error.mean(),
                "error_now": np.mean([s.error for s in new]),
                "cpu_before": past.cpu_s.sum() / len(seeds),
                "cpu_now": sum(s.cpu_s for s in new) / len(seeds),
            }
        )
    return verdict(estimator, pd.DataFrame(rows).set_index("set"))


def verdict(estimator: str, table: pd.DataFrame) -> Verdict:
    """Apply the rule of this module to a table with one row for each set."""
    change = table.now - table.before
    better, worse = int((change < -table.se).sum()), int((change > table.se).sum())
    worst = table.ratio.idxmax()
    accepted = worse <= better + len(table) / 10 and table.ratio.max() <= 1.1
    mean = table.mean()
    text = (
        f"{estimator}, {len(table)} sets: {better} better, {len(table) - better - worse} within "
        f"one paired standard error, {worse} worse; worst {worst}, {table.ratio[worst]:.3f} of its "
        f"log loss ({table.before[worst]:.4f} before, {table.now[worst]:.4f} now)\n"
        f"mean log loss {mean.before:.4f} before, {mean.now:.4f} now; "
        f"error {mean.error_before:.2%} before, {mean.error_now:.2%} now; "
        f"CPU {table.cpu_before.sum():.0f} s before, {table.cpu_now.sum():.0f} s now\n"
        f"{'accepted' if accepted else 'not accepted'}"
    )
    return Verdict(table, bool(accepted), text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("estimator", choices=ESTIMATORS)
    parser.add_argument("--sets", nargs="+", help="names of sets (default: all)")
    parser.add_argument("--folds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="means over these")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="add what is not recorded")
    a = parser.parse_args()
    if a.record:
        names = a.sets or all_sets()
        keys = [(a.estimator, n, k, s) for s in a.seeds for n in names for k in a.folds]
        return record(keys, a.jobs)
    result = compare(a.estimator, a.sets, tuple(a.folds), tuple(a.seeds), a.jobs)
    print(result.table.round(4).sort_values("ratio").to_string(), result.text, sep="\n")


if __name__ == "__main__":
    main()
