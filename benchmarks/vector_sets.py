"""Sparse kernel machines on the 13 sets of Raetsch et al.: ``python benchmarks/vector_sets.py``.

Data are read from ``$BAYESVM_DATA/raetsch``.  One line of the CSV is one method on one realisation
of one set; lines already there are not computed again, so a stopped run goes on.  Settings were
chosen on realisations 0 to 4, which are left out of the table, and on drawn ones, those from 1000
on.  Of image and splice there are 20 realisations; for them ``--realisations`` beyond that means 5
to 19 (of drawn ones, a fifth as many).
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bayesvm import PCVC, RVC
from bayesvm.kernels import RBF
from papers import chen_paper

# the costly first, so that the last processes do not wait for one
SETS = (
    "splice", "image", "german", "banana", "diabetis", "waveform", "ringnorm", "twonorm",
    "flare_solar", "breast_cancer", "heart", "thyroid", "titanic",
)  # fmt: skip
CHOSEN_ON = 5  # realisations on which settings were chosen,
DRAWN = 1000  # and the first of those that are drawn, for the same purpose
PENALTIES = 10.0 ** np.arange(-2, 4)
GAMMAS = 2.0 ** np.array([3, 2, 1, 0, -1, -3, -5, -7])  # over the number of columns
# rows of generated realisations are in lexicographic order: folds must be shuffled
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
MEASURES = ("error", "auc", "log_loss", "brier", "one_minus_rmse", "vectors", "seconds")
FIELDS = ("set", "realisation", "method", *MEASURES)

# Chen, Tiňo & Yao (2009), Table I: mean and standard deviation over 100 realisations
ORDER = chen_paper.SETS
PRINTED = {
    (method, of): chen_paper.TABLE1[name][method]
    for of, name in (("error", "Error"), ("auc", "AUC"))
    for method in ("PCVM", "RVM")
}


def read(name: str) -> dict[str, Any]:
    folder = os.environ.get("BAYESVM_DATA")
    if not folder:
        sys.exit("set BAYESVM_DATA to the folder that holds raetsch/*.npz")
    with np.load(Path(folder) / "raetsch" / f"{name}.npz") as data:
        return {key: data[key] for key in data.files}


def realisation(name: str, k: int) -> tuple[Any, Any, Any, Any]:
    """Realisation ``k``: original ones first, then generated; from 1000 on, drawn here."""
    data = read(name)
    if k >= DRAWN:
        rows = np.repeat(np.arange(data["t"].size), data["counts"])
        rows = np.random.default_rng([k, 77]).permutation(rows)
        parts = np.split(rows, [data["train_generated"].shape[1]])
    else:
        parts = [stored(data, part, k) for part in ("train", "test")]
    X, t = data["x"], data["t"].astype(int)
    return X[parts[0]], t[parts[0]], X[parts[1]], t[parts[1]]


def stored(data: dict[str, Any], part: str, k: int) -> Any:
    given = data[f"{part}_original"]
    return given[k] if k < len(given) else data[f"{part}_generated"][k - len(given)]


# ---------------------------------------------------------------------------------------------
# Methods


def searched(
    X: Any, y: Any, start: SVC, grid: dict[str, Any], platt: bool = True
) -> tuple[Any, float]:
    """The usual recipe: a grid search over five folds, then Platt's method over the same."""
    best = GridSearchCV(start, grid, cv=FOLDS).fit(X, y).best_estimator_
    count = float(best.n_support_.sum())
    if not platt:
        return best, count
    return CalibratedClassifierCV(clone(best), ensemble=False, cv=FOLDS).fit(X, y), count


def svc(X: Any, y: Any) -> tuple[Any, float]:
    scale = StandardScaler().fit(X)
    grid = {"C": PENALTIES, "gamma": GAMMAS / X.shape[1]}
    model, count = searched(scale.transform(X), y, SVC(), grid)
    return make_pipeline(scale, model), count


def svc_at(kernel: Any, platt: bool = True) -> Callable[[Any, Any], tuple[Any, float]]:
    """The support vector machine at a kernel found by another machine; C by grid search."""

    def fit(X: Any, y: Any) -> tuple[Any, float]:
        scale = StandardScaler().fit(X)
        start, grid = SVC(kernel=kernel), {"C": PENALTIES}
        model, count = searched(scale.transform(X), y, start, grid, platt)
        return make_pipeline(scale, model), count

    return fit


def ours(model: Any) -> Callable[[Any, Any], tuple[Any, float]]:
    def fit(X: Any, y: Any) -> tuple[Any, float]:
        model.fit(X, y)
        return model, float(model.n_vectors_)

    return fit


