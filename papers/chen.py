"""What the experiments of Chen, Tiňo & Yao (2009) share: methods, tuning, measurements.

Methods with the paper's names (PCVM, RVM, SVM soft, SVM hard, SVM PCVM) are as printed, with the
parameters of ``chen_tuning``.  Of the others the soft-margin machine, the width of the hard-margin
one and k of the nearest neighbours are tuned as in section III-B: on each of the first five
training parts of a set (quick: the first) by cross-validation, then the median.
Ours: five folds instead of ten, and the grids below, wider than the paper's and less dense.
Columns are standardised on the training part for every method.
"""

from __future__ import annotations

import time
import warnings
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesvm import __version__
from bayesvm.compare import bonferroni_dunn, friedman
from bayesvm.compare.evaluation import count_vectors
from bayesvm.datasets import load_raetsch

from . import chen_paper, chen_tuning
from .chen_algorithm import PCVM
from .running import Task

# our name -> the paper's, if it has the method
METHODS: dict[str, str | None] = {
    "PCVC": "PCVM",
    "PCVC power": "PCVM",
    "RVC": "RVM",
    "RVC logistic": "RVM",
    "SVC": "SVM soft",
    "SVC hard": "SVM hard",
    "SVC same kernel": "SVM PCVM",
    "BayesianSVC": None,
    "1NN": "1NN",
    "kNN": "kNN",
    "LDA": "LDA",
    "QDA": "QDA",
    **{name: name for name in chen_paper.FIVE},
    "PCVM fixed": "PCVM",  # theta held at the median of chen-tuning, not learned again
}
BASELINES = ("1NN", "kNN", "LDA", "QDA")
# the five of Table VI: ours, and as printed; the control first
OURS = ("PCVC", "SVC", "SVC hard", "SVC same kernel", "RVC")
PRINTED = chen_paper.FIVE
SEVERAL = 0.10  # level of Table VI
# those that keep vectors
SPARSE = (
    *("PCVC", "PCVC power", "RVC", "RVC logistic", "SVC", "SVC hard", "SVC same kernel"),
    *PRINTED,
    "PCVM fixed",
)
# on the first 20 divisions only: paired differences of the means over sets to the other machines
# have standard errors of .07 to .14 points there, and the first takes 16 s a fit
TWENTY = ("PCVC power", "RVC logistic")
MEASURED = ("error", "auc", "rmse", "log_loss", "vectors", "seconds")
COSTS = np.geomspace(0.3, 300.0, 7)
WIDTHS = np.geomspace(0.3, 20.0, 9)  # theta of eq. 13, for columns of unit sd
NEIGHBOURS = np.arange(1, 21)
# a hard margin; rows that cannot be separated end by the iterations, their width is not chosen
HARD = {"C": 1e6, "max_iter": 100_000}
# rows of the generated divisions are in lexicographic order: folds must be shuffled
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
# what is reported: name in the tables, name of the measurement, measurement -> per cent as printed
METRICS = {
    "Error": ("error", lambda x: 100 * x),
    "AUC": ("auc", lambda x: 100 * x),
    "1-RMSE": ("rmse", lambda x: 100 * (1 - x)),
}


def wrong_signed(model: Any, y: Any) -> np.ndarray:
    """Whether each vector's weight has the sign of the other class, for two classes."""
    model = getattr(model, "steps", [("model", model)])[-1][1]
    hit = np.asarray(y)[model.support_] == model.classes_[1]
    return np.where(hit, 1, -1) * np.ravel(model.dual_coef_) < 0


def settings(method: str, parts: int) -> str:
    """What the result of a method depends on, in words: a change of it makes old results void."""
    if method == "SVC":
        return (
            f"median of {parts}; C {COSTS[0]:g}-{COSTS[-1]:g}, width {WIDTHS[0]:g}-{WIDTHS[-1]:g}, "
            "folds shuffled"
        )
    if method == "SVC hard":
        return f"median of {parts}; C {HARD['C']:g}, width {WIDTHS[0]:g}-{WIDTHS[-1]:g}"
    if method == "kNN":
        return f"median of {parts}; k 1-{NEIGHBOURS[-1]}, folds shuffled"
    if method == "PCVC":
        return "kernel of most evidence, norm by rows left out, vectors left out one by one"
    if method in ("RVC logistic", "RVC em", "RVC early"):
        return "kernel of most evidence, logistic likelihood"
    if method in PRINTED:
        return "as printed, parameters of chen-tuning"
    if method == "PCVM fixed":
        return "theta fixed, parameters of chen-tuning"
    if method in SPARSE:
        return "kernel of most evidence"
    return "default"


