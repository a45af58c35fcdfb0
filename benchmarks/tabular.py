"""The public protocol over the sets of ``$BAYESVM_DATA/tabular``: one row a set, fold and model.

    python benchmarks/tabular.py --jobs 16 --folds 2 3 --out tabular.csv
    python benchmarks/tabular.py --jobs 16 --folds 2 3 --models kernel linear --seconds 400
    python benchmarks/pages.py                    # tables and figure of docs/benchmarks.md

Four stratified folds of the rows as they stand in the file; the score of a fold is the weighted
average precision.  Rows that are in the file are not computed again.  Beside ``tabular.csv``,
``tabular.jsonl`` holds the losses of each test row, from which paired standard errors are computed.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

import pool
from tabular_models import MODELS, cost

FIELDS = [
    *("set", "fold", "model", "pr_auc", "log_loss", "error"),
    *("cpu_s", "n", "p", "classes", "detail"),
]
FOLDS = 4
LEAST = 1e-15  # probabilities are not taken for smaller than this, as in scikit-learn


def home() -> Path:
    """Folder of the sets."""
    return Path(os.environ["BAYESVM_DATA"]) / "tabular"


def sets() -> list[str]:
    """Names of the sets, in the order of their index."""
    return pd.read_csv(home() / "index.csv")["set"].tolist()


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and classes of a set."""
    frame = pd.read_csv(home() / f"{name}.csv.gz")
    return frame.drop(columns="Class"), frame["Class"].to_numpy()


def division(y: np.ndarray, fold: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows of a fold."""
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return list(splitter.split(np.zeros(len(y)), y))[fold]


# ---------------------------------------------------------------------------------------------
# Scores


def pr_auc(codes: np.ndarray, P: np.ndarray) -> float:
    """Average precision; of more than two classes, weighted by their rows.

    Parameters
    ----------
    codes : (n,) int
        The column of ``P`` that is right.
    P : (n, K)
        Probabilities.
    """
    if P.shape[1] == 2:
        return float(average_precision_score(codes, P[:, 1]))
    hot = np.eye(P.shape[1], dtype=int)[codes]
    return float(average_precision_score(hot, P, average="weighted"))


def row_losses(codes: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log loss of each row, and whether its most probable class is wrong."""
    right = P[np.arange(len(codes)), codes]
    return -np.log(np.clip(right, LEAST, None)), P.argmax(axis=1) != codes


def pack(values: np.ndarray) -> str:
    """Numbers in single precision, or truth values, as text."""
    kind = "<u1" if values.dtype == bool else "<f4"
    return kind + base64.b64encode(values.astype(kind).tobytes()).decode()


def unpack(text: str) -> np.ndarray:
    """Numbers from the text that :func:`pack` makes."""
    return np.frombuffer(base64.b64decode(text[3:]), text[:3]).astype(float)


# ---------------------------------------------------------------------------------------------
# One fit


def work(name: str, fold: int, model: str) -> pool.Row:
    """Fit a model to the training rows of a fold and score it on the others."""
    X, y = load(name)
    train, test = division(y, fold)
    begun = time.process_time()
    fitted, detail = MODELS[model](X.iloc[train], y[train])
    given = fitted.predict_proba(X.iloc[test])
    spent = time.process_time() - begun
    classes = np.unique(y)
    P = np.zeros((len(test), classes.size))
    P[:, np.searchsorted(classes, fitted.classes_)] = given
    codes = np.searchsorted(classes, y[test])
    loss, wrong = row_losses(codes, P)
    return {
        "set": name,
        "fold": fold,
        "model": model,
        "pr_auc": f"{pr_auc(codes, P):.6f}",
        "log_loss": f"{loss.mean():.6f}",
        "error": f"{wrong.mean():.6f}",
        "cpu_s": f"{spent:.3f}",
        "n": len(train),
        "p": X.shape[1],
        "classes": classes.size,
        "detail": detail,
        "rows": {"loss": pack(loss), "wrong": pack(wrong)},
    }


@lru_cache
def _sizes() -> dict[str, tuple[int, int, int]]:
    index = pd.read_csv(home() / "index.csv")
    rows = (index["rows"] * 3 // 4).tolist(), index["columns"].tolist(), index["classes"].tolist()
    return dict(zip(index["set"], zip(*rows)))


def known_seconds(paths: list[Path]) -> dict[tuple[str, str], float]:
    """Processor seconds by set and model, from earlier runs on any fold."""
    found = [r for path in paths for r in pool.read(path)]
    return {(r["set"], r["model"]): float(r["cpu_s"]) for r in found}


def run(
    out: Path,
    models: list[str],
    folds: list[int],
    names: list[str],
    jobs: int,
    seconds: float | None = None,
    first: Sequence[str] = (),
) -> pool.Outcome:
    """Every set, fold and model that ``out`` does not have; models in ``first`` come first."""
    out.parent.mkdir(parents=True, exist_ok=True)
    times = known_seconds([*out.parent.glob("*tabular*.csv"), out])

    def expected(name: str, fold: int, model: str) -> float:
        known = times.get((name, model)) or cost(model, *_sizes()[name])
        return known + (1e6 if model in first else 0.0)

    with out.with_suffix(".jsonl").open("a", encoding="utf-8") as file:

        def keep(row: pool.Row) -> None:
            known = {k: row[k] for k in ("set", "fold", "model")}
            file.write(json.dumps(known | row.pop("rows")) + "\n")
            file.flush()

        work_list = [(s, f, m) for s in names for f in folds for m in models]
        return pool.run(work, work_list, out, FIELDS, jobs, seconds, expected, keep)


def main(arguments: list[str] | None = None) -> None:
    parser = pool.arguments(__doc__, "tabular.csv")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(FOLDS)))
    parser.add_argument("--sets", nargs="+", help="names (default: all)")
    parser.add_argument("--first", nargs="+", choices=MODELS, default=[], help="begin with these")
    a = parser.parse_args(arguments)
    out = run(a.out, a.models, a.folds, a.sets or sets(), a.jobs, a.seconds, a.first)
    print(f"{out.held} held, {out.done} done, {len(out.failed)} failed, {out.left} left")
    for line in out.failed:
        print(f"  {line}")


if __name__ == "__main__":
    main()
