"""Which columns of wide simulated data matter: spike and slab beside l1 penalties.

    python benchmarks/selection.py --out selection.csv
    python benchmarks/selection.py --sets 2 --only "spike_slab logistic" "linear_svc l1 cv"

200 rows, 5,000 columns in groups of ten with correlation 0.8 between neighbours, ten columns that
matter, logistic labels.  Everything runs in this one process with one BLAS thread.  Two selectors
with different numbers of false discoveries are hard to compare, so each is also followed down its
ranking until it has made as many false discoveries as ``linear_svc l1 cv`` did by its own rule.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.special import expit
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, l1_min_c
from threadpoolctl import threadpool_limits

import machine
from bayesvm import BayesianLinearSVC
from bayesvm.inference import Gibbs
from bayesvm.priors import SpikeSlab

TRUE = 10  # columns that matter
GROUP = 10  # columns correlated with each other
PENALTIES = 10  # values of C that are tried by the peers
FOLDS = 5
THRESHOLD = 0.5  # of inclusion
PEER = "linear_svc l1 cv"  # at whose number of false discoveries the others are compared


class Wide(NamedTuple):
    """Rows, labels in {-1, 1}, and which columns the labels depend on."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def wide(seed: int, rows: int = 200, columns: int = 5_000, correlation: float = 0.8) -> Wide:
    """Groups of ten columns, neighbours correlated; ten columns, one a group, decide.

    Coefficients are of either sign and uniform between 2.1 and 3.9; labels are logistic.
    """
    rng = np.random.default_rng((seed, rows, columns))
    noise = rng.standard_normal((rows, columns // GROUP, GROUP))
    noise[..., 1:] *= np.sqrt(1.0 - correlation**2)
    X = lfilter([1.0], [1.0, -correlation], noise, axis=2).reshape(rows, columns)
    chosen = rng.choice(columns // GROUP, TRUE, replace=False) * GROUP
    chosen = chosen + rng.integers(0, GROUP, TRUE)
    beta = np.zeros(columns)
    beta[chosen] = 3.0 * rng.choice([-1.0, 1.0], TRUE) * rng.uniform(0.7, 1.3, TRUE)
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
    sets: int = 1_000_000  # the first so many only, where more would tell no more


def spike_slab(
    likelihood: str, nu: float | None, burn_in: int, draws: int
) -> Callable[[Any, Any, int], Scores]:
    """Spike and slab by Gibbs, two chains; columns by their inclusion probability."""

    def score(X: Any, y: Any, seed: int) -> Scores:
        prior = SpikeSlab(expected_size=TRUE, nu=nu)
        scheme = Gibbs(draws=draws, burn_in=burn_in, chains=2)
        model = BayesianLinearSVC(prior, scheme, likelihood, random_state=seed).fit(X, y)
        return model.inclusion_proba_, {"r_hat": model.machines_[0].ascent.change}

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
    "spike_slab hinge": Selector(spike_slab("hinge", 0.25, 25, 50), THRESHOLD),
    "spike_slab hinge, long": Selector(spike_slab("hinge", 0.25, 50, 150), THRESHOLD),
    "spike_slab logistic": Selector(spike_slab("logistic", None, 25, 50), THRESHOLD),
    "spike_slab logistic, long": Selector(spike_slab("logistic", None, 50, 150), THRESHOLD),
    "spike_slab hinge, nu learned": Selector(spike_slab("hinge", None, 25, 50), THRESHOLD, 2),
    "lasso em": Selector(lasso_em, sets=2),
    PEER: Selector(linear_svc),
    "logistic l1 cv": Selector(logistic_cv),
}


def true_at(score: np.ndarray, truth: np.ndarray, false: int) -> int:
    """True discoveries down a ranking, before one more than ``false`` false ones."""
    order = np.argsort(-score, kind="stable")
    hit = truth[order]
    within = (np.cumsum(~hit) <= false) & (score[order] > 0)
    return int(hit[within].sum())


def discoveries(seed: int, names: list[str]) -> list[dict[str, Any]]:
    """Every selector on one data set."""
    X, y, truth = wide(seed)
    out, scores = [], {}
    for name in [name for name in names if seed < SELECTORS[name].sets]:
        select = SELECTORS[name]
        (score, more), measured = quiet(lambda: select.score(X, y, seed))  # noqa: B023
        chosen = score > select.threshold
        found = {"true": int((chosen & truth).sum()), "false": int((chosen & ~truth).sum())}
        scores[name] = score
        out.append({"set": seed, "selector": name, **found, **measured, **more})
    for row in out:
        peer = [other["false"] for other in out if other["selector"] == PEER]
        row["true_at_peer"] = true_at(scores[row["selector"]], truth, peer[0]) if peer else ""
    return out


def quiet(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Time and memory of a call with one BLAS thread, its warnings kept to itself."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return machine.measure(call)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=SELECTORS, default=list(SELECTORS))
    parser.add_argument("--out", type=Path, default=Path("selection.csv"))
    args = parser.parse_args()
    rows = []
    for seed in range(args.sets):
        rows += discoveries(seed, args.only)
        pd.DataFrame(rows).to_csv(args.out, index=False, float_format="%.6g")
    print(pd.DataFrame(rows).groupby("selector").mean(numeric_only=True).round(2).to_string())


if __name__ == "__main__":
    main()
