"""Rough, low-dimensional sets of thousands of rows: log loss and processor time on one core.

    python benchmarks/rough.py --jobs 16
    PYTHONPATH=OLD/src python benchmarks/rough.py --jobs 16 --version before --models kernel

``plain``, ``field``: labels drawn with log odds that are a draw of a process with a Matérn-1/2
kernel, two columns, 4,000 rows; seeds below 1000 are for choosing.  ``plain`` has a length scale of
a fifth of the square and log odds of sd 3, written down before any fit; ``field`` is the one of
four settings in which a rough kernel gained most.  ``robot``: robot-nav-sensor-readings-2 of the
tabular sets, two columns and four classes, 4,092 training rows a fold.  The version before is run
from its own source, so that nothing of today's is in it.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

import pool
from tabular import division, load, row_losses
from tabular_models import MODELS, WORDS
from tabular_tables import decimals, table

FIELDS = ["set", "part", "model", "version", "log_loss", "error", "cpu_s", "n", "p", "detail"]
ROWS, NEW, COLUMNS = 4_000, 10_000, 2
SETTINGS = {"plain": (0.2, 3.0), "field": (0.1, 6.0)}  # length scale, sd of log odds
FEATURES = 4_000
ROBOT = "robot-nav-sensor-readings-2"
TRIED = ("kernel", "kernel_hinge", "svc_grid", "forest", "boosting")


def field(seed: int, scale: float, amplitude: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the unit square and their log odds, a draw of the process by random features."""
    rng = np.random.default_rng(seed)
    X = rng.random((ROWS + NEW, COLUMNS))
    # the spectral density of Matérn-1/2 is Cauchy: a normal over the root of a chi-square of one
    W = rng.standard_normal((COLUMNS, FEATURES)) / np.abs(rng.standard_normal(FEATURES)) / scale
    phase = rng.uniform(0, 2 * np.pi, FEATURES)
    weights = amplitude * np.sqrt(2 / FEATURES) * rng.standard_normal(FEATURES)
    return X, np.cos(X @ W + phase) @ weights


def data(name: str, part: int) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Training rows and labels, test rows and labels; ``part`` is a seed or a fold."""
    if name == "robot":
        X, y = load(ROBOT)
        train, test = division(y, part)
        return X.iloc[train], y[train], X.iloc[test], y[test]
    points, f = field(part, *SETTINGS[name])
    y = (np.random.default_rng((part, 1)).random(len(f)) < expit(f)).astype(int)
    X = pd.DataFrame(points, columns=[f"x{j}" for j in range(COLUMNS)])
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def work(name: str, part: int, model: str, version: str) -> pool.Row:
    X, y, X_new, y_new = data(name, part)
    begun = time.process_time()
    fitted, detail = MODELS[model](X, y)
    P = fitted.predict_proba(X_new)
    spent = time.process_time() - begun
    loss, wrong = row_losses(np.searchsorted(fitted.classes_, y_new), P)
    return {
        "set": name,
        "part": part,
        "model": model,
        "version": version,
        "log_loss": f"{loss.mean():.6f}",
        "error": f"{wrong.mean():.6f}",
        "cpu_s": f"{spent:.2f}",
        "n": len(y),
        "p": X.shape[1],
        "detail": detail,
    }


def score_table(rows: pd.DataFrame) -> str:
    """Means by set; log loss relative to the default of the version before."""
    order = {m: k for k, m in enumerate(TRIED)}
    lines = []
    for name in (k for k in (*SETTINGS, "robot") if k in set(rows["set"])):
        part = rows[rows["set"] == name]
        means = part.groupby(["model", "version"])[["log_loss", "error", "cpu_s"]].mean()
        base = means["log_loss"].get(("kernel", "before"), np.nan)
        for (m, version), v in sorted(means.iterrows(), key=lambda k: (order[k[0][0]], k[0][1])):
            words = WORDS[m] + (f", {version}" if version != "now" else "")
            count = ((part["model"] == m) & (part["version"] == version)).sum()
            relative = f"{v['log_loss'] / base - 1:+.1%}" if np.isfinite(base) else ""
            cells = [decimals(v["log_loss"]), relative, decimals(v["error"]), f"{v['cpu_s']:.1f}"]
            lines.append([name, words, f"{count}", *cells])
    head = ["set", "model", "draws or folds", "log loss", "relative", "error", "CPU s, one core"]
    return table(head, lines)


def cost(name: str, part: int, model: str, version: str) -> float:
    return 100.0 if model.startswith("kernel") else 10.0


def main() -> None:
    parser = pool.arguments(__doc__, "rough.csv")
    parser.add_argument("--seeds", default="1000:1006", help="first:last, last excluded")
    parser.add_argument("--folds", nargs="*", type=int, default=[2, 3])
    parser.add_argument("--models", nargs="+", choices=TRIED, default=list(TRIED))
    parser.add_argument("--version", default="now", help="name of the source that is run")
    a = parser.parse_args()
    parts = [(k, s) for k in SETTINGS for s in range(*map(int, a.seeds.split(":")))]
    parts += [("robot", f) for f in a.folds]
    wanted = [(*part, m, a.version) for part in parts for m in a.models]
    pool.run(work, wanted, Path(a.out), FIELDS, a.jobs, a.seconds, cost)
    print(score_table(pd.read_csv(a.out)))


if __name__ == "__main__":
    main()
