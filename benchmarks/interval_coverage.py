"""Coverage of 90 % intervals on simulated sets: one row a cell, method and batch of sets.

    python benchmarks/interval_coverage.py --jobs 16 --seconds 280
    python benchmarks/interval_coverage.py --first 0 --sets 100 --parts kernel  # development seeds

The tables of docs/intervals.md are drawn from the file by coverage_tables.py.

Linear: x ~ N(0, R) with R_jk = .3^|j - k|, an index e = offset + x'b of standard deviation 2 with a
random direction b of each set, and P(y = 1 | x) a function of e (and, where the truth is
*quadratic*, of the square of another direction).  Coefficients are compared with the minimiser of
the expected loss, which is proportional to b for Gaussian x, so that two numbers are found by
quadrature.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit, ndtr, ndtri, softmax
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import pool
from bayesvm import BayesianLinearSVC, BayesianSVC, MixedSVC

FIELDS = [
    *("part", "truth", "share", "n", "p", "method", "first", "sets"),
    *("coef", "proba", "other", "coef_width", "proba_width", "cpu_s"),
]
LEVEL = 0.9
Z = float(ndtri(0.5 + LEVEL / 2))
SD = 2.0  # of the index
NEW = 200  # rows at which probabilities are compared
BATCH = 50
REPORTED, SETS = 1000, 1000  # first seed and number of sets of the page
COVARIANCES = {"data": "robust", "model": "model"}  # by the names in recorded results
OLD = {"likelihood": "hinge", "prior": "ridge", "covariance": "model"}  # as in releases before
Array = np.ndarray
Scores = dict[str, float]


# ---------------------------------------------------------------------------------------------
# Linear truths

CURVES: dict[str, Callable[[Array], Array]] = {
    "logistic": expit,
    "probit": lambda e: ndtr(e / 1.7),
    # the hinge's pseudo-likelihood, normalised over the labels
    "hinge": lambda e: expit(2 * (np.maximum(0, 1 + e / 3) - np.maximum(0, 1 - e / 3))),
    "flipped": lambda e: 0.05 + 0.9 * expit(1.5 * e),  # 5 % of the labels exchanged
    # a quadratic term of another direction is left out: here averaged over it
    "quadratic": lambda e: expit(np.add.outer(e, QUADRATIC * (TURNS**2 - 1))) @ MASS,
}
QUADRATIC = 0.5
TURNS, MASS = np.polynomial.hermite_e.hermegauss(41)
MASS = MASS / MASS.sum()
NODES = np.linspace(-7, 7, 4001)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


@lru_cache(None)
def offset(truth: str, share: float) -> float:
    """The level of the index at which a share of labels is positive."""
    if share == 0.5:
        return 0.0
    return float(brentq(lambda b: WEIGHTS @ CURVES[truth](b + SD * NODES) - share, -15, 5))


def hinge(u: Array) -> Array:
    return 2 * np.maximum(0, 1 - u)


def log_loss(u: Array) -> Array:
    return np.logaddexp(0, -u)


@lru_cache(None)
def slope(truth: str, share: float, loss: Callable[[Array], Array]) -> float:
    """Coefficients of least expected loss, as a multiple of b."""
    e = SD * NODES
    P = CURVES[truth](offset(truth, share) + e)

    def risk(x: Array) -> float:
        f = x[0] + x[1] * e
        return float(WEIGHTS @ (P * loss(f) + (1 - P) * loss(-f)))

    how = {"xatol": 1e-7, "fatol": 1e-12, "maxiter": 5000}
    return float(minimize(risk, [0.0, 0.5], method="Nelder-Mead", options=how).x[1])


def linear_set(
    truth: str, share: float, n: int, p: int, seed: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Rows, labels, new rows, their probabilities, and the direction b."""
    rng = np.random.default_rng([seed, n, p])
    R = 0.3 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    b = rng.standard_normal(p)
    b *= SD / np.sqrt(b @ R @ b)
    X = rng.standard_normal((n + NEW, p)) @ np.linalg.cholesky(R).T
    e = offset(truth, share) + X @ b
    if truth == "quadratic":
        u = np.random.default_rng([seed, n, p, 1]).standard_normal(p)
        u -= (u @ R @ b) / (b @ R @ b) * b
        P = expit(e + QUADRATIC * ((X @ u) ** 2 / (u @ R @ u) - 1))
    else:
        P = CURVES[truth](e)
    y = (rng.random(n + NEW) < P).astype(int)
    if np.ptp(y[:n]) == 0:
        y[0] = 1 - y[0]
    return X[:n], y[:n], X[n:], P[n:], b


