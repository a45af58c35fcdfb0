r"""The convex vector machine: a one-sided Laplace prior of weights and the norm of f.

.. math::

    \max_{x \ge 0,\, b}\; \sum_i c_i \log\Phi(y_i z_i)
        - \tau\sum_j x_j - \tfrac12\lambda\, w^\top K w, \qquad w_j = y_j x_j .

The norm of *f* in the kernel's space, of weight :math:`\lambda`, makes *f* smooth; with it alone
*f* is the mode of a Gaussian process and no weight is zero.  The rate :math:`\tau` makes most
weights zero.  With a norm, two steps leave vectors out (:func:`fit_with_norm`):

1. From large rates to small, machines come closer to the process; the first that is close has few
   vectors, chosen jointly.  Their weights are found again without the rate, as in the relaxed
   lasso, since the norm already shrinks them.
2. Of these, one after another is removed, each time the one that costs least.  The log posterior
   is, to second order, a quadratic with covariance :math:`\Sigma` and maximum *x*; without vector
   *j*

   .. math::

       x' = x - \Sigma_{\cdot j}\,x_j/\Sigma_{jj}, \qquad
       \Sigma' = \Sigma - \Sigma_{\cdot j}\Sigma_{j\cdot}/\Sigma_{jj},

   and :math:`x_j^2/2\Sigma_{jj}` nats are lost (Hassibi & Stork 1993).

With :math:`\lambda = 0` the rate must also make *f* smooth; folds choose it
(:func:`fit_without_norm`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array
from ..data import rows_of_all_classes
from ..gp.sites import Labels
from ..inference.progress import Progress, Watch, silent
from .callback import SILENT, Journal
from .candidates import MergedRows, is_positive
from .folds import Fold, Held, row_losses
from .newton import FLAT, PenalisedLikelihood, largest_rate
from .process_mode import ProcessMode, choose_norm_penalty, find_process_mode
from .sparse import Found, Sparse

SHARPER = 10.0  # penalty in units of a logistic process's: a mode needs more than a mean
TUNED = 1000  # rows that choose the penalty of the norm
DENSE = 3000  # points up to which the mode of the process itself is found
RATIO = 0.5  # of one rate to the next, with a norm
LENGTH = 24  # rates tried at most
CLOSE = 0.05  # standard deviations of the posterior by which a rate may change f,
NEAR = 0.07  # and by which all vectors removed may change it together
LAG = 3  # rates between machines compared; neighbours often have the same vectors
UNKNOWN = 1e3  # reported for a distance that is not known yet
LOOSE = (1e-5, 1e-3)  # tolerance in nats, and slack, of machines on the way

FOLD_RATIO = 0.25  # of one rate to the next, without a norm
FOLD_LENGTH = 9  # rates tried at most
ENOUGH = 0.5  # nats that a rate must gain,
PATIENCE = 2  # or so many more are tried,
CROWDED = 0.3  # or one, if vectors are more than this share of the candidates
EQUAL = 0.15  # standard errors by which two losses may differ and count as equal
FOLD_LOOSE = (1e-4, 2e-2)  # tolerance in nats, and slack


class Convex(NamedTuple):
    """A machine of signed weights, its rate, the penalty of the norm and held-out moments."""

    sparse: Sparse
    rate: float
    norm_penalty: float
    held: Held | None


def signed_columns(K: Array, y: Array, candidates: Array) -> Array:
    """Kernel values with candidates times the labels of these rows, and the constant."""
    return np.column_stack([K * y[candidates], np.ones(K.shape[0])])


def convex_model(
    A: Array, y: Array, c: Array, rate: float, Q: Array | None = None, bias: float = FLAT
) -> PenalisedLikelihood:
    """The log posterior; ``Q`` is the norm's matrix, ``lambda y K y``, and ``bias`` a precision."""
    m = A.shape[1] - 1
    t = np.append(np.full(m, rate), 0.0)
    if Q is None:
        return PenalisedLikelihood(A, y, c, t, np.append(np.zeros(m), bias))
    full = np.zeros((m + 1, m + 1))
    full[:-1, :-1], full[-1, -1] = Q, bias
    return PenalisedLikelihood(A, y, c, t, full)


def fit(model: PenalisedLikelihood) -> Sparse:
    """Maximise; with a norm, find the weights again without the rate."""
    x, steps = model.maximise(np.zeros(model.t.size))
    return approximate(model, x, steps) if model.Q.ndim == 1 else relax(model, x, steps)


def relax(model: PenalisedLikelihood, x: Array, steps: int = 0) -> Sparse:
    """The machine of the vectors that have a weight, found again without the rate."""
    x, more = relaxed_weights(model, x)
    return approximate(model.with_rate(0.0), x, steps + more)


