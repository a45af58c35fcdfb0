r"""The convex vector machine: a one-sided Laplace prior of weights and the norm of f.

.. math::

    \max_{x \ge 0,\, b}\; \sum_i c_i \log\Phi(y_i z_i)
        - \tau\sum_j x_j - \tfrac12\lambda\, w^\top K w, \qquad w_j = y_j x_j .

The penalty :math:`\lambda` of the squared norm of *f* in the kernel's space makes *f* smooth; with
it alone *f* is the mode of a Gaussian process and no weight is zero.  The rate :math:`\tau` sets
most weights to zero.  With a norm, vectors are selected in two steps (:func:`approach_process`):

1. As the rate decreases, f approaches the process; the first f that is close has few vectors,
   chosen jointly.  Their weights are refitted without the rate, as in the relaxed lasso, because
   the norm already shrinks them.
2. Vectors are removed one by one, each time the vector with the lowest cost
   (:func:`remove_vectors`).

With :math:`\lambda = 0` the rate must also make *f* smooth; cross-validation chooses it
(:func:`choose_rate`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ..core.precision import scaled_cholesky
from ..core.types import Array
from ..data import rows_of_all_classes
from ..inference.progress import Progress
from ..linalg.covariances import FullCovariance
from ..predictive.leave_one_out import LooMoments, effective
from .data import (
    SILENT,
    Fold,
    Journal,
    MergedRows,
    Result,
    Sparse,
    held_out_moments,
    is_positive,
    weighted_losses,
)
from .newton import FLAT, PenalisedLikelihood, largest_rate


class Settings(NamedTuple):
    """User settings; ``None`` is chosen by the solver."""

    rate: float | None = None
    norm_penalty: float | None = None
    one_standard_error: bool = False  # fewer vectors, at a log loss within one standard error
    n_folds: int = 5  # to choose the rate without a norm
    bias: float = FLAT  # prior precision of the bias


def fit_machines(
    kernel: Any,
    data: MergedRows,
    journal: Journal,
    rng: np.random.Generator,
    settings: Settings,
    amplitude: float | None = None,
) -> tuple[Result, Array, Array]:
    """The binary models of all classes, their rates and norm penalties.

    ``amplitude`` is the amplitude of the tuned kernel.
    """
    K, given = data.values(kernel), settings.norm_penalty
    square = K[data.candidates]
    smooth = given != 0 and is_positive(kernel, square)
    if given and not smooth:
        raise ValueError(
            "the kernel matrix is not symmetric and positive, so f has no norm: give "
            f"norm_penalty=0 or another kernel; got norm_penalty={given!r}."
        )
    if smooth:
        rows, columns = np.arange(data.c.size), np.arange(data.candidates.size)
        some = rows_of_all_classes(data.codes[data.candidates], 1000, rng)
        near = np.flatnonzero(np.isin(data.at, data.at[data.candidates[some]]))
        process, small = Process.of(K, data, rows, columns), Process.of(K, data, near, some)
        # the mode of a probit process needs ten times the penalty of a logistic process's mean
        size = max(float(np.abs(np.diag(square)).mean()), np.finfo(float).tiny)
        centre = 10.0 / (16.0 / size if amplitude is None else amplitude)
    folds = [] if smooth else data.folds(settings.n_folds)
    fits: list[tuple[Sparse, float, float, LooMoments | None]] = []
    for j, y in enumerate(data.labels):
        sign, notes = y[data.candidates], journal.folder(f"machine{j}")
        A, penalty = np.column_stack([K * sign, np.ones(y.size)]), given or 0.0
        held_out: LooMoments | None
        if smooth:
            if given is None:
                penalty = choose_norm_penalty(small, y, centre, settings.bias, notes)
            Q = penalty * sign[:, None] * square * sign
            model = convex_model(A, y, data.c, Q, settings.bias)
            target = process.mode(y, penalty, settings.bias)
            sparse, rate, held_out = approach_process(model, target, settings, notes)
        else:
            model = convex_model(A, y, data.c, None, settings.bias)
            rate, held_out = choose_rate(model, folds, settings, notes)
            model = model.with_rate(rate)
            sparse = approximate(model, *model.maximise(np.zeros(model.t.size)))
        fits.append((sparse.with_columns_times(sign[sparse.columns]), rate, penalty, held_out))
    machines, rates, penalties, moments = (list(part) for part in zip(*fits, strict=True))
    return Result(kernel, machines, moments), np.array(rates), np.array(penalties)


def convex_model(
    A: Array, y: Array, c: Array, Q: Array | None = None, bias: float = FLAT
) -> PenalisedLikelihood:
    """The log posterior without a rate; ``Q`` is the norm's matrix, ``lambda y K y``."""
    full = np.zeros((A.shape[1], A.shape[1]))
    full[:-1, :-1], full[-1, -1] = 0.0 if Q is None else Q, bias
    return PenalisedLikelihood(A, y, c, np.zeros(len(full)), full)


