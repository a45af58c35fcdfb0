r"""The machine of Chen, Tino & Yao: EM under the power prior, several starts, the kernel's width.

The weights are truncated Gaussians whose precisions have Gamma(c, d) priors, so that on the label's
side

.. math:: p(w) \propto (w^2 + 2d)^{-(c + 1/2)}, \qquad \bar\alpha = \frac{2c + 1}{w^2 + 2d} .

With d = 0 the density is unbounded at zero: what is found is a local maximum, reached from large
weights, and it depends on the start.  A weight that becomes zero is then removed for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import SVC

from ..core.parameters import is_number
from ..core.random import stream
from ..core.types import Array
from ..gp.evidence import is_scale
from ..inference.progress import Progress, Watch, silent
from . import rvm
from .callback import Journal
from .candidates import MergedRows, has_length_scale, is_positive, keeps_size, stretched
from .folds import Fold, Held, row_losses
from .newton import FLAT, PROBIT, PenalisedLikelihood
from .sparse import Found, Sparse

SMALL = 1e-6  # |w| / sqrt(2c + 1) below which a weight is zero: alpha above 1e12
WIDTH_AFTER = 5  # iterations before the width changes
WIDTH_STEP = 0.3  # largest change of the log width
SETTLED = 1e-3  # change of the log width after which it is kept
RAISED = 1e-2  # first weight where another machine's is zero or on the wrong side


@dataclass(frozen=True)
class Power:
    r"""The prior of Chen et al., :math:`p(w) \propto |w|^{-(2c+1)}` on the label's side.

    Sparser than the Laplace prior, with local maxima: several starts are tried.  With a rate
    :math:`d > 0` it is half a Student density, :math:`p(w) \propto (w^2 + 2d)^{-(c+1/2)}`, bounded
    and less sparse.

    Parameters
    ----------
    shape : float, default=-0.25
        The *c*: -1/4 is what Chen et al. ran, 0 what they print.
    solver : {"newton", "em"}, default="newton"
        How weights are found: Newton steps, or the paper's EM with its M-step made exact.  Both
        ascend.
    n_starts : int, default=6
        Random starts, besides the solutions of a support vector and a relevance vector machine;
        chosen by held-out log loss.
    rate : float, default=0.0
        The *d*, for kernel values of at most one.
    bias_shape, bias_rate : float, optional, and float, default=0.0
        *e* and *f* of the prior of the bias, :math:`p(b) \propto (b^2 + 2f)^{-(e+1/2)}`.  By
        default it is Gaussian, with the ``intercept_scale`` of the estimator.
    widths : {"together", "each"}, default="together"
        Whether the length scales of a kernel that has several keep their ratios while they move
        with the weights, or each moves by its own gradient.

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
        shapes: dict[str, Any] = {"shape": self.shape, "bias_shape": self.bias_shape}
        for name, value in shapes.items():
            free = name == "bias_shape" and value is None
            if not free and not (is_number(value) and value > -0.5):
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
        """Whether a weight that has become zero stays there: the density is infinite at zero."""
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


class Rows(NamedTuple):
    """Rows with weights, and candidates; kernel values ``K`` are fixed, or ``None``."""

    X: Array  # (n, p), empty with fixed values
    Z: Array  # (m, p) candidates, likewise
    K: Array | None  # (n, m)
    y: Array  # (n,)
    c: Array  # (n,)
    sign: Array  # (m,) labels of the candidates

    @classmethod
    def of(
        cls, data: MergedRows, K: Array | None, y: Array, rows: Array, c: Array, keep: Array
    ) -> Rows:
        """Some rows with weights ``c``, and some of the candidates."""
        chosen = data.candidates[keep]
        labels = (y[rows], c, y[chosen])
        if K is not None:
            return cls(data.points[:0], data.points[:0], K[np.ix_(rows, keep)], *labels)
        return cls(data.points[data.at[rows]], data.points[data.at[chosen]], None, *labels)

    def signed(self, kernel: Any, columns: Any = slice(None)) -> Array:
        """Kernel values with some candidates times their labels, and the constant."""
        K = kernel(self.X, self.Z[columns]) if self.K is None else self.K[:, columns]
        return np.column_stack([K * self.sign[columns], np.ones(self.y.size)])


