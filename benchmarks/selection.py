"""Which columns matter: the spam data by every scheme, and wide simulated data against l1.

Everything runs in this one process with one BLAS thread, because what is compared is single
fits of a second to a minute and the numbers that count are discoveries.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.special import expit
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, l1_min_c
from threadpoolctl import threadpool_limits

import machine
from bayesvm import BayesianLinearSVC
from bayesvm.inference import VB, Gibbs
from bayesvm.predictive.diagnostics import ess, indicator_r_hat
from bayesvm.priors import LaplaceZero, Lasso, Ridge, SpikeSlab

TRUE = 10  # columns that matter
GROUP = 10  # columns correlated with each other
PENALTIES = 10  # values of C that are tried by the peers
FOLDS = 5
THRESHOLD = 0.5  # of inclusion


class Wide(NamedTuple):
    """Rows, labels in {-1, 1}, and which columns the labels depend on."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def wide(
    seed: int, rows: int = 200, columns: int = 5_000, correlation: float = 0.8, size: float = 3.0
) -> Wide:
    """Groups of ten columns, neighbours correlated; ten columns, one a group, decide.

    Coefficients are of either sign and uniform within 30 % of ``size``; labels are logistic.
    """
    rng = np.random.default_rng((seed, rows, columns))
    noise = rng.standard_normal((rows, columns // GROUP, GROUP))
    noise[..., 1:] *= np.sqrt(1.0 - correlation**2)
    X = lfilter([1.0], [1.0, -correlation], noise, axis=2).reshape(rows, columns)
    chosen = rng.choice(columns // GROUP, TRUE, replace=False) * GROUP
    chosen = chosen + rng.integers(0, GROUP, TRUE)
    beta = np.zeros(columns)
    beta[chosen] = size * rng.choice([-1.0, 1.0], TRUE) * rng.uniform(0.7, 1.3, TRUE)
    y = np.where(rng.random(rows) < expit(X @ beta), 1, -1)
    return Wide(X, y, beta != 0)


# ---------------------------------------------------------------------------------------------
# Selectors: (X, y, seed) -> how strongly each column is chosen, and what else is worth noting.
# A column is chosen if its score is above the selector's threshold.

Scores = tuple[np.ndarray, dict[str, float]]


class Selector(NamedTuple):
    """A way to choose columns."""

    score: Callable[[Any, Any, int], Scores]
    threshold: float = 0.0
    ours: bool = False
    sets: int = 1_000_000  # the first so many only, where more would tell no more


def spike_slab(
    likelihood: str, nu: float | None, burn_in: int, draws: int
) -> Callable[[Any, Any, int], Scores]:
    """Spike and slab by Gibbs, two chains; columns by their inclusion probability."""

    def score(X: Any, y: Any, seed: int) -> Scores:
        prior = SpikeSlab(expected_size=TRUE, nu=nu)
        scheme = Gibbs(draws=draws, burn_in=burn_in, chains=2)
        model = BayesianLinearSVC(prior, scheme, likelihood, random_state=seed).fit(X, y)
        return model.inclusion_proba_, {"r_hat": model.machines_[0].change}

    return score


def lasso_em(X: Any, y: Any, seed: int) -> Scores:
    """The mode under a Laplace prior, its scale learned: columns by the size of a coefficient."""
    model = BayesianLinearSVC("lasso", "em", random_state=seed).fit(X, y)
    return np.abs(model.coef_[0]) * X.std(axis=0), {"gap": model.duality_gap_}


def penalties(X: Any, y: Any, loss: str) -> np.ndarray:
    """From just above the C at which the first column enters to a hundred times it."""
    return l1_min_c(X, y, loss=loss) * np.geomspace(1.2, 100.0, PENALTIES)


def linear_svc(X: Any, y: Any, seed: int) -> Scores:
    """scikit-learn's l1 support vector machine, C by cross-validation."""
    Z = StandardScaler().fit_transform(X)
    grid = {"C": penalties(Z, y, "squared_hinge")}
    machine = LinearSVC(penalty="l1", dual=False, random_state=seed)
    search = GridSearchCV(machine, grid, cv=FOLDS).fit(Z, y)
    return np.abs(search.best_estimator_.coef_[0]), {"C": search.best_params_["C"]}


def logistic_cv(X: Any, y: Any, seed: int) -> Scores:
    """scikit-learn's l1 logistic regression, C by cross-validation, at its default limit of passes.

    With saga a coefficient that has not settled is not zero either, so that those below 1e-3 of
    the largest are taken as zero.
    """
    Z = StandardScaler().fit_transform(X)
    model = LogisticRegressionCV(
        Cs=penalties(Z, y, "log"), cv=FOLDS, l1_ratios=(1.0,), solver="saga", random_state=seed,
        scoring="accuracy", use_legacy_attributes=False,
    ).fit(Z, y)  # fmt: skip
    size = np.abs(model.coef_[0])
    return np.where(size > 1e-3 * size.max(), size, 0.0), {"C": float(np.max(model.C_))}


SELECTORS = {
    "spike_slab hinge": Selector(spike_slab("hinge", 0.25, 25, 50), THRESHOLD, True),
    "spike_slab hinge, long": Selector(spike_slab("hinge", 0.25, 50, 150), THRESHOLD, True),
    "spike_slab logistic": Selector(spike_slab("logistic", None, 25, 50), THRESHOLD, True),
    "spike_slab logistic, long": Selector(spike_slab("logistic", None, 50, 150), THRESHOLD, True),
    "spike_slab hinge, nu learned": Selector(spike_slab("hinge", None, 25, 50), THRESHOLD, True, 2),
    "lasso em": Selector(lasso_em, ours=True, sets=2),
    "linear_svc l1 cv": Selector(linear_svc),
    "logistic l1 cv": Selector(logistic_cv),
}


def true_at(score: np.ndarray, truth: np.ndarray, false: int) -> int:
    """True discoveries down a ranking, before one more than ``false`` false ones."""
    order = np.argsort(-score, kind="stable")
    hit = truth[order]
    within = (np.cumsum(~hit) <= false) & (score[order] > 0)
    return int(hit[within].sum())


def discoveries(seed: int, names: list[str], **options: Any) -> dict[str, dict[str, float]]:
    """Every selector on one data set, each also cut down its ranking to the others' false ones."""
    X, y, truth = wide(seed, **options)
    names = [name for name in names if seed < SELECTORS[name].sets]
    out, scores = {}, {}
    for name in names:
        select = SELECTORS[name]
        (score, more), measured = quiet(lambda: select.score(X, y, seed))  # noqa: B023
        chosen = score > select.threshold
        found = {"true": int((chosen & truth).sum()), "false": int((chosen & ~truth).sum())}
        out[name], scores[name] = {**measured, **more, **found}, score
    for name in names:
        for other in names:
            if SELECTORS[name].ours != SELECTORS[other].ours:
                false = int(out[other]["false"])
                out[name][f"true_at_false_of {other}"] = true_at(scores[name], truth, false)
    return out


def quiet(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Time and memory of a call with one BLAS thread, its warnings kept to itself."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return machine.measure(call)


# ---------------------------------------------------------------------------------------------
# Spam

SPAM = {
    "laplace_zero 0.01, vb": (LaplaceZero(inclusion=0.01, a=0.01, b=0.01), VB),
    "spike_slab 0.01, vb": (SpikeSlab(inclusion=0.01), VB),
    "lasso, em": (Lasso(), lambda: "em"),
    "laplace_zero 0.01, gibbs": (LaplaceZero(inclusion=0.01, a=0.01, b=0.01), Gibbs),
    "spike_slab 0.01, gibbs": (SpikeSlab(inclusion=0.01, nu=100.0), Gibbs),
    "spike_slab 0.5, gibbs": (SpikeSlab(inclusion=0.5, nu=100.0), Gibbs),
    "lasso, gibbs": (Lasso(), Gibbs),
    "ridge, gibbs": (Ridge(2.0, 1.0), Gibbs),
}


def spam(name: str, X: Any, y: Any, draws: int, seed: int) -> dict[str, float]:
    """One prior by one scheme; for chains, draws and effective draws a second."""
    prior, scheme = SPAM[name]
    chains = scheme is Gibbs
    inference = Gibbs(draws=draws, burn_in=draws // 5, chains=2) if chains else scheme()
    model = BayesianLinearSVC(prior, inference, probability="probit", random_state=seed)
    _, out = quiet(lambda: model.fit(X, y))
    out["nonzero"] = float(np.count_nonzero(model.coef_))
    if hasattr(prior, "gates"):
        out["selected"] = float((model.inclusion_proba_ > THRESHOLD).sum())
        out["nonzero"] = float(model.inclusion_proba_.sum())
    if not chains:
        return out
    theta = model.machines_[0].draws.theta[..., 1:]
    made = 2 * (draws + draws // 5)
    out["draws_per_second"] = made / out["cpu_seconds"]
    moving = theta[..., theta.std(axis=(0, 1)) > 0]
    effective = ess(moving)
    share = effective / (2 * draws)
    for of, value in (("min", share.min()), ("median", np.median(share))):
        out[f"effective_per_second_{of}"] = float(value) * out["draws_per_second"]
    out["r_hat"] = float(indicator_r_hat(theta != 0).max())
    return out