def relax(model: PenalisedLikelihood, x: Array, tol: float = 1e-9) -> tuple[Array, int]:
    """The nonzero weights, refitted under a model without a rate; and the number of steps."""
    work = np.flatnonzero(np.append(x[:-1] > 0, True))
    out = np.zeros_like(x)
    out[work], steps = model.of(work).newton(x[work], tol)
    return out, steps


def approximate(model: PenalisedLikelihood, x: Array, steps: int = 0) -> Sparse:
    r"""Laplace's approximation at the nonzero weights.

    The second derivative of a Laplace prior is zero; the precision of its Gaussian scale mixture,
    :math:`\tau/x`, replaces it.
    """
    columns = np.flatnonzero(x[:-1] > 0)
    kept = np.append(columns, x.size - 1)
    part, x = model.of(kept), x[kept]
    value = part.value(x)
    precision = part.curvature(part.local(part.A @ x).h)
    precision += np.diag(np.append(part.t[:-1] / x[:-1], 0.0))
    return Sparse(columns, x, precision, value, [value], steps)


def falling_rates(model: PenalisedLikelihood, settings: Settings) -> list[float]:
    """The given rate, or 24 rates, each half of the previous; the first leaves few vectors."""
    if settings.rate is not None:
        return [settings.rate]
    top = largest_rate(model)
    first = 2.0 ** np.floor(np.log2(top)) if top > 0 else 1.0
    return [float(first * 0.5**k) for k in range(24)]


# ----- with a norm: the Gaussian process, and its approximation by few vectors


class Process(NamedTuple):
    r"""The Gaussian process with covariance :math:`K/\lambda` and a nearly flat bias, at rows.

    Its f is a linear model: pivoted Cholesky factors of the kernel matrix of the candidates,
    :math:`K_{mm} = LL^\top`, give the columns :math:`K_{nm} L^{-\top}`, whose coefficients are
    independent with precision :math:`\lambda`.
    """

    A: Array  # (n, r + 1) these columns, then the constant
    rows: Array  # (n,) indices of the rows
    c: Array
    unit: Array | float

    @staticmethod
    def of(K: Array, data: MergedRows, rows: Array, columns: Array) -> Process:
        square = K[np.ix_(data.candidates[columns], columns)]
        L, pivots, rank, _ = dpstrf(square, tol=1e-10 * np.diag(square).max(), lower=1)
        kept = K[np.ix_(rows, columns[pivots[:rank] - 1])]
        W = solve_triangular(L[:rank, :rank], kept.T, lower=True).T
        unit = data.unit if isinstance(data.unit, float) else data.unit[rows]
        return Process(np.column_stack([W, np.ones(rows.size)]), rows, data.c[rows], unit)

    def mode(self, y: Array, penalty: float, bias: float, x: Array | None = None) -> ProcessMode:
        """The mode by Newton steps from x, and Laplace's approximation there; y of all rows."""
        Q, zero = np.full(self.A.shape[1], penalty), np.zeros(self.A.shape[1])
        Q[-1] = bias
        model = PenalisedLikelihood(self.A, y[self.rows], self.c, zero, np.diag(Q), signed=False)
        x, _ = model.newton(zero if x is None else x, 1e-9)
        f = self.A @ x
        h = model.local(f).h
        v = FullCovariance(*scaled_cholesky(model.curvature(h))).quad(self.A)
        return ProcessMode(model, self.unit, x, f, v, h, model.leave_one_out(f, v, self.unit)[0])