def tasks_of(
    sets: tuple[str, ...], splits: int, methods: tuple[str, ...], seed: int, parts: int
) -> list[Task]:
    """One task per set, division and method; the first divisions of every set come first."""
    return [
        {
            "version": __version__,
            "seed": seed,
            "set": name,
            "split": split,
            "method": method,
            "settings": settings(method, parts),
        }
        for split in range(1, splits + 1)
        for name in sets
        for method in methods
        if split <= most_splits(name, method)
    ]


def most_splits(name: str, method: str) -> int:
    """How many divisions of a set a method is run on; of image and splice there are 20."""
    return 20 if name in ("image", "splice") or method in TWENTY else 100


def parts_of(task: Task) -> int:
    """How many training parts a tuned method is tuned on."""
    words = str(task["settings"]).split(";")[0].split()
    return int(words[-1]) if words[0] == "median" else 0


def part(name: str, realisation: int) -> tuple[Any, Any]:
    """A training part of a set."""
    bunch = load_raetsch(name, realisation)
    return bunch.data, bunch.target


@cache
def tuned(method: str, name: str, parts: int) -> dict[str, Any]:
    """Parameters of a method on a set: the median of the best on each of the first parts."""
    if method == "PCVM fixed":
        return tuned("PCVM", name, parts) | {"pcvm__learn_theta": False}
    if method in PRINTED:
        given = chen_tuning.parameters(method, name)
        if method == "RVM":
            return {"rvc__kernel": gaussian(given["theta"])}
        return {("pcvm__" if method == "PCVM" else "svc__") + key: v for key, v in given.items()}
    found = [best(method, *part(name, k + 1)) for k in range(parts)]
    return {
        key: float(np.median([one[key] for one in found])) for key in (found[0] if found else ())
    }


def best(method: str, X: Any, y: Any) -> dict[str, float]:
    """The best parameters by cross-validation; none for methods that are not tuned."""
    grids = {
        "SVC": {"svc__C": COSTS, "svc__gamma": WIDTHS**-2.0},
        "SVC hard": {"svc__gamma": WIDTHS**-2.0},
        "kNN": {"kneighborsclassifier__n_neighbors": NEIGHBOURS},
    }
    if method not in grids:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a hard margin that is not reached
        search = GridSearchCV(build(method, {}, 0), grids[method], cv=FOLDS).fit(X, y)
    return {name: float(value) for name, value in search.best_params_.items()}


def build(method: str, parameters: dict[str, Any], seed: int) -> Any:
    """An estimator, not yet fitted."""
    made: Any
    if method in ("PCVC", "PCVC power"):
        made = ours("PCVC")(
            random_state=seed, **({"weight_prior": "power"} if "power" in method else {})
        )
    elif method in ("RVC", "BayesianSVC"):
        made = ours(method)(random_state=seed)
    elif method == "RVC logistic":
        made = ours("RVC")(likelihood="logistic", random_state=seed)
    elif method in ("RVC em", "RVC early"):  # Tipping's algorithm, to its end or five rounds
        rounds = None if method == "RVC em" else 5
        made = ours("RVC")(likelihood="logistic", solver="em", max_iter=rounds, random_state=seed)
    elif method in ("PCVM", "PCVM fixed"):
        made = PCVM(random_state=seed)
    elif method == "RVM":  # Tipping's likelihood; the width is given
        made = ours("RVC")(
            likelihood="logistic",
            tune=False,
            standardize=False,
            probability="normalised",
            random_state=seed,
        )
    elif method in ("SVC", "SVM soft", "SVM PCVM"):
        made = SVC()
    elif method in ("SVC hard", "SVM hard"):
        made = SVC(**HARD)
    elif method == "SVC same kernel":
        made = SameKernelSVC(seed)
    elif method in ("1NN", "kNN"):
        made = KNeighborsClassifier(1)
    elif method == "LDA":
        made = LinearDiscriminantAnalysis()
    elif method == "QDA":
        # columns of flare_solar are constant within a class
        made = QuadraticDiscriminantAnalysis(reg_param=1e-3)
    else:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    whole = {key: round(v) if key.endswith("n_neighbors") else v for key, v in parameters.items()}
    return make_pipeline(StandardScaler(), made).set_params(**whole)