def inside(low: Array, value: Array, high: Array) -> float:
    return float(np.mean((low <= value) & (value <= high)))


def wald(X: Array, y: Array, new: Array) -> tuple[Array, Array, Array, Array]:
    """Maximum likelihood: coefficients and their sds, log odds at new rows and theirs."""
    C, theta = np.column_stack([np.ones(len(X)), X]), np.zeros(X.shape[1] + 1)
    for _ in range(50):
        p = expit(np.clip(C @ theta, -30, 30))
        info = (C.T * (p * (1 - p) + 1e-10)) @ C + 1e-8 * np.eye(theta.size)
        step = np.linalg.solve(info, C.T @ (y - p))
        theta = theta + step * min(1.0, 5.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-8:
            break
    V, N = np.linalg.inv(info), np.column_stack([np.ones(len(new)), new])
    sd = np.sqrt(np.einsum("ij,jk,ik->i", N, V, N))
    return theta[1:], np.sqrt(np.diag(V)[1:]), N @ theta, sd


def linear(truth: str, share: float, n: int, p: int, method: str, seed: int) -> Scores:
    X, y, new, P, b = linear_set(truth, share, n, p, seed)
    begun = time.process_time()
    if method == "wald":
        beta, sd, z, sz = wald(X, y, new)
        low, high = beta - Z * sd, beta + Z * sd
        lower, upper = expit(z - Z * sz), expit(z + Z * sz)
    else:
        model = BayesianLinearSVC(**LINEAR[method]).fit(X, y)
        low, high = (end[0] for end in model.coef_interval(LEVEL))
        lower, upper = (end[:, 1] for end in model.predict_interval(new, LEVEL))
    spent = time.process_time() - begun
    target = b * slope(truth, share, hinge if method.startswith("old") else log_loss)
    return {
        "coef": inside(low, target, high),
        "proba": inside(lower, P, upper),
        "coef_width": float(np.mean(high - low)),
        "proba_width": float(np.mean(upper - lower)),
        "cpu_s": spent,
    }


LINEAR = {
    "data": {},
    "model": {"covariance": "model"},
    "old": OLD,
    "old+data": OLD | {"covariance": "robust"},
}

# ---------------------------------------------------------------------------------------------
# Functions of one and two columns

FUNCTIONS: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "slope": (1, lambda X: 1.5 * X[:, 0]),
    "wave": (1, lambda X: 2.5 * np.sin(1.5 * X[:, 0])),
    "step": (1, lambda X: logit(np.where(np.sin(1.5 * X[:, 0]) > 0, 0.85, 0.15))),
    "ring": (2, lambda X: 4.5 * (np.hypot(X[:, 0], X[:, 1]) - 1.2)),
    "waves": (2, lambda X: 2.5 * np.sin(1.5 * X[:, 0]) * np.cos(1.2 * X[:, 1])),
}


def laplace(X: Array, y: Array, new: Array) -> tuple[Array, Array]:
    """Mean and sd of the latent function of scikit-learn's process, by Laplace's method."""
    prior = ConstantKernel(4.0) * RBF(np.ones(X.shape[1]))
    one = GaussianProcessClassifier(prior, random_state=0).fit(X, y).base_estimator_
    cross = one.kernel_(one.X_train_, new)
    T = solve_triangular(one.L_, one.W_sr_[:, None] * cross, lower=True)
    v = one.kernel_.diag(new) - np.einsum("ij,ij->j", T, T)
    return cross.T @ (one.y_train_ - one.pi_), np.sqrt(np.maximum(v, 0))


