"""Algorithm 1 of Chen, Tiňo & Yao (2009) with the steps of its Appendix C, as printed.

Weights and bias alternate (eqs 11 and 12 through the matrix M and the number t), weights of the
wrong sign become zero for good, theta follows eq. 10 by conjugate gradients.  Corrected is what
contradicts itself in print: C1 to C3 of the errata.  Not printed, hence chosen: 500 iterations, a
threshold of 1e-3, ten steps of conjugate gradients an iteration, random weights of .2 to 1.2, a
bias of N(0, 1), first latent values of 0 to 10 on the labels' sides, as in the program that the
authors have made public since.  That program removes weights below 1e-3; the paper, and this file,
where 1/(2w^2) exceeds 1e12.
``bayesvm.sparse_kernel.pcvm`` has the exact M-step instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import erfcx, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

from bayesvm.sparse_kernel import rvm

LARGEST = 1e12  # nu of Appendix C: a weight with a larger precision is removed
BOUNDS = np.log(1e-3), np.log(1e3)  # of log theta, for columns of unit sd
RAISED = (
    1e-2  # first weights, at most, where those of another machine are zero or of the wrong sign
)


class PCVM(ClassifierMixin, BaseEstimator):
    """The machine of the paper; ``start`` is "random", "svm" or "rvm", ``theta`` its first width.

    ``path_`` has the number of vectors after every iteration.
    """

    def __init__(
        self,
        theta: float = 1.0,
        start: str = "random",
        learn_theta: bool = True,
        largest: float = LARGEST,
        max_iter: int = 500,
        tol: float = 1e-3,
        random_state: int = 0,
    ) -> None:
        self.theta = theta
        self.start = start
        self.learn_theta = learn_theta
        self.largest = largest
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PCVM:
        """Lines 3 to 16 of Algorithm 1."""
        self.classes_, t = np.unique(y, return_inverse=True)
        y = 2.0 * t - 1.0
        squares = euclidean_distances(X, squared=True)
        theta, rng = float(self.theta), np.random.default_rng(self.random_state)
        w = first_weights(self.start, np.exp(-squares / theta**2), y, rng)
        b, used, path = rng.standard_normal(), np.arange(y.size), []
        for n_iter in range(1, self.max_iter + 1):
            K = np.exp(-squares[:, used] / theta**2)
            z = K @ w[used] + b
            if n_iter == 1 and self.start == "random":  # unrelated to such weights
                z = rng.uniform(0.0, 10.0, y.size) * y
            h = latent(z, y)
            new = np.zeros_like(w)
            new[used] = weights(K, h, w[used], b)
            new[(y * new <= 0) | (2 * new**2 * self.largest <= 1)] = 0.0
            b = bias(h - K @ new[used], b)
            used = np.flatnonzero(new)
            if self.learn_theta and used.size:
                theta = width(squares[:, used], h - b, new[used], theta)
            path.append(used.size)
            change, w = float(np.max(np.abs(new - w))), new
            if change < self.tol or not used.size:
                break
        self.theta_, self.path_, self.n_iter_ = theta, path, n_iter
        self.converged_ = change < self.tol
        self.support_, self.n_vectors_ = used, used.size
        self.vectors_ = np.asarray(X)[used]
        self.dual_coef_, self.intercept_ = w[None, used], np.array([b])
        return self

    def decision_function(self, X: Any) -> Any:
        """f, eq. 1."""
        squares = euclidean_distances(X, self.vectors_, squared=True)
        return np.exp(-squares / self.theta_**2) @ self.dual_coef_[0] + self.intercept_[0]

    def predict_proba(self, X: Any) -> Any:
        """The paper's own probit, eq. 3."""
        p = ndtr(self.decision_function(X))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Any:
        """Labels, by the sign of f."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def latent(z: Any, y: Any) -> Any:
    """Means of the latent variables, eq. 23 with the division that it lacks (C3)."""
    return z + y * np.sqrt(2 / np.pi) / erfcx(-y * z / np.sqrt(2))


def weights(K: Any, h: Any, w: Any, b: float) -> Any:
    """Eq. 11 through M = diag(sqrt(2) w), Appendix C."""
    M = np.sqrt(2.0) * w
    scaled = K * M
    S = scaled.T @ scaled
    S[np.diag_indices_from(S)] += 1.0
    try:
        L = cho_factor(S, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:  # huge weights: one is below their rounding
        A, target = np.vstack([scaled, np.eye(w.size)]), np.append(h - b, np.zeros(w.size))
        return M * np.linalg.lstsq(A, target, rcond=None)[0]
    return M * cho_solve(L, scaled.T @ (h - b))


def bias(rest: Any, b: float) -> float:
    """Eq. 12 through t = sqrt(2) |b|, Appendix C."""
    t = np.sqrt(2.0) * abs(b)
    return float(t * t * rest.sum() / (1.0 + t * t * rest.size))


def width(squares: Any, target: Any, w: Any, theta: float, steps: int = 10) -> float:
    """The theta of most Q by conjugate gradients, eq. 10 with sign and bias corrected (C2)."""

    def loss(log_theta: Any) -> tuple[float, Any]:
        # beyond these bounds all kernel values are zero or one
        scaled = squares * np.exp(-2.0 * np.clip(float(log_theta[0]), *BOUNDS))
        K = np.exp(-scaled)
        rest = K @ w - target
        return 0.5 * float(rest @ rest), np.array([2.0 * float(rest @ ((K * scaled) @ w))])

    found = minimize(loss, [np.log(theta)], jac=True, method="CG", options={"maxiter": steps})
    return float(np.exp(np.clip(found.x[0], *BOUNDS)))


def first_weights(kind: str, K: Any, y: Any, rng: Any) -> Any:
    """Random, or those of another machine, raised where they are zero or of the wrong sign."""
    if kind == "random":
        return y * rng.uniform(0.2, 1.2, y.size)
    w = np.zeros(y.size)
    if kind == "svm":
        machine = SVC(kernel="precomputed").fit(K, y)
        w[machine.support_] = machine.dual_coef_[0]
    else:
        found = rvm.sequential(rvm.Columns(K, y, np.ones(y.size)))
        w[found.columns] = found.mean[:-1]
    return y * np.where(y * w > 0, y * w, RAISED * rng.uniform(0.0, 1.0, y.size))
