"""The default kernel machine beside its exact process, on sets of 1,000 to 5,000 training rows.

    python benchmarks/few_points.py --folds 2 3 --out few_points.csv
    python benchmarks/few_points.py --sets waveforms ringnorm wilt --folds 2

One row a set and fold: the inducing points that took the place of all rows, log loss and error of
both on rows left out with the standard error of the differences, and processor time of fits and
predictions.  ``waveforms`` are simulated; names of Raetsch's sets are divided anew, three quarters
to train; other names are those of ``$BAYESVM_DATA/tabular``, of which a fold is left out.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bayesvm import BayesianSVC
from kernel_checks import waveforms
from tabular import division, load, row_losses

FIELDS = [
    *("set", "fold", "rows", "classes", "points", "log_loss", "log_loss_exact", "log_loss_se"),
    *("error", "error_exact", "error_se", "cpu_s", "cpu_s_exact", "predict_s", "predict_s_exact"),
]
MOST, NEW = 5000, 3000  # rows to train and to predict
POOLS = ("banana", "image", "ringnorm", "splice", "twonorm", "waveform")
SETS = [
    *("abalone-3class", "abalone-7class", "bank-marketing", "banknote-authentication"),
    *("cardiotocography-3class", "eeg-eye-state", "mushroom", "ozone-onehr", "banana", "image"),
    *("twonorm", "robot-nav-sensor-readings-2", "spambase", "thyroid-ann"),
    *("thyroid-hypothyroid", "thyroid-sick-euthyroid", "thyroid-sick", "waveform-v1"),
    *("waveforms", "wilt"),
]


def rows_of(name: str, fold: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training rows and their classes, and others."""
    rng = np.random.default_rng(fold + 77)
    if name == "waveforms":
        return *waveforms(MOST, fold + 10), *waveforms(NEW, fold + 1010)
    if name in POOLS:
        held = np.load(Path(os.environ["BAYESVM_DATA"]) / "raetsch" / f"{name}.npz")
        X, y = held["x"], held["t"].ravel()
        order, n = rng.permutation(len(y)), min(MOST, 3 * len(y) // 4)
        train, test = order[:n], order[n : n + NEW]
        return X[train], y[train], X[test], y[test]
    frame, y = load(name)
    train, test = (
        part if len(part) <= most else np.sort(rng.choice(part, most, replace=False))
        for part, most in zip(division(y, fold), (MOST, NEW), strict=True)
    )
    return frame.iloc[train], y[train], frame.iloc[test], y[test]


def compared(name: str, fold: int) -> dict[str, Any]:
    """The scores of a set and fold."""
    X, y, new, labels = rows_of(name, fold)
    out: dict[str, Any] = {"set": name, "fold": fold, "rows": len(y)}
    each = []
    for which, how in (("", {}), ("_exact", {"n_inducing": None})):
        begun = time.process_time()
        model = BayesianSVC(random_state=0, **how).fit(X, y)
        ended = time.process_time()
        P = model.predict_proba(new)
        loss, wrong = row_losses(np.searchsorted(model.classes_, labels), P)
        each.append((loss, wrong.astype(float)))
        out[f"log_loss{which}"], out[f"error{which}"] = f"{loss.mean():.5f}", f"{wrong.mean():.4f}"
        out[f"cpu_s{which}"] = f"{ended - begun:.2f}"
        out[f"predict_s{which}"] = f"{time.process_time() - ended:.2f}"
        if not how:
            out["points"], out["classes"] = len(model.inducing_points_), len(model.classes_)
    for k, what in enumerate(("log_loss", "error")):
        gap = each[0][k] - each[1][k]
        out[f"{what}_se"] = f"{gap.std() / np.sqrt(len(gap)):.5f}"
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--folds", nargs="+", type=int, default=[2])
    parser.add_argument("--out", type=Path, default=Path("few_points.csv"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with given.out.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, FIELDS)
        table.writeheader()
        for name in given.sets:
            for fold in given.folds:
                row = compared(name, fold)
                table.writerow(row)
                file.flush()
                print(", ".join(f"{k} {v}" for k, v in row.items()), flush=True)


if __name__ == "__main__":
    main()