@dataclass(frozen=True)
class Start:
    """First weights: random, or those of a support or relevance vector machine."""

    kind: str  # "random", "svm" or "rvm"
    log_width: float = 0.0  # relative to the kernel
    seed: int = 0

    def weights(self, A: Array, rows: Rows) -> Array:
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
        return np.where(w * rows.sign > RAISED, w * rows.sign, RAISED)


def all_starts(count: int, support: bool, learn_width: bool) -> list[Start]:
    """Random starts at three widths, a support vector machine if it applies, a relevance one."""
    widths = np.log(2.0) * np.array([0.0, -1.0, 1.0] if learn_width else [0.0])
    random = [Start("random", float(widths[k % widths.size]), k) for k in range(count)]
    return [*random, *([Start("svm")] if support else []), Start("rvm")]


def fit(
    kernel: Any,
    rows: Rows,
    start: Start | Array,
    prior: Power,
    *,
    tol: float = 1e-5,
    max_iter: int = 500,
    bias: float = FLAT,
    watch: Watch = silent,
) -> tuple[Any, Sparse]:
    r"""Alternate :math:`\bar\alpha` and the weights; remove weights that become zero.

    The solver ``"em"`` makes one EM step for each :math:`\bar\alpha`, as the paper does but with
    the exact M-step; ``"newton"`` maximises over the weights.  Both ascend.  Where kernel values
    are not fixed, the width is learned too.  ``start`` may be the signed weights and the bias.

    Returns
    -------
    kernel : object
        The kernel with its learned width.
    sparse : Sparse
        The machine, its weights signed.
    """
    moving = rows.K is None and has_length_scale(kernel)
    if isinstance(start, Start):
        kernel = stretched(kernel, start.log_width)
        x = np.append(start.weights(rows.signed(kernel), rows), 0.0)
    else:
        x = start
    columns = np.flatnonzero((x[:-1] > 0) | (not prior.removes))
    x, A = x[np.append(columns, x.size - 1)], rows.signed(kernel, columns)
    zero = SMALL * np.sqrt(2.0 * prior.shape + 1.0)
    path: list[float] = []
    converged, change, n_iter = False, np.inf, 0

    def model(Q: Array) -> PenalisedLikelihood:
        return PenalisedLikelihood(A, rows.y, rows.c, np.zeros(Q.size), Q)

    for n_iter in range(1, max_iter + 1):
        Q = prior.precision(x, bias)
        if n_iter == 1 and x[-1] == 0.0:
            Q[-1] = bias  # at zero the prior of the bias may be infinite
        new = model(Q).em_step(x) if prior.solver == "em" else model(Q).newton(x, 1e-10)[0]
        alive = np.append((new[:-1] > zero) | (not prior.removes), True)
        change = float(np.max(np.abs(new - x)[alive] / np.maximum(1.0, np.abs(new[alive]))))
        x, A, columns = new[alive], A[:, alive], columns[alive[:-1]]
        if moving and n_iter > WIDTH_AFTER and columns.size:
            step = width_step(kernel, rows, columns, x, prior.widths)
            moving = bool(np.max(np.abs(step)) >= SETTLED)
            if np.any(step):
                kernel = kernel.with_theta(kernel.theta + step)
                A = rows.signed(kernel, columns)
        path.append(model(np.zeros(x.size)).value(x) + prior.log_density(x, bias))
        if alive.all() and change < tol:
            converged = True
            break
        if watch(Progress("iterations", n_iter, max_iter, path[-1], change), x):
            break
    on = np.append(x[:-1] > 0, True)
    x, A, columns = x[on], A[:, on], columns[on[:-1]]
    last = model(prior.precision(x, bias))
    precision = last.curvature(last.local(A @ x).h)
    return kernel, Sparse(columns, x, precision, path[-1], path, n_iter, converged, change)


