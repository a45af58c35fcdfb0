r"""Fitting links to moments of f at training rows, each left out.

All links are fitted alike: the weighted log loss minus the log prior of a few numbers is minimised
by L-BFGS with its analytic gradient.  What differs is a *family*: the log odds and their
derivatives, the prior, and the unit in which f is measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize, root
from scipy.special import expit, ndtri

from ..core import arrays
from ..core.types import Array
from .links import (
    AveragedSoftmaxLink,
    CalibratedLink,
    SoftmaxLink,
    bounded,
    log_odds,
)


class LinkRows(NamedTuple):
    """What a link is fitted to; classes come first, and f is centred and in its unit."""

    t: Array  # (classes, n), target probabilities
    m: Array  # (n,) of two labels, else (classes, n)
    v: Array
    c: Array  # (n,), weights
    centre: float = 0.0
    unit: float = 1.0

    @property
    def weight(self) -> float:
        """The total weight."""
        return float(self.c.sum())


class LinkFamily(ABC):
    """Links of one form."""

    softened: ClassVar[float] = 0.0  # count by which labels are softened

    @abstractmethod
    def scale(self, m: Array, c: Array, codes: Array) -> tuple[float, float]:
        """Centre and unit of f."""

    @abstractmethod
    def prior(self, rows: LinkRows) -> tuple[Array, Array]:
        """Means and standard deviations of the numbers x of the link, independent Gaussians."""

    @abstractmethod
    def logs(self, x: Array, rows: LinkRows) -> tuple[Array, Callable[[Array], Array]]:
        """Logs of the classes' probabilities up to a constant, ``(classes, n)``.

        Also the function from derivatives of a loss in these to derivatives in x.
        """

    @abstractmethod
    def link(self, x: Array, rows: LinkRows) -> Any:
        """The link with numbers x, for f in its own unit."""

    def starts(self, rows: LinkRows) -> Array:
        """Where searches start, in standard deviations of the prior from its mean."""
        return np.zeros((1, self.prior(rows)[0].size))


@dataclass(frozen=True)
class LogisticFamily(LinkFamily):
    r"""Links of two labels, :class:`.CalibratedLink`, with three numbers, or five if ``curved``.

    With :math:`\tilde m`, of mean zero and unit variance over the rows, and :math:`\tilde v` on the
    same scale, the numbers are :math:`\log a`, :math:`b` and :math:`\log\kappa` of
    :math:`s = a\tilde m + b` and :math:`c = \kappa a^2`; :math:`\kappa = \pi/8` would average a
    logistic link over f.  Their prior is :math:`\log a \sim N(\log 2, 1.5^2)`,
    :math:`b \sim N(b_0, 3^2)` with :math:`b_0` the log odds of the labels,
    :math:`\log\kappa \sim N(\log 0.4, 2^2)`, :math:`\delta \sim N(0, 0.5^2)` and
    :math:`\tau \sim N(0, 0.3^2)`.  So neither the scale of f nor a rare class changes the fit, and
    the slope of separable data is finite.
    """

    curved: bool = False

    softened: ClassVar[float] = 0.5

    def scale(self, m: Array, c: Array, codes: Array) -> tuple[float, float]:
        """Mean and standard deviation over rows, from medians of f within each label.

        The left-out f of a row with a large leverage may be far from all others.
        """
        share = np.bincount(codes, c, 2) / c.sum()
        middle = np.array([_median(m[codes == k], c[codes == k]) for k in (0, 1)])
        within = np.abs(m - middle[codes])
        centre = float(share @ middle)
        between = float(share @ np.square(middle - centre))
        normal = float(ndtri(0.75))  # the median of absolute deviations of a Gaussian
        unit = np.hypot(np.sqrt(between), _median(within, c) / normal)
        if unit <= 1e-6 * abs(centre):  # most rows have the same f
            unit = np.sqrt(c @ np.square(m - centre) / c.sum())
        return centre, float(unit) if unit > 1e-6 * abs(centre) else 1.0  # but for rounding

    def prior(self, rows: LinkRows) -> tuple[Array, Array]:
        negative, positive = rows.t @ rows.c
        mean = np.array([np.log(2.0), np.log(positive / negative), np.log(0.4), 0.0, 0.0])
        free = slice(5 if self.curved else 3)
        return mean[free], np.array([1.5, 3.0, 2.0, 0.5, 0.3])[free]

    def starts(self, rows: LinkRows) -> Array:
        # the loss may have a minimum on either side
        return np.outer([-1.0, 1.0], np.eye(5)[3]) if self.curved else super().starts(rows)

    def logs(self, x: Array, rows: LinkRows) -> tuple[Array, Callable[[Array], Array]]:
        z, D = log_odds(np.append(x, np.zeros(5 - x.size)), rows.m, rows.v)
        return np.stack([np.zeros_like(z), z]), lambda e: D[: x.size] @ e[1]

    def link(self, x: Array, rows: LinkRows) -> CalibratedLink:
        r"""The link and its uncertainty.

        The covariance of the numbers is that with other rows of the same kind, and of the shrinkage
        by the prior, by their posterior second moments around its mean,
        :math:`V(F + P(dd^\top + V)P)V` with :math:`V = (F + P)^{-1}` of the expected Hessian F and
        the prior precision P, d from the prior mean.
        """
        mean, sd = self.prior(rows)
        whole = np.append(x, np.zeros(5 - x.size))
        z, D = log_odds(whole, rows.m, rows.v)
        D, p = D[: x.size], expit(z)
        F, P = (D * (rows.c * p * (1.0 - p))) @ D.T, np.diag(sd**-2)
        V = np.linalg.inv(F + P)
        cov = np.zeros((5, 5))
        cov[: x.size, : x.size] = V @ (F + P @ (np.outer(x - mean, x - mean) + V) @ P) @ V
        a = float(np.exp(whole[0])) / rows.unit
        b, c = float(whole[1]) - a * rows.centre, float(np.exp(whole[2])) * a * a
        skew, tail = map(float, whole[3:])
        return CalibratedLink(a, b, c, skew, tail, rows.weight, rows.centre, cov)


@dataclass(frozen=True)
class SoftmaxFamily(LinkFamily):
    r"""Links of classes, :class:`.SoftmaxLink`.

    In units of the spread *s* of f (the root of its variance over rows, averaged over classes)
    :math:`\log as \sim N(\log 2, 0.5^2)`, :math:`\log cs^2 \sim N(\log 0.4, 1.5^2)` and
    :math:`b_k \sim N(0, 4^2)`, so wide that a class of few rows can have an offset.
    """

    softened: ClassVar[float] = 0.1

    def scale(self, m: Array, c: Array, codes: Array) -> tuple[float, float]:
        share = c / c.sum()
        unit = float(np.sqrt(np.mean(np.square(m - (m @ share)[:, None]) @ share)))
        return 0.0, unit if unit > 1e-12 * float(np.abs(m).max()) else 1.0

    def prior(self, rows: LinkRows) -> tuple[Array, Array]:
        K = len(rows.m)
        return np.r_[np.log(2.0), np.log(0.4), np.zeros(K)], np.r_[0.5, 1.5, np.full(K, 4.0)]

    def logs(self, x: Array, rows: LinkRows) -> tuple[Array, Callable[[Array], Array]]:
        q = 1.0 + np.exp(x[1]) * rows.v
        inverse = 1.0 / np.sqrt(q)
        by_a = np.exp(x[0]) * rows.m * inverse
        z = by_a + x[2:, None] * inverse

        def pullback(e: Array) -> Array:
            by_c = -0.5 * np.vdot(e, z * (1.0 - 1.0 / q))
            return np.r_[np.vdot(e, by_a), by_c, (e * inverse).sum(axis=1)]

        return z, pullback

    def link(self, x: Array, rows: LinkRows) -> SoftmaxLink:
        a, c = np.exp(x[:2])
        return SoftmaxLink(float(a) / rows.unit, x[2:], float(c) / rows.unit**2, rows.weight)


@dataclass(frozen=True)
class AveragedSoftmaxFamily(LinkFamily):
    r"""Links of classes with a joint likelihood, :class:`.AveragedSoftmaxLink`.

    Under :math:`\log a \sim N(0, 0.5^2)` and :math:`\log c \sim N(\log 0.4, 1.5^2)`: slope and
    weight of an exact average would be 1 and about 0.4.
    """

    def scale(self, m: Array, c: Array, codes: Array) -> tuple[float, float]:
        return 0.0, 1.0

    def prior(self, rows: LinkRows) -> tuple[Array, Array]:
        return np.array([0.0, np.log(0.4)]), np.array([0.5, 1.5])

    def logs(self, x: Array, rows: LinkRows) -> tuple[Array, Callable[[Array], Array]]:
        a, c = np.exp(x)
        logs, D = np.empty_like(rows.m), np.empty((2, *rows.m.shape))
        for k, (own, var) in enumerate(zip(rows.m, rows.v, strict=True)):
            q = 1.0 + c * (rows.v + var)
            z = a * (rows.m - own) / np.sqrt(q)
            z[k] = 0.0
            logs[k], p = _softmax(z)
            D[0, k] = -(p * z).sum(axis=0)
            D[1, k] = 0.5 * (p * z * (1.0 - 1.0 / q)).sum(axis=0)
        return -logs, lambda e: np.einsum("ikn,kn->i", D, e)

    def link(self, x: Array, rows: LinkRows) -> AveragedSoftmaxLink:
        a, c = map(float, np.exp(x))
        return AveragedSoftmaxLink(len(rows.m), a, c, rows.weight)


def fit_link(family: LinkFamily, y: Array, m: Array, v: Array, c: Array) -> Any:
    """The link of a family with the least penalised log loss.

    Parameters
    ----------
    family : LinkFamily
    y : array of shape (n,)
        Labels, -1 and 1, or the numbers of classes.
    m, v : arrays of shape (n,) or (n, classes)
        Moments of f at rows left out.
    c : array of shape (n,)
        Weights of the rows.
    """
    rows = _link_rows(family, y, m, v, c)
    return family.link(_minimise(family, rows)[0], rows)


def score_link(family: LinkFamily, y: Array, m: Array, v: Array, c: Array) -> float:
    """The least penalised log loss itself; arguments as those of :func:`fit_link`."""
    return _minimise(family, _link_rows(family, y, m, v, c))[1]


def _link_rows(family: LinkFamily, y: Array, m: Array, v: Array, c: Array) -> LinkRows:
    y, m, v, c = (arrays.to_numpy(x) for x in (y, m, v, c))
    codes = (y > 0).astype(int) if m.ndim == 1 else y
    t = targets(codes, c, 2 if m.ndim == 1 else m.shape[1], family.softened)
    centre, unit = family.scale(m.T, c, codes)
    return LinkRows(t, (m.T - centre) / unit, v.T / unit**2, c, centre, unit)


def targets(codes: Array, c: Array, classes: int, softened: float) -> Array:
    """Target probabilities of rows, ``(classes, n)``: their classes, softened by a count."""
    left = softened / (np.bincount(codes, c, classes) + 2.0 * softened)
    out = np.tile(left[codes] / (classes - 1), (classes, 1))
    out[codes, np.arange(codes.size)] = 1.0 - left[codes]
    return out


def _median(x: Array, c: Array) -> float:
    """The weighted median; zero of no rows."""
    if x.size == 0:
        return 0.0
    order = np.argsort(x)
    mass = np.cumsum(c[order])
    # both rows next to one half, where it is reached but for rounding
    half = 0.5 * mass[-1] * np.array([1.0 - 1e-9, 1.0 + 1e-9])
    at = np.minimum(np.searchsorted(mass, half), x.size - 1)
    return float(x[order][at].mean())


def _softmax(z: Array) -> tuple[Array, Array]:
    """Log of the sum of exponentials over the first axis, and their shares."""
    top = z.max(axis=0)
    p = np.exp(z - top)
    total = p.sum(axis=0)
    return top + np.log(total), p / total


def _minimise(family: LinkFamily, rows: LinkRows) -> tuple[Array, float]:
    """The numbers of least penalised log loss, and the loss.

    Probabilities are bounded by the number of rows, so that the loss of one row is too: a row whose
    left-out f is absurd does not decide about all others.
    """
    (mean, sd), n, K = family.prior(rows), rows.weight, len(rows.t)

    def loss(u: Array) -> tuple[float, Array]:
        logs, pullback = family.logs(mean + sd * u, rows)
        p = _softmax(logs)[1]
        q = bounded(p, n, K)
        value = -float(rows.c @ (rows.t * np.log(q)).sum(axis=0))
        slope = (-n / (n + 1.0)) * rows.c * rows.t / q  # in p
        slope = p * (slope - (p * slope).sum(axis=0))  # in logs
        return value + 0.5 * float(u @ u), sd * pullback(slope) + u

    options = {"ftol": 1e-15, "gtol": 1e-8, "maxiter": 500}
    with np.errstate(over="ignore", invalid="ignore"):  # a trial step may be far too long
        found = [
            minimize(
                loss, u, method="L-BFGS-B", jac=True, bounds=[(-6.0, 6.0)] * u.size, options=options
            )
            for u in family.starts(rows)
        ]
        best = min(found, key=lambda each: float(each.fun))
        # the rounding of the loss hides half of the digits, which the gradient has
        exact = root(lambda u: loss(u)[1], best.x)
    close = exact.success and np.allclose(exact.x, best.x, atol=1e-4)
    return mean + sd * (exact.x if close else best.x), float(best.fun)
