"""Factor models on gene expression, against what is usual there.

Ten folds of each set, everything tuned inside the fold.  Everything runs in this one process with
one BLAS thread; times are those of the processor.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from bayesvm import BayesianLinearSVC, FactorSVC
from bayesvm.inference import Gibbs
from bayesvm.priors import LaplaceZero

SETS = ("metabric", "gravier", "subramanian")
FACTORS = 10
TOP = 20  # genes that a method would show
LINEAR = {"classifier": "linear", "coef_prior": "lasso"}
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


class PLS(TransformerMixin, BaseEstimator):
    """Scores of partial least squares, as a step of a pipeline."""

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any) -> PLS:
        self.pls_ = PLSRegression(self.n_components).fit(X, y)
        return self

    def transform(self, X: Any) -> Any:
        return self.pls_.transform(X)


def pca_svc(X: Any, y: Any) -> tuple[Any, None]:
    grid = {
        "pca__n_components": [5, 10, 20],
        "svc__C": [0.1, 1.0, 10.0, 100.0],
        "svc__gamma": [0.001, 0.01, 0.1],
    }
    pipe = make_pipeline(StandardScaler(), PCA(whiten=True, random_state=0), SVC())
    best = GridSearchCV(pipe, grid, cv=FOLDS).fit(X, y).best_estimator_
    return CalibratedClassifierCV(best, cv=FOLDS, ensemble=False).fit(X, y), None


def pls_da(X: Any, y: Any) -> tuple[Any, Any]:
    pipe = make_pipeline(StandardScaler(), PLS(), LogisticRegression())
    found = GridSearchCV(pipe, {"pls__n_components": [1, 2, 3, 5]}, cv=FOLDS).fit(X, y)
    return found, np.abs(found.best_estimator_[1].pls_.coef_).ravel()


def l1(X: Any, y: Any) -> tuple[Any, Any]:
    scaled = StandardScaler().fit(X)
    model = LogisticRegressionCV(
        Cs=np.logspace(-2, 2, 9), penalty="l1", solver="liblinear", cv=FOLDS, scoring="neg_log_loss"
    ).fit(scaled.transform(X), y)
    return make_pipeline(scaled, model), np.abs(model.coef_).ravel()


def laplace_zero(X: Any, y: Any) -> tuple[Any, Any]:
    # as many genes expected as would be shown
    prior, chains = LaplaceZero(expected_size=TOP), Gibbs(draws=500, burn_in=250, chains=2)
    model = BayesianLinearSVC(prior, chains, random_state=0).fit(X, y)
    return model, model.inclusion_proba_


def factors(**options: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    def fit(X: Any, y: Any) -> tuple[Any, Any]:
        model = FactorSVC(FACTORS, random_state=0, **options).fit(X, y)
        A = model.loadings_ / model.scale_[:, None]
        return model, np.sqrt(A**2 @ model.factor_relevance_)

    return fit


METHODS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "factors, kernel, columns chosen": factors(),
    "factors, linear, columns chosen": factors(**LINEAR),
    "factors, kernel": factors(columns="all"),
    "factors, linear": factors(columns="all", **LINEAR),
    "two steps, kernel": factors(columns="all", joint=False),
    "two steps, linear": factors(columns="all", joint=False, **LINEAR),
    "pca + svc, tuned": pca_svc,
    "pls-da": pls_da,
    "logistic l1, cv": l1,
    "laplace_zero": laplace_zero,
}


class Fold(NamedTuple):
    """What one method did in one fold; genes are those it would show."""

    values: dict[str, float]
    genes: frozenset[int] | None


def judge(method: str, X: Any, y: Any, train: Any, test: Any) -> Fold:
    keep = X[train].std(axis=0) > 0
    start = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, score = METHODS[method](X[train][:, keep], y[train])
    seconds = time.process_time() - start
    p = model.predict_proba(X[test][:, keep])[:, 1]
    hit = y[test] == model.classes_[1]
    values = {
        "error": float(np.mean((p > 0.5) != hit)),
        "log_loss": float(log_loss(hit, p, labels=[False, True])),
        "cpu_seconds": seconds,
    }
    if score is None:
        return Fold(values, None)
    top = np.argsort(-score, kind="stable")[:TOP]
    return Fold(values, frozenset(np.flatnonzero(keep)[top[score[top] > 0]].tolist()))


def stability(genes: list[frozenset[int] | None]) -> float:
    """Share of shown genes that two folds have in common, averaged over pairs of folds."""
    held = [g for g in genes if g]
    pairs = [len(a & b) / len(a | b) for a, b in combinations(held, 2)]
    return float(np.mean(pairs)) if pairs else float("nan")