def kernel(truth: str, share: float, n: int, p: int, method: str, seed: int) -> Scores:
    rng = np.random.default_rng([seed, n, p])
    X = rng.uniform(-2.5, 2.5, (n + NEW, p))
    P = expit(FUNCTIONS[truth][1](X))
    y, new = (rng.random(n + NEW) < P).astype(int)[:n], X[n:]
    begun = time.process_time()
    if method == "gpc":
        m, sd = laplace(X[:n], y, new)
        lower, upper = expit(m - Z * sd), expit(m + Z * sd)
    else:
        model = BayesianSVC(covariance=COVARIANCES[method]).fit(X[:n], y)
        lower, upper = (end[:, 1] for end in model.predict_interval(new, LEVEL))
    spent = time.process_time() - begun
    width = float(np.mean(upper - lower))
    return {"proba": inside(lower, P[n:], upper), "proba_width": width, "cpu_s": spent}


# ---------------------------------------------------------------------------------------------
# Three classes


def sectors(X: Array) -> Array:
    """Probability .8 of one class in each third of the directions, .1 of the others."""
    k = np.floor((np.arctan2(X[:, 1], X[:, 0]) / (2 * np.pi) + 0.5) * 3).astype(int) % 3
    return np.log(np.where(np.arange(3) == k[:, None], 0.8, 0.1))


THREE: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "slopes": (1, lambda X: np.outer(X[:, 0], [1.5, 0.0, -1.0])),
    "turns": (1, lambda X: 2.0 * np.sin(np.outer(X[:, 0], [1.5, 0, 1.5]) + [0, 0, np.pi / 2])),
    "plane": (2, lambda X: np.stack([2 * np.sin(1.5 * X[:, 0]), 1.5 * X[:, 1], 0 * X[:, 0]], 1)),
    "sectors": (2, sectors),
}