METHODS: dict[str, Callable[[], Any]] = {
    "pcvc": lambda: PCVC(),
    "pcvc_plain": lambda: PCVC(norm_penalty=0.0),  # the Laplace prior alone
    "pcvc_shared": lambda: PCVC(RBF(1.0)),  # never one scale a column
    "pcvc_sparse": lambda: PCVC(selection="one_standard_error"),
    "pcvc_power": lambda: PCVC(weight_prior="power"),
    "rvc": lambda: RVC(),
    "svc": lambda: None,
    "svc_pcvc_kernel": lambda: None,
    "svc_plain": lambda: None,  # the same, by its own decisions
}
DEFAULT = ("pcvc", "rvc", "svc", "svc_pcvc_kernel", "svc_plain")


def measure(fit: Callable[[Any, Any], Any], data: tuple[Any, ...]) -> tuple[Any, dict[str, float]]:
    X, y, X_test, y_test = data
    start = time.perf_counter()
    model, count = fit(X, y)
    seconds = time.perf_counter() - start
    error = float(np.mean(model.predict(X_test) != y_test))
    if not hasattr(model, "predict_proba"):  # decisions, and an order of rows
        auc = float(roc_auc_score(y_test, model.decision_function(X_test)))
        known = {"error": error, "auc": auc, "vectors": count, "seconds": seconds}
        return model, dict.fromkeys(MEASURES, np.nan) | known
    p = model.predict_proba(X_test)[:, 1]
    brier = float(brier_score_loss(y_test, p, pos_label=1))
    return model, {
        "error": error,
        "auc": float(roc_auc_score(y_test, p)),
        "log_loss": float(log_loss(y_test, p, labels=[-1, 1])),
        "brier": brier,
        "one_minus_rmse": 1.0 - brier**0.5,
        "vectors": count,
        "seconds": seconds,
    }


def work(name: str, k: int, methods: list[str], output: Path) -> None:
    """All methods on one realisation, each line written when it is known."""
    warnings.simplefilter("ignore")
    data = realisation(name, k)
    kernel = None
    for method in methods:
        if method == "svc":
            fit: Any = svc
        elif method in ("svc_pcvc_kernel", "svc_plain"):
            if kernel is None:
                kernel = PCVC().fit(*data[:2]).kernel_
            fit = svc_at(kernel, platt=method == "svc_pcvc_kernel")
        else:
            fit = ours(METHODS[method]())
        with threadpool_limits(1):  # processes side by side, one thread each
            model, values = measure(fit, data)
        if method == "pcvc":
            kernel = model.kernel_
        line = [name, k, method, *(f"{values[m]:.6g}" for m in MEASURES)]
        with output.open("a", newline="") as handle:  # one write a line: processes do not mix
            handle.write(",".join(map(str, line)) + "\n")


def from_the_pool(name: str, draws: int) -> None:
    """Errors where training rows are drawn with replacement and scored on all rows of the set.

    The realisations divide a pool.  Where a set has few distinct rows, each with both labels, those
    that are more often positive in training are less often so in the test, and machines that follow
    frequencies are punished for it; independent draws do not do that.
    """
    data = read(name)
    X, t, counts = data["x"], data["t"].astype(int), data["counts"]
    size = data["train_generated"].shape[1]
    rng, errors = np.random.default_rng(7), []
    for _ in range(draws):
        rows = rng.choice(t.size, size, p=counts / counts.sum())
        model = PCVC().fit(X[rows], t[rows])
        other, _ = svc_at(model.kernel_)(X[rows], t[rows])
        errors.append([np.average(m.predict(X) != t, weights=counts) for m in (model, other)])
    found = 100 * np.array(errors)
    gap = found[:, 0] - found[:, 1]
    print(
        f"{name}: pcvc {found[:, 0].mean():.2f}, svc_pcvc_kernel {found[:, 1].mean():.2f}, "
        f"difference {gap.mean():+.3f} ± {gap.std(ddof=1) / draws**0.5:.3f}"
    )


# ---------------------------------------------------------------------------------------------
# Tables


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(newline="") as handle:
        yield from csv.DictReader(handle)


