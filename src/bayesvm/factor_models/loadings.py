r"""The factor model: many columns explained by few scores, through sparse loadings.

.. math::

    x_n = A w_n + \varepsilon_n, \quad \varepsilon_n \sim N(0, \psi^{-1} I), \quad w_n \sim N(0, I),
    \quad a_{ik} \sim N(0, \varphi_{ik}), \quad \varphi_{ik} \sim \mathrm{Exp}(\nu), \quad
    \psi \sim \mathrm{Ga}(a, b),

so that a loading has a Laplace prior of rate :math:`\sqrt{2\nu}`.  Columns are independent given
the scores: every matrix is K by K, and there are d such problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from ..core.distributions import LOG_2PI, inverse_gaussian, slice_sample
from ..core.types import Array
from .observed_data import Scores, Sheet, Sums, second_moments

TINY = 1e-12  # smallest E[a^2]: keeps the precision of a loading finite


class Loadings(NamedTuple):
    """q(A) q(phi) q(psi): means ``(d, K)``, covariances ``(d, K, K)``, E[1/phi] ``(d, K)``, shape
    and rate of the noise precision, and the Laplace rate."""

    mean: Array
    cov: Array
    shrink: Array
    shape: float
    rate: float
    laplace: float

    @property
    def psi(self) -> float:
        """E[psi]."""
        return self.shape / self.rate

    def second(self) -> Array:
        """E[a_ik^2], ``(d, K)``."""
        return self.mean**2 + np.diagonal(self.cov, axis1=1, axis2=2)


@dataclass(frozen=True)
class FactorPrior:
    r"""Priors of loadings and noise.

    Parameters
    ----------
    nu : float or None, default=1.0
        Rate of the variances of loadings; ``None`` learns it with the prior
        :math:`\nu \sim \mathrm{Exp}(1)`.
    a, b : float, default=1.0
        Shape and rate of the noise precision.
    """

    nu: float | None = 1.0
    a: float = 1.0
    b: float = 1.0

    @property
    def laplace(self) -> float:
        """The initial Laplace rate."""
        return float(np.sqrt(2.0 * (1.0 if self.nu is None else self.nu)))

    # ----- variational

    def start(self, sheet: Sheet, K: int) -> tuple[Loadings, Scores]:
        """Leading singular vectors, scores with unit variance; missing cells are the mean."""
        U = np.linalg.svd(sheet.X * np.sqrt(sheet.c)[:, None], full_matrices=False)[0]
        n = float(sheet.c.sum())
        # a row of weight c counts as c rows, each with the share 1/sqrt(c) of the vector
        W = U[:, :K] * np.sqrt(n / sheet.c)[:, None]
        A = np.asarray(sheet.X.T @ (W * sheet.c[:, None])) / n
        left = max(sheet.square - n * float(np.sum(A * A)), 1e-6 * sheet.square)
        shape = self.a + 0.5 * sheet.count
        variance = left / sheet.count
        cov = np.broadcast_to(np.eye(K) * (variance / n), (sheet.d, K, K))
        q = Loadings(A, cov, np.ones((sheet.d, K)), shape, shape * variance, self.laplace)
        return self.shrunk(q), Scores(W)

    def update(self, q: Loadings, sums: Sums) -> Loadings:
        """q(A) given scores, q(phi), then q(psi)."""
        cov = np.linalg.inv(q.psi * sums.gram + _diagonals(q.shrink))
        mean = q.psi * np.einsum("ijk,ik->ij", cov, sums.cross)
        q = self.shrunk(q._replace(mean=mean, cov=cov))
        return q._replace(shape=self.a + 0.5 * sums.count, rate=self.b + 0.5 * energy(q, sums))

    def shrunk(self, q: Loadings) -> Loadings:
        r"""q(phi), :math:`E\varphi^{-1} = r/\sqrt{E a^2}`, and the Laplace rate r if learned."""
        size = np.sqrt(np.maximum(q.second(), TINY))
        r = q.laplace
        if self.nu is None:  # maximises dK log r - r T - r^2 / 2, with T the sum of sizes
            T = float(size.sum())
            r = 0.5 * (np.sqrt(T * T + 4.0 * size.size) - T)
        return q._replace(shrink=r / size, laplace=float(r))

    def bound(self, q: Loadings, sums: Sums) -> float:
        """E log p(X, A, phi, psi | W) - E log q, with all constants."""
        log_psi = digamma(q.shape) - np.log(q.rate)
        fit = 0.5 * sums.count * (log_psi - LOG_2PI) - 0.5 * q.psi * energy(q, sums)
        entropy = 0.5 * (q.mean.size * (1.0 + LOG_2PI) + float(np.linalg.slogdet(q.cov)[1].sum()))
        a, b = self.a, self.b
        divergence = (
            (q.shape - a) * digamma(q.shape) - gammaln(q.shape) + gammaln(a)
            + a * (np.log(q.rate) - np.log(b)) + q.shape * (b - q.rate) / q.rate
        )  # fmt: skip
        learned = -0.5 * q.laplace**2 if self.nu is None else 0.0
        return float(fit + sparse_bound(q) + entropy - divergence + learned)

    # ----- draws

    def draw(self, q: Drawn, sums: Sums, rng: np.random.Generator) -> Drawn:
        """Loadings, their variances and the noise, given scores."""
        L = np.linalg.cholesky(q.psi * sums.gram + _diagonals(q.shrink))
        half = np.linalg.solve(L, q.psi * sums.cross[:, :, None])
        dice = rng.standard_normal(half.shape)
        A = np.linalg.solve(L.transpose(0, 2, 1), half + dice)[:, :, 0]
        r = q.laplace
        shrink = _draw_shrink(A, r, rng)
        if self.nu is None:
            r = float(np.sqrt(2.0 * rng.gamma(1.0 + A.size) / (1.0 + np.sum(1.0 / shrink))))
        new = Drawn(A, shrink, q.psi, r)
        rate = self.b + 0.5 * energy(new, sums)
        return new._replace(psi=float(rng.gamma(self.a + 0.5 * sums.count) / rate))

    def turn(
        self,
        q: Drawn,
        rng: np.random.Generator,
        theta: Array | None = None,
        precision: Array | None = None,
    ) -> tuple[Drawn, Array]:
        """Rotate factors, two at a time; also the rotation matrix.

        Rotating scores and loadings together changes neither the fit nor the prior of the scores,
        so angles are drawn from the Laplace prior (variances of loadings integrated out) and, if
        coefficients ``theta`` rotate too, their Gaussian prior with ``precision``.  Draws of
        loadings given scores and of scores given loadings hardly move in these directions.
        """
        r, (d, K) = q.laplace, q.A.shape
        own = np.zeros(K) if theta is None else theta
        P = np.zeros(K) if precision is None else precision
        B = np.vstack([q.A, own, np.eye(K)])  # all rows are rotated together
        pairs = [(j, k) for j in range(K) for k in range(j)]
        for j, k in (pairs[i] for i in rng.permutation(len(pairs))):
            z = B[:, j] + 1j * B[:, k]

            def log_prior(t: float, z: Any = z, p: Array = P[[j, k]]) -> float:
                new = (z[: d + 1] * np.exp(-1j * t)).view(float)
                return float(-r * np.abs(new[: 2 * d]).sum() - 0.5 * p @ new[2 * d :] ** 2)

            low = -0.5 * np.pi * rng.random()  # a bracket of a quarter turn, placed at random
            t = slice_sample(log_prior, 0.0, rng, bounds=(low, low + 0.5 * np.pi))
            z = z * np.exp(-1j * t)
            B[:, j], B[:, k] = z.real, z.imag
        return q._replace(A=B[:d], shrink=_draw_shrink(B[:d], r, rng)), B[d + 1 :]


def _draw_shrink(A: Array, r: float, rng: np.random.Generator) -> Array:
    """1/phi given loadings."""
    return np.minimum(inverse_gaussian(np.abs(A) / r, r * r, rng), 1.0 / TINY)


class Drawn(NamedTuple):
    """A draw of the loadings, of 1/phi, of the noise precision and of the Laplace rate."""

    A: Array
    shrink: Array
    psi: float
    laplace: float

    @staticmethod
    def of(q: Loadings) -> Drawn:
        return Drawn(q.mean, q.shrink, q.psi, q.laplace)

    @property
    def mean(self) -> Array:
        return self.A

    @property
    def cov(self) -> None:
        return None

    def second(self) -> Array:
        return self.A**2


def energy(q: Loadings | Drawn, sums: Sums) -> float:
    """Expected squared residuals, over the observed cells."""
    if sums.gram.ndim == 2:
        square = second_moments(np.ones(len(q.mean)), q.mean, q.cov)
    else:
        square = q.mean[:, :, None] * q.mean[:, None, :] + (0.0 if q.cov is None else q.cov)
    return float(sums.square - 2.0 * np.vdot(sums.cross, q.mean) + np.vdot(sums.gram, square))


def sparse_bound(q: Loadings) -> float:
    r"""E log p(a, phi) - E log q(phi): :math:`\log\frac r2 - \frac r2(E a^2/\xi + \xi)` a loading,
    with :math:`\xi = r/E\varphi^{-1}`."""
    r = q.laplace
    xi = r / q.shrink
    return float(q.mean.size * np.log(0.5 * r) - 0.5 * r * np.sum(q.second() / xi + xi))


def project(sheet: Sheet, q: Loadings | Drawn) -> Scores:
    """Scores given the cells only: covariance ``(K, K)``, or one per row with missing cells."""
    cov = np.linalg.inv(np.eye(q.mean.shape[1]) + q.psi * sheet.across(q.mean, q.cov))
    info = q.psi * (sheet.X @ q.mean)
    return Scores((cov @ info[..., None])[..., 0], cov)


@dataclass(frozen=True, eq=False)
class Frame:
    r"""Coordinates in which scores given the table have unit covariance.

    :math:`w_n = \bar w_n + L z_n/\sqrt{c_n}` with :math:`N(\bar w_n, LL^\top)` the distribution of
    the scores given the cells of the row, whose logarithm is :math:`-\frac12 \lVert z\rVert^2`.  A
    row of weight c has the coordinates of c equal rows.
    """

    mean: Array
    root: Array  # (K, K) or (n, K, K)
    c: Array

    @staticmethod
    def of(sheet: Sheet, q: Loadings | Drawn) -> Frame:
        seen = project(sheet, q)
        assert seen.cov is not None
        return Frame(seen.mean, np.linalg.cholesky(seen.cov), sheet.c)

    def scores(self, Z: Array) -> Array:
        step = Z / np.sqrt(self.c)[:, None]
        return self.mean + np.einsum("...jk,...k->...j", self.root, step)

    def pull(self, slope: Array) -> Array:
        """Gradient in Z from the gradient in the scores."""
        out = np.einsum("...jk,...j->...k", self.root, slope)
        return np.asarray(out / np.sqrt(self.c)[:, None])

    def inverse(self, W: Array) -> Array:
        step = W - self.mean
        Z = np.linalg.solve(self.root, step[:, :, None])[:, :, 0]
        return np.asarray(Z * np.sqrt(self.c)[:, None])


def learn(
    prior: FactorPrior, sheet: Sheet, K: int, max_iter: int = 200, tol: float = 1e-5
) -> tuple[Loadings, Scores, list[float]]:
    """The factor model of a table without labels: loadings, scores, history of its bound."""
    q, scores = prior.start(sheet, K)
    path: list[float] = []
    for _ in range(max_iter):
        q = prior.update(q, sheet.sums(scores))
        scores = project(sheet, q)
        path.append(table_bound(prior, q, sheet, scores))
        if len(path) > 1 and path[-1] - path[-2] < tol * max(abs(path[-1]), float(sheet.c.sum())):
            break
    return q, scores, path


def table_bound(prior: FactorPrior, q: Loadings, sheet: Sheet, scores: Scores) -> float:
    """The bound of the factor model alone, with scores integrated out."""
    assert scores.cov is not None
    sums, K = sheet.sums(scores), scores.mean.shape[1]
    logdet = np.linalg.slogdet(scores.cov)[1]
    entropy = 0.5 * float(sheet.c @ np.broadcast_to(K + logdet, sheet.c.shape))
    return prior.bound(q, sums) - 0.5 * sums.norm + entropy


def rank(sheet: Sheet) -> int:
    """The maximum number of factors of a table; missing cells are the column's mean.

    Singular values below 1e-6 of the largest are treated as rounding errors.
    """
    sizes = np.linalg.svd(sheet.X * np.sqrt(sheet.c)[:, None], compute_uv=False)
    return int(np.count_nonzero(sizes > 1e-6 * sizes.max(initial=0.0)))


def _diagonals(x: Array) -> Array:
    """Diagonal matrices, one per row of x."""
    return x[:, :, None] * np.eye(x.shape[1])