class ProcessMode(NamedTuple):
    """Moments of f at the rows, and its leave-one-out means."""

    model: PenalisedLikelihood
    unit: Array | float
    x: Array  # coefficients
    f: Array
    v: Array
    h: Array  # curvature of each row's log-likelihood
    left_out: Array

    def distance(self, f: Array) -> float:
        r"""Distance of another f, in posterior standard deviations.

        The root of :math:`\sum h (\tilde f - f)^2 / \sum h v`: half the numerator is, to second
        order, the Kullback-Leibler divergence of the label probabilities; half the denominator is
        its average for draws from the posterior.
        """
        return float(np.sqrt(self.h @ (f - self.f) ** 2 / (self.h @ self.v)))

    def leave_one_out(self, f: Array, v: Array) -> LooMoments:
        """Leave-one-out moments of a similar model: its means change as the process's do."""
        _, variance = self.model.leave_one_out(f, v, self.unit)
        c = effective(self.model.c, self.unit)
        return LooMoments(self.model.y, f + self.left_out - self.f, variance, c)

    def losses(self, f: Array) -> Array:
        """Weighted leave-one-out log losses of a similar model."""
        return weighted_losses(self.leave_one_out(f, self.v))


def choose_norm_penalty(
    process: Process, y: Array, centre: float, bias: float = FLAT, journal: Journal = SILENT
) -> float:
    r"""The penalty of the norm by leave-one-out log loss: a geometric mean under a broad prior.

    Penalties half a decade apart, up to three decades from the centre, have weights
    :math:`e^{-\text{log loss}}` times a log-normal prior of standard deviation 3.  The mean varies
    less between samples than the best penalty.
    """

    steps, losses, x = list[float](), list[float](), None
    for k in sorted(range(-6, 7), key=abs):
        steps.append(0.5 * k * float(np.log(10.0)))
        mode = process.mode(y, centre * float(np.exp(steps[-1])), bias, x)
        loss = float(mode.losses(mode.f).sum()) + 0.5 * (steps[-1] / 3.0) ** 2
        x, change = mode.x, min(losses, default=np.inf) - loss
        losses.append(loss)
        if journal(Progress("norms", len(steps), 13, -loss, change)):
            break
    weight = np.exp(min(losses) - np.array(losses))
    return centre * float(np.exp(np.average(steps, weights=weight)))


def approach_process(
    model: PenalisedLikelihood,
    target: ProcessMode,
    settings: Settings,
    journal: Journal = SILENT,
    close: float = 0.05,
    near: float = 0.07,
) -> tuple[Sparse, float, LooMoments]:
    """Few vectors that approximate the process, their rate, and leave-one-out moments.

    The rate decreases until f is ``close`` to the process, in posterior standard deviations; then
    vectors are removed while f stays ``near``, or while the leave-one-out log loss is within a
    standard error.  A given rate selects the vectors alone.
    """
    x, best, rates = np.zeros(model.t.size), np.inf, falling_rates(model, settings)
    for number, rate in enumerate(rates, 1):
        x, _ = model.with_rate(rate).maximise(x, 1e-5, 1e-3)
        free, _ = relax(model, x, 1e-5)
        gap = target.distance(model.A @ free)
        if not gap >= best:
            best, nearest, found = gap, rate, free
        if journal(Progress("rates", number, len(rates), -gap, gap)) or gap <= close:
            break
    if settings.rate is None:
        losses = target.losses(model.A @ found)
        most = losses.sum() + standard_error(losses, effective(model.c, target.unit))

        def accept(f: Array) -> bool:
            if settings.one_standard_error:
                return bool(target.losses(f).sum() <= most)
            return target.distance(f) <= near

        found = remove_vectors(model.A, approximate(model, found), accept)
    sparse = approximate(model, *relax(model, found))
    return sparse, nearest, target.leave_one_out(*sparse.moments(model.A[:, :-1]))