def width_step(
    kernel: Any, rows: Rows, columns: Array, x: Array, widths: str = "together"
) -> Array:
    r"""A Gauss-Newton step of the log length scales that raises the likelihood, or zeros.

    The gradient is :math:`\sum_{ij} g_i w_j\,\partial\phi_{ij}/\partial\log\ell_k`: Chen et al.,
    eq. 10, with its sign and bias corrected.

    Returns
    -------
    step : array of shape (n_theta,)
        Change of ``kernel.theta``.
    """
    scales = is_scale(kernel)
    ways = np.diag(scales)[scales > 0] if widths == "each" else scales[None]

    def predictor(step: Array) -> Array:
        moved = kernel.with_theta(kernel.theta + step)
        out: Array = rows.signed(moved, columns) @ x
        return out

    def log_lik(z: Array) -> float:
        return float(rows.c @ PROBIT.log_prob(rows.y, z))

    z, e = rows.signed(kernel, columns) @ x, 1e-4
    row = PROBIT.expected(rows.y, z, 0.0).times(rows.c)
    w = x[:-1] * rows.sign[columns]
    slope = ways @ kernel.pull(np.outer(row.g, w), rows.X, rows.Z[columns])
    J = np.stack([(predictor(e * way) - predictor(-e * way)) / (2 * e) for way in ways])
    G, none = (J * row.h) @ J.T, np.zeros(scales.size)
    if not np.trace(G) > 0:
        return none
    part = np.linalg.lstsq(G, slope, rcond=1e-3)[0]  # of a scale without effect, nothing
    step = ways.T @ (part * min(1.0, WIDTH_STEP / max(float(np.max(np.abs(part))), 1e-300)))
    value = log_lik(z)
    for _ in range(10):
        if log_lik(predictor(step)) > value:
            return np.asarray(step)
        step = 0.5 * step
    return none


def choose_start(
    kernel: Any,
    data: MergedRows,
    K: Array | None,
    y: Array,
    folds: Sequence[Fold],
    starts: Sequence[Start],
    prior: Power,
    journal: Journal,
    **how: Any,
) -> tuple[Start, Held]:
    """The start of least held-out log loss, and the moments of f at the held-out rows."""
    best, chosen = np.inf, None
    y_out = np.concatenate([y[f.out] for f in folds])
    c = np.concatenate([f.held for f in folds])
    for number, start in enumerate(starts, 1):
        held = journal.recall(f"start{number}")
        new = not held
        if new:
            parts = []
            for f in folds:
                inside = Rows.of(data, K, y, f.rows, f.left, f.keep)
                at, sparse = fit(kernel, inside, start, prior, **how)
                outside = Rows.of(data, K, y, f.out, f.held, f.keep)
                parts.append(sparse.moments(outside.signed(at)[:, :-1]))
            held = dict(zip("mv", map(np.concatenate, zip(*parts, strict=True)), strict=True))
            journal.note(f"start{number}", **held)
        m, v = held["m"], held["v"]
        loss = float(c @ row_losses(y_out, m, v, c))
        if loss < best or chosen is None:
            best, chosen = loss, (start, (y_out, m, v, c))
        if new and journal(Progress("starts", number, len(starts), -loss, best - loss)):
            break
    assert chosen is not None
    return chosen


def fit_machines(
    kernel: Any,
    data: MergedRows,
    journal: Journal,
    rng: np.random.Generator,
    *,
    prior: Power,
    n_folds: int,
    learn_width: bool,
    **how: Any,
) -> Found:
    """The machines of all classes, each from its best start; options as in :func:`fit`."""
    folds, K = data.folds(n_folds, rng), data.values(kernel)
    moving = learn_width and has_length_scale(kernel) and keeps_size(kernel, data.points[:5])
    # a support vector machine needs all rows as candidates and a positive kernel
    support = data.candidates.size == data.c.size and is_positive(kernel, K)
    size = 1.0 if moving else float(np.abs(K).max()) or 1.0  # starts expect columns of about one
    everything = np.arange(data.c.size), data.c, np.arange(data.candidates.size)

    def fit_all(kernel: Any, K: Array | None, journal: Journal) -> list[Any]:
        starts, found = all_starts(prior.n_starts, support, K is None), []
        for j, y in enumerate(data.labels):
            start, held = starts[0], None
            if folds:
                where = (kernel, data, K, y, folds, starts, prior, journal.folder(f"machine{j}"))
                start, held = choose_start(*where, **how)
            rows = Rows.of(data, K, y, *everything)
            at, sparse = fit(kernel, rows, start, prior, watch=journal, **how)
            sparse = sparse.with_columns_times(rows.sign[sparse.columns] * size)
            found.append((at, sparse, held))
        return found

    found = fit_all(kernel, None if moving else K / size, journal)
    if moving and len(found) > 1:  # the machines share their columns: settle on one width
        kernel = kernel.with_theta(np.mean([at.theta for at, *_ in found], axis=0))
        found = fit_all(kernel, data.values(kernel), journal.folder("shared"))
    kernels, sparse, held = zip(*found, strict=True)
    return Found(kernels[0], list(sparse), list(held))
