"""The command line against logistic regression: log loss with the same folds.

    python benchmarks/command_line.py --folds 2 3 --out command_line.csv
    python benchmarks/command_line.py --table command_line.csv

acath, toenail (rows of known patients), spambase, iris, digits, and of each family of
``$BAYESVM_DATA/tabular`` with columns of text the first set.  The training rows of a fold are
written to a table, ``bayesvm fit`` and ``bayesvm predict`` are run as a user would, and the
probabilities are read from what they write.  Logistic regression is scikit-learn's with its
default penalty (``logistic``) or one chosen by log loss over five folds (``tuned``), after the
usual steps: text to indicators, means and indicators for missing cells, unit variances.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits, load_iris
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tabular
from bayesvm.datasets import load_acath, load_spam
from tabular_tables import decimals, table

TEXT = ("abalone-3class", "autoUniv-au4-2500", "bank-marketing", "blogger", "indian-liver-patient")
SETS = ("acath", "toenail", "spambase", "iris", "digits", *TEXT)
OPTIONS = {"toenail": ("--groups", "patient_id")}
MODELS = ("auto", "linear", "kernel")
PEERS = ("logistic", "tuned")
FIELDS = ("set", "fold", "model", "log_loss", "error", "cpu_s", "n")


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns as they are in files, and labels."""
    if name in TEXT:
        return tabular.load(name)
    if name in ("iris", "digits"):
        bunch = {"iris": load_iris, "digits": load_digits}[name](as_frame=True)
        return bunch.data, bunch.target.to_numpy()
    if name == "toenail":
        frame = pd.read_csv(tabular.home().parent / "toenail" / "toenail.csv")
        return frame[["patient_id", "treatment", "time_months"]], frame["label"].to_numpy()
    bunch = {"acath": load_acath, "spambase": load_spam}[name]()
    return pd.DataFrame(bunch.data, columns=bunch.feature_names), bunch.target


def by_command(name: str, model: str, X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> tuple:
    """Probabilities of new rows by the two commands, and the seconds they computed."""
    with tempfile.TemporaryDirectory() as folder:
        train, test = Path(folder) / "train.csv", Path(folder) / "new.csv"
        X.assign(label=y).to_csv(train, index=False)
        new.to_csv(test, index=False)
        options = ("--model", model, *(OPTIONS.get(name, ()) if model == "auto" else ()))
        begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        fit = ["fit", train, "--target", "label", "--no-check", *options]
        predict = ["predict", train.with_suffix(".bayesvm"), test, "--output", f"{folder}/p.csv"]
        for command in (fit, predict):
            line = [sys.executable, "-m", "bayesvm", *map(str, command)]
            subprocess.run(line, check=True, capture_output=True)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin
        found = pd.read_csv(f"{folder}/p.csv")
    return found[[f"p_{label}" for label in np.unique(y)]].to_numpy(), spent


def by_peer(model: str, X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> tuple:
    """The same by logistic regression."""
    begin = time.process_time()
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    steps = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    last = LogisticRegression(max_iter=1000)
    if model == "tuned":
        last = LogisticRegressionCV(scoring="neg_log_loss", max_iter=1000, cv=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = make_pipeline(steps, last).fit(X, y).predict_proba(new)
    return found, time.process_time() - begin


def work(name: str, fold: int, model: str) -> dict[str, object]:
    """Scores of a model on the rows of a fold."""
    X, y = load(name)
    train, test = tabular.division(y, fold)
    some = X.drop(columns="patient_id") if name == "toenail" and model in PEERS else X
    data = (some.iloc[train], y[train], some.iloc[test])
    P, spent = by_peer(model, *data) if model in PEERS else by_command(name, model, *data)
    loss, wrong = tabular.row_losses(np.searchsorted(np.unique(y), y[test]), P)
    scores = (f"{loss.mean():.6f}", f"{wrong.mean():.6f}", f"{spent:.2f}", len(train))
    return dict(zip(FIELDS, (name, fold, model, *scores), strict=True))


def pages(path: Path) -> str:
    """The table: log loss by set and model, means over folds."""
    frame = pd.read_csv(path)
    means = frame.groupby(["set", "model"], sort=False)["log_loss"].mean().unstack()
    models = [name for name in (*MODELS, *PEERS) if name in means]
    names = [name for name in SETS if name in means.index]
    rows = [[name, *(decimals(means.at[name, model]) for model in models)] for name in names]
    return table(["set", *models], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--models", nargs="+", default=["auto", "logistic"])
    parser.add_argument("--out", type=Path, default=Path("command_line.csv"))
    parser.add_argument("--table", type=Path, help="print the table of a file and leave")
    args = parser.parse_args()
    if args.table:
        print(pages(args.table))
        return
    known = pd.read_csv(args.out)[["set", "fold", "model"]] if args.out.exists() else None
    done = set() if known is None else set(known.itertuples(index=False, name=None))
    with args.out.open("a", newline="") as handle:
        writer = csv.DictWriter(handle, FIELDS)
        if not done:
            writer.writeheader()
        for name in args.sets:
            for fold in args.folds:
                for model in args.models:
                    if (name, fold, model) not in done:
                        row = work(name, fold, model)
                        print(row, flush=True)
                        writer.writerow(row)
                        handle.flush()
    print(pages(args.out))


if __name__ == "__main__":
    main()