def report(path: Path, first: int) -> None:
    """Means over realisations from ``first`` on, with standard errors, and what they come to."""
    held: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for row in lines(path):
        if int(row["realisation"]) >= first:
            values = {m: float(row[m]) for m in MEASURES}
            held.setdefault((row["set"], row["method"]), {})[int(row["realisation"])] = values
    sets = [s for s in ORDER if any(key[0] == s for key in held)]
    methods = [m for m in METHODS if any(key[1] == m for key in held)]

    def column(s: str, m: str, of: str) -> np.ndarray:
        return np.array([v[of] for _, v in sorted(held.get((s, m), {}).items())])

    for of, factor in (
        ("error", 100), ("auc", 100), ("log_loss", 1), ("one_minus_rmse", 100), ("vectors", 1),
        ("seconds", 1),
    ):  # fmt: skip
        printed = {k[0]: v for k, v in PRINTED.items() if k[1] == of}
        print(f"\n{of}\n{'':14s}" + "".join(f"{m:>18s}" for m in [*methods, *printed]))
        means: dict[str, list[float]] = {m: [] for m in methods}
        for s in sets:
            text = f"{s:14s}"
            for m in methods:
                x = factor * column(s, m, of)
                if not x.size:
                    text += f"{'':>18s}"
                    continue
                means[m].append(float(x.mean()))
                error = x.std(ddof=1) / np.sqrt(x.size) if x.size > 1 else np.nan
                text += f"{x.mean():11.4g} ±{error:5.2g}"
            for mean, sd in printed.values():
                j = ORDER.index(s)
                text += f"{mean[j]:11.4g} ±{sd[j] / 10:5.2g}"
            print(text)
        if all(len(v) == len(sets) for v in means.values()):
            rows = [ORDER.index(s) for s in sets]
            last = [*means.values(), *([p[0][j] for j in rows] for p in printed.values())]
            print(f"{'mean':14s}" + "".join(f"{np.mean(v):11.4g}{'':7s}" for v in last))

    def no_worse(m: str, against: str, of: str, sign: float) -> str:
        good = []
        for s in sets:
            x, j = 100 * column(s, m, of), ORDER.index(s)
            mean, sd = PRINTED[against, of]
            error = np.hypot(x.std(ddof=1) / np.sqrt(x.size), sd[j] / 10)
            good.append(sign * (x.mean() - mean[j]) <= error)
        return f"{sum(good)} of {len(sets)}"

    def better(m: str, other: str, of: str, sign: float) -> str:
        """On how many sets, and the mean difference with its standard error."""
        gaps, errors = [], []
        for s in sets:
            theirs = held[s, other]
            both = [k for k in held[s, m] if k in theirs]
            gap = sign * np.array([held[s, m][k][of] - theirs[k][of] for k in both])
            gaps.append(gap.mean())
            errors.append(gap.var(ddof=1) / gap.size if gap.size > 1 else np.nan)
        spread = np.sqrt(np.sum(errors)) / len(sets)
        lower = sum(g < 0 for g in gaps)
        return f"{lower} of {len(sets)}, mean difference {np.mean(gaps):+.3g} ± {spread:.2g}"

    print()
    for m, paper in (("pcvc", "PCVM"), ("rvc", "RVM")):
        if m in methods:
            for of, sign in (("error", 1.0), ("auc", -1.0)):
                count = no_worse(m, paper, of, sign)
                print(f"{m} no worse in {of} than the printed {paper}: {count}")
    for other in ("rvc", "svc", "svc_pcvc_kernel", "svc_plain"):
        if "pcvc" in methods and other in methods:
            measures = (("error", 1.0), ("auc", -1.0), ("log_loss", 1.0))
            for of, sign in measures[: 2 if other == "svc_plain" else 3]:
                print(f"pcvc better in {of} than {other}: {better('pcvc', other, of, sign)}")
            size = {m: [column(s, m, "vectors").mean() for s in sets] for m in ("pcvc", other)}
            ratio = np.mean(np.divide(size["pcvc"], size[other]))
            print(f"vectors of pcvc over those of {other}: {ratio:.3f}")


def few(span: range) -> range:
    """Those of image and splice, which are fewer and cost more."""
    if span.start >= DRAWN:
        return span[: -(-len(span) // 5)]
    return range(CHOSEN_ON, 20) if span.stop > 20 else span


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--realisations", default="25:100", help="a:b, the end left out")
    parser.add_argument("--methods", nargs="+", default=list(DEFAULT), choices=list(METHODS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("vectors.csv"))
    parser.add_argument("--report", action="store_true", help="only the tables")
    parser.add_argument("--pool", type=int, metavar="DRAWS", help="independent draws instead")
    parser.add_argument("--first", type=int, default=CHOSEN_ON, help="first realisation reported")
    args = parser.parse_args()
    if args.pool:
        for name in args.sets:
            from_the_pool(name, args.pool)
        return
    if not args.report:
        if not args.output.exists():
            args.output.write_text(",".join(FIELDS) + "\n")
        done = {(r["set"], int(r["realisation"]), r["method"]) for r in lines(args.output)}
        start, stop = map(int, args.realisations.split(":"))
        span = range(start, stop)
        tasks = [
            (s, k, todo)
            for s in args.sets
            for k in (few(span) if s in ("image", "splice") else span)
            if (todo := [m for m in args.methods if (s, k, m) not in done])
        ]
        Parallel(args.jobs, batch_size=1, pre_dispatch="all")(
            delayed(work)(*task, args.output) for task in tasks
        )
    report(args.output, args.first)


if __name__ == "__main__":
    main()
