"""Rows in groups: time, memory, scores and recovery of the effects as rows and groups grow.

    python benchmarks/grouped.py --out grouped.csv
    python benchmarks/grouped.py --only bayesvm gpboost --groups 500       # a trial

Ten standard normal columns, a random intercept of variance one, labels drawn from the logistic
model; new rows of the same groups are predicted.  Every fit in a fresh process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.metrics import brier_score_loss, log_loss

import machine
import pool

COLUMNS = 10
TEST_ROWS = 100_000
WARM = 500  # rows of a small fit that comes first: imports, thread pools


class Problem(NamedTuple):
    """So many rows in so many groups."""

    rows: int
    groups: int

    @property
    def name(self) -> str:
        return f"{self.rows:,} rows in {self.groups:,} groups"


# as many rows as groups times ten; then the number of groups alone
LADDER = [Problem(10 * G, G) for G in (500, 1_000, 10_000, 100_000)] + [
    Problem(1_000_000, G) for G in (1_000, 10_000)
]
MOST = {"statsmodels": 500}  # groups: a thousand take it minutes of CPU time
FIELDS = [
    *("library", "rows", "groups", "seconds", "cpu_seconds", "peak_mb", "load"),
    *("predict_seconds", "error", "log_loss", "brier", "effect_corr"),
]


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    g: np.ndarray


def make(problem: Problem, seed: int = 0) -> tuple[Rows, Rows, np.ndarray]:
    """Training rows, new rows of the same groups, and the groups' true effects, of variance one."""
    rng = np.random.default_rng(seed)
    beta = np.linspace(-1.0, 1.0, COLUMNS)
    u = rng.standard_normal(problem.groups)
    parts = []
    for n in (problem.rows, min(TEST_ROWS, problem.rows)):
        X, g = rng.standard_normal((n, COLUMNS)), rng.integers(0, problem.groups, n)
        y = (rng.random(n) < expit(X @ beta + u[g])).astype(int)
        parts.append(Rows(X, y, g))
    return parts[0], parts[1], u


class Fitted(NamedTuple):
    """What every library is asked: probabilities of new rows, and effects of groups 0, 1, ..."""

    proba: Callable[[Rows], np.ndarray]
    effects: Callable[[int], np.ndarray]


def fit_bayesvm(rows: Rows, **options: Any) -> Fitted:
    from bayesvm import MixedSVC

    model = MixedSVC(**options).fit(rows.X, rows.y, groups=rows.g)

    def effects(G: int) -> np.ndarray:
        out = np.zeros(G)
        out[model.levels_["group"]] = model.random_effects_["mean"].to_numpy()
        return out

    return Fitted(lambda new: model.predict_proba(new.X, groups=new.g)[:, 1], effects)


def fit_logit(rows: Rows) -> Fitted:
    return fit_bayesvm(rows, likelihood="logistic", probability="normalised")


def fit_gpboost(rows: Rows) -> Fitted:
    import gpboost

    model = gpboost.GPModel(group_data=rows.g, likelihood="bernoulli_logit")
    X = np.column_stack([np.ones(len(rows.y)), rows.X])
    model.fit(y=rows.y.astype(float), X=X)

    def proba(new: Rows) -> np.ndarray:
        at = np.column_stack([np.ones(len(new.y)), new.X])
        return model.predict(X_pred=at, group_data_pred=new.g, predict_response=True)["mu"]

    def effects(G: int) -> np.ndarray:
        zero = np.zeros((G, COLUMNS + 1))
        found = model.predict(X_pred=zero, group_data_pred=np.arange(G), predict_response=False)
        return found["mu"]

    return Fitted(proba, effects)


def fit_statsmodels(rows: Rows) -> Fitted:
    from scipy.sparse import csr_matrix
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    n, G = len(rows.y), int(rows.g.max()) + 1
    hot = csr_matrix((np.ones(n), (np.arange(n), rows.g)), shape=(n, G))
    X = np.column_stack([np.ones(n), rows.X])
    found = BinomialBayesMixedGLM(rows.y, X, hot, np.zeros(G, dtype=int)).fit_vb()

    def proba(new: Rows) -> np.ndarray:
        return expit(found.fe_mean[0] + new.X @ found.fe_mean[1:] + found.vc_mean[new.g])

    return Fitted(proba, lambda G: found.vc_mean[:G])


def fit_no_groups(rows: Rows) -> Fitted:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(rows.X, rows.y)
    return Fitted(lambda new: model.predict_proba(new.X)[:, 1], lambda G: np.full(G, np.nan))


LIBRARIES: dict[str, Callable[[Rows], Fitted]] = {
    "bayesvm": fit_bayesvm,
    "bayesvm, logistic": fit_logit,
    "gpboost": fit_gpboost,
    "statsmodels": fit_statsmodels,
    "logistic, no groups": fit_no_groups,
}


def work(library: str, n: int, G: int) -> pool.Row:
    """Time and memory of a fit, scores on new rows, and how well effects are recovered."""
    rows, new, u = make(Problem(n, G))
    fit = LIBRARIES[library]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(make(Problem(WARM, 20))[0])
        model, out = machine.measure(lambda: fit(rows))
        p, asked = machine.measure(lambda: model.proba(new))
    p = np.clip(p, 1e-15, 1 - 1e-15)
    out["predict_seconds"] = asked["seconds"]
    out["error"] = float(np.mean((p > 0.5) != new.y))
    out |= {"log_loss": log_loss(new.y, p), "brier": brier_score_loss(new.y, p)}
    out["effect_corr"] = float(np.corrcoef(model.effects(G), u)[0, 1])
    given = {"library": library, "rows": n, "groups": G}
    return given | {name: f"{value:.6g}" for name, value in out.items()}


def main() -> None:
    parser = pool.arguments(__doc__, "grouped.csv")
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--groups", nargs="+", type=int, help="problems of so many groups only")
    args = parser.parse_args()
    for problem in LADDER:
        if not args.groups or problem.groups in args.groups:
            able = [x for x in args.only if problem.groups <= MOST.get(x, problem.groups)]
            jobs = [(library, *problem) for library in able]
            for job in jobs:  # one at a time, each in a process of its own
                pool.run(work, [job], args.out, FIELDS, 1)


if __name__ == "__main__":
    main()