class SameKernelSVC(ClassifierMixin, BaseEstimator):
    """The support vector machine with the kernel that PCVC has learned; C by cross-validation.

    Probabilities are Platt's, at that kernel and C.
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SameKernelSVC:
        """Learn the kernel, then C, then the machine."""
        # the kernel is learned before rate and norm, which are given to save their search
        teacher = ours("PCVC")(rate=1.0, norm_penalty=1.0, random_state=self.random_state)
        kernel = teacher.fit(X, y).kernel_
        search = GridSearchCV(SVC(kernel=kernel), {"C": COSTS}, cv=FOLDS).fit(X, y)
        self.machine_ = search.best_estimator_
        self.link_ = CalibratedClassifierCV(clone(self.machine_), ensemble=False, cv=FOLDS)
        self.link_.fit(X, y)
        self.classes_, self.n_support_ = self.machine_.classes_, self.machine_.n_support_
        return self

    def predict_proba(self, X: Any) -> Any:
        """Platt's probabilities."""
        return self.link_.predict_proba(X)

    def predict(self, X: Any) -> Any:
        """Labels, by the sign of the margin."""
        return self.machine_.predict(X)


def assess(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, float]:
    """Fit, time and score.

    A machine without probabilities is scored by its own labels and margins; its probabilities are
    Platt's, from a second fit that is not timed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that is hard shows in its scores
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        teller = model
        if not hasattr(model, "predict_proba"):
            teller = CalibratedClassifierCV(clone(model), ensemble=False, cv=FOLDS).fit(X, y)
        p = teller.predict_proba(X_test)[:, 1]
        # Phi of a large f is one: rows are ordered by f itself
        own = teller is model and not isinstance(getattr(model, "_final_estimator", model), PCVM)
        order = p if own else model.decision_function(X_test)
        hit = y_test == model.classes_[1]
        found = {
            "error": float(np.mean(model.predict(X_test) != y_test)),
            "auc": float(roc_auc_score(hit, order)),
            "rmse": float(np.sqrt(np.mean((p - hit) ** 2))),
            "log_loss": float(log_loss(hit, np.clip(p, 1e-6, 1 - 1e-6), labels=[False, True])),
            "vectors": count_vectors(model),
            "seconds": seconds,
        }
    return {name: round(value, 6) for name, value in found.items()}


def solve(task: Task) -> dict[str, float]:
    """One method on one division of the benchmark."""
    bunch = load_raetsch(task["set"], task["split"])
    parameters = tuned(task["method"], task["set"], parts_of(task))
    model = build(task["method"], parameters, task["seed"])
    return assess(model, bunch.data, bunch.target, bunch.data_test, bunch.target_test)


def ranks(scores: Any, five: tuple[str, ...], metric: str) -> list[str]:
    """Tables V and VI in words: a machine for each of the paper's, the control first.

    ``scores`` has a row per set and a column per method.
    """
    lower = METRICS[metric][0] != "auc"
    five = tuple(m for m in five if m in scores)
    names = [*five, *(m for m in BASELINES if m in scores)]
    among = friedman(scores[names], lower_is_better=lower)
    printed = chen_paper.TABLE5[metric]
    cells = [f"{m} {rank:.1f} ({printed[str(METHODS[m])]})" for m, rank in zip(names, among.ranks)]
    told = [f"Table V, {metric}, mean ranks (printed): {', '.join(cells)}."]
    if len(five) > 2:
        test = friedman(scores[list(five)], lower_is_better=lower)
        dunn = bonferroni_dunn(scores[list(five)], five[0], SEVERAL, lower_is_better=lower)
        gaps = [
            f"{m} {gap:.2f} ({chen_paper.TABLE6[metric][str(METHODS[m])]}){' *' if star else ''}"
            for m, gap, star in zip(dunn.names, dunn.differences, dunn.significant)
        ]
        told.append(
            f"Table VI, {metric}, rank less that of {five[0]} (printed): {', '.join(gaps)}; "
            f"* beyond {dunn.critical_difference:.3f} (Bonferroni-Dunn, {SEVERAL}). Friedman, "
            f"Iman-Davenport: F = {test.statistic:.2f}, p = {test.pvalue:.2g}."
        )
    return told


def gaussian(theta: float) -> Any:
    """The kernel of eq. 13."""
    return ours("kernels").RBF(theta / np.sqrt(2.0))


def ours(name: str) -> Any:
    """An estimator of this package, by its public name."""
    return getattr(import_module("bayesvm"), name)