def relaxed_weights(model: PenalisedLikelihood, x: Array, tol: float = 1e-9) -> tuple[Array, int]:
    work = np.flatnonzero(np.append(x[:-1] > 0, True))
    out = np.zeros_like(x)
    out[work], steps = model.with_rate(0.0).of(work).newton(x[work], tol)
    return out, steps


def approximate(model: PenalisedLikelihood, x: Array, steps: int = 0) -> Sparse:
    r"""Laplace's approximation at the weights that are not zero.

    The second derivative of a Laplace prior is zero; without a norm, that of the Gaussian in its
    mixture, :math:`\tau/x`, takes its place.
    """
    columns = np.flatnonzero(x[:-1] > 0)
    kept = np.append(columns, x.size - 1)
    part, x = model.of(kept), x[kept]
    value = part.value(x)
    if part.Q.ndim == 1:
        part = replace(part, Q=np.append(part.t[:-1] / x[:-1], part.Q[-1]))
    precision = part.curvature(part.local(part.A @ x).h)
    return Sparse(columns, x, precision, value, [value], steps)


def rate_path(
    model: PenalisedLikelihood, last: float | None, ratio: float, length: int
) -> list[float]:
    """Falling rates, from just above the ``last`` or the largest power of two with a vector."""
    if last is not None:
        first = last / ratio
    else:
        top = largest_rate(model)
        first = 2.0 ** np.floor(np.log2(top)) if top > 0 else 1.0
    return [float(first * ratio**k) for k in range(length)]


def fit_machines(
    kernel: Any,
    data: MergedRows,
    journal: Journal,
    rng: np.random.Generator,
    *,
    amplitude: float | None,
    norm_penalty: float | None,
    last: Sequence[float],
    n_folds: int,
    **how: Any,
) -> tuple[Found, Array, Array]:
    """The machines of all classes, their rates and their penalties of the norm.

    ``amplitude`` is that of the tuned kernel, ``last`` are the rates of an earlier fit; further
    options as in :func:`fit_with_norm`.
    """
    K, found = data.values(kernel), []
    square = K[data.candidates]
    positive = is_positive(kernel, square)
    if norm_penalty and not positive:
        raise ValueError(
            "the kernel matrix is not symmetric and positive, so f has no norm: give "
            f"norm_penalty=0 or another kernel; got norm_penalty={norm_penalty!r}."
        )
    folds: list[Fold] = []
    points, centre = np.empty(0), 0.0
    if norm_penalty == 0 or not positive:
        folds = data.folds(n_folds, rng)
    else:
        chosen = rows_of_all_classes(data.codes[data.candidates], TUNED, rng)
        points = np.unique(data.at[data.candidates[chosen]])
        size = max(float(np.abs(np.diag(square)).mean()), np.finfo(float).tiny)
        centre = SHARPER / (16.0 / size if amplitude is None else amplitude)
    for j, y in enumerate(data.labels):
        how |= {"journal": journal.folder(f"machine{j}"), "last": last[j] if last else None}
        if norm_penalty == 0 or not positive:
            one = fit_without_norm(K, data, y, folds, **how)
        else:
            one = fit_with_norm(K, data, y, norm_penalty, centre, points, **how)
        sign = y[data.candidates[one.sparse.columns]]
        found.append(one._replace(sparse=one.sparse.with_columns_times(sign)))
    sparse, rates, penalties, held = (list(part) for part in zip(*found, strict=True))
    return Found(kernel, sparse, held), np.array(rates), np.array(penalties)


# ----- with a norm


class Path(NamedTuple):
    """Machines of falling rate and their distances from a target."""

    rates: list[float]
    x: list[Array]  # signed weights and the bias
    f: list[Array]  # at the rows
    distances: list[float]
    target: ProcessMode

    def nearest(self) -> int:
        """The first that is close, or else the nearest."""
        good = np.flatnonzero(np.array(self.distances) <= CLOSE)
        return int(good[0]) if good.size else int(np.argmin(self.distances))

    def is_near(self, f: Array) -> bool:
        return self.target.distance(f) <= NEAR

    def within_one_error(self, f: Array) -> bool:
        """Whether the leave-one-out log loss is within a standard error of the nearest's."""
        c, best = self.target.labels.effective, self._losses(self.f[self.nearest()])
        mean = float(c @ best) / float(c.sum())
        bar = float(c @ best) + float(np.sqrt(c @ (best - mean) ** 2))
        return float(c @ self._losses(f)) <= bar

    def _losses(self, f: Array) -> Array:
        m, _ = self.target.leave_one_out(f, self.target.v)
        labels = self.target.labels
        return row_losses(labels.y, m, np.zeros_like(f), labels.effective)