def classes(truth: str, share: float, n: int, p: int, method: str, seed: int) -> Scores:
    rng = np.random.default_rng([seed, n, p])
    X = rng.uniform(-2.5, 2.5, (n + NEW, p))
    P = softmax(THREE[truth][1](X), axis=1)
    y = (rng.random((n + NEW, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    begun = time.process_time()
    model = (
        BayesianLinearSVC() if method == "linear" else BayesianSVC(covariance=COVARIANCES[method])
    )
    lower, upper = model.fit(X[:n], y[:n]).predict_interval(X[n:], LEVEL)
    spent = time.process_time() - begun
    width = float(np.mean(upper - lower))
    return {"proba": inside(lower, P[n:], upper), "proba_width": width, "cpu_s": spent}


# ---------------------------------------------------------------------------------------------
# Groups


def mixed(truth: str, share: float, n: int, p: int, method: str, seed: int) -> Scores:
    """Groups of ten rows, with an intercept of each of standard deviation one."""
    rng = np.random.default_rng([seed, n, p])
    G = n // 10
    groups, fresh = np.repeat(np.arange(G), 10), np.arange(G, G + 50)
    b, u = rng.standard_normal(p), rng.standard_normal(G + 50)
    b *= 1.5 / np.sqrt(b @ b)
    X, known, other = (rng.standard_normal((k, p)) for k in (n, G, 50))
    level = 0.0 if share == 0.5 else -2.8
    y = (rng.random(n) < expit(level + X @ b + u[groups])).astype(int)
    begun = time.process_time()
    model = MixedSVC(covariance=COVARIANCES[method]).fit(X, y, groups=groups)
    low, high = (end[0] for end in model.coef_interval(LEVEL))
    ends = [end[:, 1] for end in model.predict_interval(known, groups=np.arange(G), level=LEVEL)]
    beyond = [end[:, 1] for end in model.predict_interval(other, groups=fresh, level=LEVEL)]
    spent = time.process_time() - begun
    return {
        "coef": inside(low, b, high),
        "proba": inside(ends[0], expit(level + known @ b + u[:G]), ends[1]),
        "other": inside(beyond[0], expit(level + other @ b + u[G:]), beyond[1]),
        "coef_width": float(np.mean(high - low)),
        "proba_width": float(np.mean(ends[1] - ends[0])),
        "cpu_s": spent,
    }


def clusters(truth: str, share: float, n: int, p: int, method: str, seed: int) -> Scores:
    """One coefficient in groups of ten rows, with an intercept of each of standard deviation one.

    ``within``: one, of a column of which rows differ.  ``between``: one, of a column that rows of a
    group have in common.  ``slopes``: none on average, of a time whose slopes in groups differ by a
    standard deviation of one, which the model leaves out.
    """
    rng, G = np.random.default_rng([seed, n, p, 10]), n // 10
    groups, X = np.repeat(np.arange(G), 10), rng.standard_normal((n, p))
    X[:, 1] = rng.standard_normal(G)[groups]
    f = X[:, 0] + X[:, 1] + rng.standard_normal(G)[groups]
    if truth == "slopes":
        X[:, 2] = np.tile(np.linspace(-1.5, 1.5, 10), G)
        f = f + rng.standard_normal(G)[groups] * X[:, 2]
    y = (rng.random(n) < expit(f)).astype(int)
    begun = time.process_time()
    ends = MixedSVC(covariance=COVARIANCES[method]).fit(X, y, groups=groups).coef_interval(LEVEL)
    spent, at = time.process_time() - begun, ["within", "between", "slopes"].index(truth)
    low, high = (float(end[0, at]) for end in ends)
    held = low <= (0.0 if truth == "slopes" else 1.0) <= high
    return {"coef": float(held), "coef_width": high - low, "cpu_s": spent}


# ---------------------------------------------------------------------------------------------
# Cells

PARTS = {
    **{"linear": linear, "kernel": kernel, "classes": classes},
    **{"mixed": mixed, "clusters": clusters},
}
FEWER = {"gpc": 250, "model": 250}  # sets that are enough of a method


def cells(part: str) -> list[tuple[str, float, int, int, str]]:
    """Truth, share of positives, rows, columns and method."""
    if part == "linear":
        sizes = [(n, p) for n in (100, 200, 1000) for p in (5, 20)]
        each = [(t, share, n, p) for t in CURVES for share in (0.5, 0.1) for n, p in sizes]
        return [(*cell, method) for cell in each for method in ("data", "wald", "old", "model")]
    if part == "kernel":
        return [
            (truth, 0.5, n, p, method)
            for truth, (p, _) in FUNCTIONS.items()
            for n in (100, 200)
            for method in ("data", "model", "gpc")
        ]
    if part == "classes":
        return [
            (truth, 0.5, n, p, method)
            for truth, (p, _) in THREE.items()
            for n in (150, 300)
            for method in (("data", "model", "linear") if truth == "slopes" else ("data", "model"))
        ]
    if part == "clusters":
        each = [(t, 0.5, n, 3) for t in ("within", "between", "slopes") for n in (100, 300, 1000)]
        return [(*cell, method) for cell in each for method in ("data", "model")]
    return [
        ("logistic", s, n, 3, w) for s in (0.5, 0.1) for n in (300, 1000) for w in ("data", "model")
    ]


def work(
    part: str, truth: str, share: float, n: int, p: int, method: str, first: int, sets: int
) -> dict[str, object]:
    found = [PARTS[part](truth, share, n, p, method, seed) for seed in range(first, first + sets)]
    means = {k: f"{np.mean([one[k] for one in found]):.6f}" for k in found[0]}
    names = (part, truth, share, n, p, method, first, sets)
    return dict.fromkeys(FIELDS, "") | dict(zip(FIELDS, names, strict=False)) | means


def jobs(parts: list[str], first: int, sets: int) -> list[tuple[object, ...]]:
    out = []
    for part in parts:
        for cell in cells(part):
            most = min(sets, FEWER.get(cell[-1], sets))
            for start in range(first, first + most, BATCH):
                out.append((part, *cell, start, min(BATCH, first + most - start)))
    return out


def cost(
    part: str, truth: str, share: float, n: int, p: int, method: str, first: int, sets: int
) -> float:
    """Early batches of all cells before later ones: time running out then costs all alike."""
    return -float(first)


def main() -> None:
    parser = pool.arguments(__doc__ or "", "coverage.csv")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--first", type=int, default=REPORTED, help="first seed")
    parser.add_argument("--sets", type=int, default=SETS, help="sets a cell")
    given = parser.parse_args()
    every = jobs(given.parts, given.first, given.sets)
    print(pool.run(work, every, given.out, FIELDS, given.jobs, given.seconds, cost))


if __name__ == "__main__":
    main()