def remove_vectors(A: Array, sparse: Sparse, accept: Callable[[Array], bool]) -> Array:
    r"""Remove as many vectors as possible while f at the rows is acceptable; keep at least one.

    The log posterior is, to second order, a quadratic with covariance :math:`\Sigma` and maximum
    *x*; without vector *j*

    .. math::

        x' = x - \Sigma_{\cdot j}\,x_j/\Sigma_{jj}, \qquad
        \Sigma' = \Sigma - \Sigma_{\cdot j}\Sigma_{j\cdot}/\Sigma_{jj},

    at a cost of :math:`x_j^2/2\Sigma_{jj}` nats (Hassibi & Stork 1993).  The vector with the lowest
    cost is removed first; then weights that have become negative.  ``A`` has the signed columns of
    all candidates.
    """
    on, x = np.append(sparse.columns, A.shape[1] - 1), sparse.mean
    S, steps = sparse.covariance().dense(), [(on, x)]
    while on.size > 2:  # the bias, the last entry, stays
        j = int(np.argmin(x[:-1] * np.abs(x[:-1]) / np.diag(S)[:-1]))
        share, rest = S[:, j] / S[j, j], np.arange(on.size) != j
        x, S, on = (x - share * x[j])[rest], (S - np.outer(share, S[j]))[rest][:, rest], on[rest]
        if np.all(x[:-1] >= 0):
            steps.append((on, x))
    # the change of f grows with the number removed
    refused = bisect_left(steps[1:], True, key=lambda step: not accept(A[:, step[0]] @ step[1]))
    on, x = steps[refused]
    out = np.zeros(A.shape[1])
    out[on] = x
    return out


# ----- without a norm: cross-validation


def choose_rate(
    model: PenalisedLikelihood,
    folds: Sequence[Fold],
    settings: Settings,
    journal: Journal = SILENT,
    patience: int = 3,
    equal: float = 0.15,
) -> tuple[float, LooMoments | None]:
    """The rate with the lowest cross-validated log loss, and held-out moments of f.

    Rates decrease until the loss has stopped improving; the result is the largest rate whose loss
    is ``equal``, within this share of a standard error.  Without folds (a class is too small) the
    rate is the given one, or one.
    """
    if not folds:
        return (1.0 if settings.rate is None else settings.rate), None

    rates, tried, totals = falling_rates(model, settings), list[LooMoments](), list[float]()
    for number, rate in enumerate(rates, 1):

        def predict(fold: Fold, rate: float = rate) -> tuple[Array, Array]:
            part = model.of(np.append(fold.keep, model.t.size - 1)).with_rate(rate)
            inside = replace(part, A=part.A[fold.rows], y=part.y[fold.rows], c=fold.c)
            x, _ = inside.maximise(np.zeros(part.t.size), 1e-5, 1e-3)
            return approximate(inside, x).moments(part.A[fold.out, :-1])

        tried.append(held_out_moments(model.y, folds, predict, journal, f"rate{number}"))
        loss = float(weighted_losses(tried[-1]).sum())
        change = min(totals, default=np.inf) - loss
        totals.append(loss)
        stop = journal(Progress("folds", number, len(rates), -loss, change))
        if stop or number > np.argmin(totals) + patience:
            break
    best = tried[int(np.argmin(totals))]
    share = 1.0 if settings.one_standard_error else equal
    most = min(totals) + share * standard_error(weighted_losses(best), best.c)
    return next(found for found in zip(rates, tried) if weighted_losses(found[1]).sum() <= most)


def standard_error(losses: Array, c: Array) -> float:
    """Standard error of the sum of weighted losses."""
    return float(np.sqrt(c @ (losses / c - losses.sum() / c.sum()) ** 2))