def follow_rates(
    model: PenalisedLikelihood,
    labels: Labels,
    rates: Sequence[float],
    target: ProcessMode | None = None,
    watch: Watch = silent,
) -> Path:
    """Machines from large rates to small until one is close to the target.

    Without a target (where the process would cost too much) the target is the last machine: the
    first that hardly differs from that of a rate eight times as large.
    """
    x, last = np.zeros(model.t.size), target
    used: list[float] = []
    found: list[Array] = []
    made: list[Array] = []
    for number, rate in enumerate(rates, 1):
        x, _ = model.with_rate(rate).maximise(x, *LOOSE)
        free, _ = relaxed_weights(model, x, LOOSE[0])
        used.append(rate)
        found.append(free)
        made.append(model.A @ free)
        if target is None:
            sparse = approximate(model.with_rate(0.0), free)
            v = sparse.moments(model.A[:, :-1])[1]
            last = ProcessMode.of(labels, made[-1], v)
            gap = last.distance(made[-1 - LAG]) if number > LAG else UNKNOWN
        else:
            gap = target.distance(made[-1])
        if watch(Progress("rates", number, len(rates), -gap, gap), None) or gap <= CLOSE:
            break
    assert last is not None  # there is at least one rate
    return Path(used, found, made, [last.distance(f) for f in made], last)


def remove_vectors(A: Array, sparse: Sparse, accept: Callable[[Array], bool]) -> Array:
    """Weights after as many vectors are removed as leave f at the rows acceptable; one is kept.

    ``A`` holds the signed columns of all candidates.  Weights that become negative on the way are
    removed next.  The change of f grows with the number removed, so bisection finds the last that
    is acceptable.
    """
    steps = _removals(A, sparse)

    def too_few(count: int) -> bool:
        on, x = steps[count]
        return not accept(A[:, on] @ x)

    on, x = steps[bisect_left(range(1, len(steps)), True, key=too_few)]
    out = np.zeros(A.shape[1])
    out[on] = x
    return out


def _removals(A: Array, sparse: Sparse) -> list[tuple[Array, Array]]:
    """Columns and coefficients: all, then without one after another, down to one vector."""
    # the bias first, so that a vector to be removed can change places with the last
    on, x = np.append(A.shape[1] - 1, sparse.columns), np.roll(sparse.mean, 1)
    S = np.roll(sparse.covariance().dense(), 1, axis=(0, 1))
    steps = [(on.copy(), x.copy())]
    for k in range(on.size - 1, 1, -1):  # k columns stay, the bias among them
        cost = x[1 : k + 1] * np.abs(x[1 : k + 1]) / np.diag(S)[1 : k + 1]
        pair = [1 + int(np.argmin(cost)), k]
        for part in (on, x, S, S.T):  # rows of S, then its columns
            part[pair] = part[pair[::-1]]
        share = S[:k, k] / S[k, k]
        x[:k] -= share * x[k]
        S[:k, :k] -= np.outer(share, S[k, :k])
        if np.all(x[1:k] >= 0):
            steps.append((on[:k].copy(), x[:k].copy()))
    return steps


def fit_with_norm(
    K: Array,
    data: MergedRows,
    y: Array,
    norm_penalty: float | None,
    centre: float,
    points: Array,
    *,
    rate: float | None,
    last: float | None,
    selection: str = "best",
    bias: float = FLAT,
    journal: Journal = SILENT,
) -> Convex:
    """As few vectors as approximate the Gaussian process.

    ``K`` holds kernel values of rows with candidates.  Without a ``norm_penalty``, leave-one-out
    losses at ``points`` choose it, from ``centre`` on.
    """
    labels = Labels(y, data.c, data.at, int(data.at.max()) + 1, unit=data.unit)
    square, c = K[data.candidates], data.c
    candidate = np.zeros(labels.points, dtype=int)
    candidate[data.at[data.candidates]] = np.arange(data.candidates.size)  # one at each point

    def process(at: Array) -> tuple[Array, Labels]:
        here = candidate[at]
        rows = np.flatnonzero(np.isin(data.at, at))
        return square[np.ix_(here, here)], labels.take(rows)[0]

    if norm_penalty is None:
        norm_penalty = choose_norm_penalty(*process(points), centre, bias, journal)
    whole = np.unique(data.at[data.candidates])
    target = None
    if whole.size == labels.points <= DENSE:
        target = find_process_mode(*process(whole), norm_penalty, bias=bias)
    sign = y[data.candidates]
    Q = norm_penalty * sign[:, None] * square * sign
    model = convex_model(signed_columns(K, y, data.candidates), y, c, 0.0, Q, bias)
    rates = [rate] if rate is not None else rate_path(model, last, RATIO, LENGTH)
    path = follow_rates(model, labels, rates, target, journal)
    k = path.nearest()
    if rate is None:
        accept = path.is_near if selection == "best" else path.within_one_error
        sparse = relax(model, remove_vectors(model.A, approximate(model, path.x[k]), accept))
    else:
        sparse = fit(model.with_rate(rate))
    moments = path.target.leave_one_out(*sparse.moments(model.A[:, :-1]))
    return Convex(sparse, path.rates[k], norm_penalty, (y, *moments, labels.effective))


