r"""The method of Chen, Tino & Yao: EM under the power prior, multiple starts, kernel width.

The weights are truncated Gaussians whose precisions have Gamma(c, d) priors, so that on the label's
side

.. math:: p(w) \propto (w^2 + 2d)^{-(c + 1/2)}, \qquad \bar\alpha = \frac{2c + 1}{w^2 + 2d} .

With d = 0 the density is unbounded at zero: the result is a local maximum, reached from large
weights, and depends on the start.  A weight that becomes zero is then removed permanently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import SVC

from ..core.parameters import is_number
from ..core.types import Array
from ..gp.evidence import is_scale
from ..inference.progress import Progress, Watch, silent, stream
from ..predictive.leave_one_out import LooMoments
from . import rvm
from .data import (
    Fold,
    Journal,
    MergedRows,
    Result,
    Sparse,
    has_length_scale,
    held_out_moments,
    is_positive,
    stretched,
    weighted_losses,
)
from .newton import FLAT, PROBIT, PenalisedLikelihood

SMALL = 1e-6  # |w| / sqrt(2c + 1) below which a weight is zero: alpha above 1e12 (Appendix C)


@dataclass(frozen=True)
class Power:
    r"""The prior of Chen et al., :math:`p(w) \propto |w|^{-(2c+1)}` on the label's side.

    Sparser than the Laplace prior, with local maxima: several starts are tried.  With a rate
    :math:`d > 0` it is half a Student density, :math:`p(w) \propto (w^2 + 2d)^{-(c+1/2)}`, bounded
    and less sparse.

    Parameters
    ----------
    shape : float, default=-0.25
        The *c*: -1/4 as in the software of Chen et al., 0 as in their paper.
    solver : {"newton", "em"}, default="newton"
        How weights are found: Newton steps, or the paper's EM with an exact M-step.  Both increase
        the objective.
    n_starts : int, default=6
        Number of random starts, besides the solutions of a support vector and a relevance vector
        machine; chosen by held-out log loss.
    rate : float, default=0.0
        The *d*, for kernel values up to one.
    bias_shape, bias_rate : float, optional, and float, default=0.0
        *e* and *f* of the prior of the bias, :math:`p(b) \propto (b^2 + 2f)^{-(e+1/2)}`.  By
        default it is Gaussian, with the ``intercept_scale`` of the estimator.
    widths : {"together", "each"}, default="together"
        Whether the length scales of a kernel are updated by a common factor, or each by its own
        gradient.

    Examples
    --------
    >>> from bayesvm import PCVC
    >>> from bayesvm.sparse_kernel import Power
    >>> PCVC(weight_prior=Power(shape=0.0)).get_params()["weight_prior__shape"]
    0.0
    """

    shape: float = -0.25
    solver: str = "newton"
    n_starts: int = 6
    rate: float = 0.0
    bias_shape: float | None = None
    bias_rate: float = 0.0
    widths: str = "together"

    def __post_init__(self) -> None:
        bias_shape = 0.0 if self.bias_shape is None else self.bias_shape
        for name, value in {"shape": self.shape, "bias_shape": bias_shape}.items():
            if not (is_number(value) and value > -0.5):
                raise ValueError(f"{name} must be a number above -0.5; got {value!r}.")
        for name, value in {"rate": self.rate, "bias_rate": self.bias_rate}.items():
            if not is_number(value, 0):
                raise ValueError(f"{name} must be a number of at least 0; got {value!r}.")
        if self.bias_shape is None and self.bias_rate:
            raise ValueError("bias_rate has no effect without bias_shape; give both.")
        for name, known in {"solver": ("newton", "em"), "widths": ("together", "each")}.items():
            if (chosen := getattr(self, name)) not in known:
                words = ", ".join(map(repr, known))
                raise ValueError(f"{name}={chosen!r} is not known; choose one of {words}.")
        if not is_number(self.n_starts, 0, kind=Integral):
            raise ValueError(
                f"n_starts must be a whole number of at least 0; got {self.n_starts!r}."
            )

    @property
    def removes(self) -> bool:
        """Whether a weight that has become zero stays zero: the density is infinite at zero."""
        return self.rate == 0.0

    def precision(self, x: Array, bias: float) -> Array:
        r"""Means of the precisions given weights and bias, eqs 24 and 25 of the paper, corrected.

        ``bias`` is the precision of a Gaussian prior of the bias.
        """
        Q = np.append((2.0 * self.shape + 1.0) / (x[:-1] ** 2 + 2.0 * self.rate), bias)
        if self.bias_shape is not None:
            weight = 2.0 * self.bias_shape + 1.0
            Q[-1] = weight / max(x[-1] ** 2 + 2.0 * self.bias_rate, weight * SMALL**2)
        return Q

    def log_density(self, x: Array, bias: float) -> float:
        """Log prior density of weights and bias up to constants, eqs 21 and 22."""
        out = -(self.shape + 0.5) * float(np.log(x[:-1] ** 2 + 2.0 * self.rate).sum())
        if self.bias_shape is None:
            return out - 0.5 * bias * float(x[-1]) ** 2
        square = max(float(x[-1]) ** 2 + 2.0 * self.bias_rate, SMALL**2)
        return out - (self.bias_shape + 0.5) * float(np.log(square))


class Settings(NamedTuple):
    """User settings."""

    prior: Power = Power()
    learn_width: bool = True
    n_folds: int = 5  # to choose the start
    tol: float = 1e-5
    max_iter: int = 500
    bias: float = FLAT  # precision of a Gaussian prior of the bias


class Rows(NamedTuple):
    """A weighted subset of rows, and a subset of the candidates."""

    data: MergedRows
    labels: Array  # -1 and +1, of all rows
    size: float  # of kernel values, which are divided by it
    rows: Array
    columns: Array  # indices of candidates
    c: Array

    @property
    def y(self) -> Array:
        return self.labels[self.rows]

    @property
    def sign(self) -> Array:
        """Labels of the candidates."""
        return self.labels[self.data.candidates[self.columns]]

    def signed(self, kernel: Any, chosen: Any = slice(None)) -> Array:
        """Kernel values with the candidates times their labels, and the constant."""
        K = self.data.values(kernel, self.rows, self.columns[chosen]) / self.size
        return np.column_stack([K * self.sign[chosen], np.ones(self.rows.size)])


class Start(NamedTuple):
    """Initial weights: random, or from a support or relevance vector machine."""

    kind: str  # "random", "svm" or "rvm"
    log_width: float = 0.0  # relative to the kernel
    seed: int = 0

    def weights(self, A: Array, rows: Rows) -> Array:
        """Weights with the sign of their labels; at least 0.01 if the source has another sign."""
        m = A.shape[1] - 1
        if self.kind == "random":
            return stream(self.seed, "start").uniform(0.05, 0.5, m)
        K, w = A[:, :-1] * rows.sign, np.zeros(m)
        if self.kind == "svm":
            machine = SVC(kernel="precomputed").fit(K, rows.y, sample_weight=rows.c)
            w[machine.support_] = machine.dual_coef_[0]
        else:
            found = rvm.sequential(rvm.Columns(K, rows.y, rows.c))
            w[found.columns] = found.mean[:-1]
        return np.maximum(w * rows.sign, 0.01)


def fit(
    kernel: Any, rows: Rows, start: Start | Array, settings: Settings, watch: Watch = silent
) -> tuple[Any, Sparse]:
    r"""The kernel with learned width and the model, alternating :math:`\bar\alpha` and weights.

    Weights that become zero are removed.  The solver ``"em"`` makes one EM step for each
    :math:`\bar\alpha`, as in the paper but with an exact M-step; ``"newton"`` maximises over the
    weights.  Both increase the objective.  A learned width is updated from the sixth iteration on,
    until it changes by less than a thousandth.  ``start`` may be the signed weights and the bias.
    """
    prior, moving = settings.prior, settings.learn_width
    if isinstance(start, Start):
        kernel = stretched(kernel, start.log_width) if start.log_width else kernel
        x = np.append(start.weights(rows.signed(kernel), rows), 0.0)
    else:
        x = start
    columns = np.flatnonzero((x[:-1] > 0) | (not prior.removes))
    x, A = x[np.append(columns, x.size - 1)], rows.signed(kernel, columns)
    zero = SMALL * np.sqrt(2.0 * prior.shape + 1.0)
    path: list[float] = []
    converged, change, n_iter = False, np.inf, 0

    def model(Q: Array) -> PenalisedLikelihood:
        return PenalisedLikelihood(A, rows.y, rows.c, np.zeros(Q.size), np.diag(Q))

    for n_iter in range(1, settings.max_iter + 1):
        Q = prior.precision(x, settings.bias)
        if n_iter == 1 and x[-1] == 0.0:
            Q[-1] = settings.bias  # at zero the prior of the bias may be infinite
        new = model(Q).em_step(x) if prior.solver == "em" else model(Q).newton(x, 1e-10)[0]
        alive = np.append((new[:-1] > zero) | (not prior.removes), True)
        change = float(np.max(np.abs(new - x)[alive] / np.maximum(1.0, np.abs(new[alive]))))
        x, A, columns = new[alive], A[:, alive], columns[alive[:-1]]
        if moving and n_iter > 5 and columns.size:
            step = width_step(kernel, rows, columns, x, prior.widths)
            moving = bool(np.max(np.abs(step)) >= 1e-3)
            if np.any(step):
                kernel = kernel.with_theta(kernel.theta + step)
                A = rows.signed(kernel, columns)
        path.append(model(np.zeros(x.size)).value(x) + prior.log_density(x, settings.bias))
        if alive.all() and change < settings.tol:
            converged = True
            break
        if watch(Progress("iterations", n_iter, settings.max_iter, path[-1], change), x):
            break
    on = np.append(x[:-1] > 0, True)
    x, A, columns = x[on], A[:, on], columns[on[:-1]]
    last = model(prior.precision(x, settings.bias))
    precision = last.curvature(last.local(A @ x).h)
    return kernel, Sparse(columns, x, precision, path[-1], path, n_iter, converged, change)


def width_step(
    kernel: Any,
    rows: Rows,
    columns: Array,
    x: Array,
    widths: str = "together",
    longest: float = 0.3,
) -> Array:
    r"""A Gauss-Newton step of ``kernel.theta`` that increases the likelihood, or zeros.

    The gradient is :math:`\sum_{ij} g_i w_j\,\partial\phi_{ij}/\partial\log\ell_k`: Chen et al.,
    eq. 10, with its sign and bias corrected; f is differentiated numerically.  No entry is larger
    than ``longest``.
    """
    scales = is_scale(kernel)
    ways = np.diag(scales)[scales > 0] if widths == "each" else scales[None]

    def predictor(step: Array) -> Array:
        out: Array = rows.signed(kernel.with_theta(kernel.theta + step), columns) @ x
        return out

    def log_lik(z: Array) -> float:
        return float(rows.c @ PROBIT.log_prob(rows.y, z))

    z, e = predictor(0.0 * scales), 1e-4
    row = PROBIT.augmented(rows.y, z, 0.0).times(rows.c)
    J = np.stack([(predictor(e * way) - predictor(-e * way)) / (2 * e) for way in ways])
    G = (J * row.h) @ J.T
    part = np.linalg.lstsq(G, J @ row.g, rcond=1e-3)[0]  # of a scale without effect, nothing
    step = ways.T @ (part * min(1.0, longest / max(float(np.max(np.abs(part))), 1e-300)))
    for _ in range(10):
        if log_lik(predictor(step)) > log_lik(z):
            return np.asarray(step)
        step = 0.5 * step
    return 0.0 * scales


def fit_machines(kernel: Any, data: MergedRows, journal: Journal, settings: Settings) -> Result:
    """The binary models of all classes, each from its best start.

    Starts are random at three widths, or from a support or a relevance vector machine.
    """
    folds, K = data.folds(settings.n_folds), data.values(kernel)
    few = data.points[:5]
    moving = settings.learn_width and has_length_scale(kernel)
    if moving:  # not if the size of f depends on length scales, as with inner products
        moving = np.allclose(kernel.diag(few), stretched(kernel, 1.0).diag(few))
    size = 1.0 if moving else float(np.abs(K).max()) or 1.0  # starts expect columns of size one
    everything = np.arange(data.c.size), np.arange(data.candidates.size), data.c
    while True:
        widths = np.log(2.0) * np.array([0.0, -1.0, 1.0] if moving else [0.0])
        count, settings = settings.prior.n_starts, settings._replace(learn_width=moving)
        starts = [Start("random", float(widths[k % widths.size]), k) for k in range(count)]
        # a support vector machine needs all rows as candidates and a positive kernel
        if data.candidates.size == data.c.size and is_positive(kernel, K):
            starts.append(Start("svm"))
        starts.append(Start("rvm"))
        fits: list[tuple[Any, Sparse, LooMoments | None]] = []
        for j, y in enumerate(data.labels):
            rows, held_out = Rows(data, y, size, *everything), None
            start = starts[0]
            if folds:
                notes = journal.folder(f"machine{j}")
                start, held_out = choose_start(kernel, rows, folds, starts, settings, notes)
            at, sparse = fit(kernel, rows, start, settings, journal)
            sign = rows.sign[sparse.columns]
            fits.append((at, sparse.with_columns_times(sign * size), held_out))
        kernels, machines, moments = zip(*fits, strict=True)
        if not moving or len(fits) == 1:
            return Result(kernels[0], list(machines), list(moments))
        # the binary models share their columns: use a common width
        kernel = kernel.with_theta(np.mean([at.theta for at in kernels], axis=0))
        moving, journal = False, journal.folder("shared")


def choose_start(
    kernel: Any,
    rows: Rows,
    folds: Sequence[Fold],
    starts: Sequence[Start],
    settings: Settings,
    journal: Journal,
) -> tuple[Start, LooMoments]:
    """The start with the lowest held-out log loss, and the moments of f at the held-out rows."""
    best, chosen = np.inf, None
    for number, start in enumerate(starts, 1):

        def predict(f: Fold, start: Start = start) -> tuple[Array, Array]:
            inside = rows._replace(rows=f.rows, columns=f.keep, c=f.c)
            at, sparse = fit(kernel, inside, start, settings)
            return sparse.moments(inside._replace(rows=f.out).signed(at)[:, :-1])

        found = held_out_moments(rows.labels, folds, predict, journal, f"start{number}")
        loss = float(weighted_losses(found).sum())
        change = best - loss
        if chosen is None or change > 0:
            best, chosen = loss, (start, found)
        if journal(Progress("starts", number, len(starts), -loss, change)):
            break
    assert chosen is not None
    return chosen