# ----- without a norm


class Tried(NamedTuple):
    """A rate, its held-out log loss with its standard error, and the coefficients of each fold."""

    rate: float
    loss: float
    error: float
    x: list[Array]


class FoldSearch:
    """Machines of falling rate, each fitted to all folds but one, and their held-out log loss."""

    def __init__(
        self, model: PenalisedLikelihood, folds: Sequence[Fold], journal: Journal = SILENT
    ) -> None:
        self.journal, self.stopped, self.tried = journal, False, list[Tried]()
        self.models, self.columns = list[PenalisedLikelihood](), list[Array]()
        for f in folds:
            part = model.of(np.append(f.keep, model.t.size - 1))
            self.models.append(replace(part, A=part.A[f.rows], y=part.y[f.rows], c=f.left))
            self.columns.append(part.A[f.out])  # of the rows held out
        self.y = np.concatenate([model.y[f.out] for f in folds])
        self.c = np.concatenate([f.held for f in folds])
        self.fold = np.repeat(np.arange(len(folds)), [f.out.size for f in folds])

    def follow(self, rates: Sequence[float], start: list[Array] | None = None) -> None:
        """Fit at falling rates; end early where the loss no longer falls."""
        xs = start or [np.zeros(m.t.size) for m in self.models]
        best, behind = np.inf, 0
        for rate in rates:
            xs = self._fit(rate, xs)
            m = np.concatenate([B @ x for B, x in zip(self.columns, xs, strict=True)])
            losses = self.c * row_losses(self.y, m, np.zeros_like(m), self.c)
            each = np.bincount(self.fold, losses) / np.bincount(self.fold, self.c)
            loss = float(losses.sum())
            error = float(each.std(ddof=1) / np.sqrt(each.size) * self.c.sum())
            self.tried.append(Tried(rate, loss, error, xs))
            number = len(self.tried)
            progress = Progress("folds", number, FOLD_LENGTH + 1, -loss, best - loss)
            self.stopped = self.journal(progress)
            behind = 0 if loss < best - ENOUGH else behind + 1
            best = min(best, loss)
            crowded = any((x > 0).mean() > CROWDED for x in xs)
            if self.stopped or behind >= (1 if crowded else PATIENCE):
                break

    def _fit(self, rate: float, start: list[Array]) -> list[Array]:
        """Coefficients in all folds, from the checkpoint if it has them."""
        key = f"rate{len(self.tried)}"
        held = self.journal.recall(key)
        if not held:
            for k, (model, x) in enumerate(zip(self.models, start, strict=True)):
                held[f"fold{k}"], _ = model.with_rate(rate).maximise(x, *FOLD_LOOSE)
            self.journal.note(key, **held)
        return [held[f"fold{k}"] for k in range(len(start))]

    def choose(self, within: float = EQUAL) -> Tried:
        """The largest rate within so many standard errors of the best."""
        best = min(self.tried, key=lambda one: one.loss)
        good = [one for one in self.tried if one.loss <= best.loss + within * best.error]
        return max(good, key=lambda one: one.rate)

    def held(self, chosen: Tried) -> Held:
        """Moments of f at the held-out rows."""
        parts = []
        for model, B, x in zip(self.models, self.columns, chosen.x, strict=True):
            sparse = approximate(model.with_rate(chosen.rate), x)
            parts.append(sparse.moments(B[:, :-1]))
        m, v = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.y, m, v, self.c


def fit_without_norm(
    K: Array,
    data: MergedRows,
    y: Array,
    folds: Sequence[Fold],
    *,
    rate: float | None,
    last: float | None,
    selection: str,
    bias: float,
    journal: Journal,
) -> Convex:
    """The machine whose rate has the least held-out log loss."""
    model = convex_model(signed_columns(K, y, data.candidates), y, data.c, 0.0, None, bias)
    if not folds:
        rate = 1.0 if rate is None else rate
        return Convex(fit(model.with_rate(rate)), rate, 0.0, None)
    search = FoldSearch(model, folds, journal)
    within = 1.0 if selection == "one_standard_error" else EQUAL
    length = FOLD_LENGTH if last is None else 3
    search.follow([rate] if rate is not None else rate_path(model, last, FOLD_RATIO, length))
    chosen = search.choose(within)
    if rate is None and not search.stopped:  # also the rate between it and the next larger
        search.follow([chosen.rate / FOLD_RATIO**0.5], chosen.x)
        chosen = search.choose(within)
    sparse = fit(model.with_rate(chosen.rate))
    return Convex(sparse, chosen.rate, 0.0, search.held(chosen))
