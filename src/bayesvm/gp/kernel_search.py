r"""The kernel of a Gaussian process classifier: one search for its parameters.

1. Length scale and amplitude of most evidence, from the best of several starts on some rows.
2. A length scale for each column, kept if it adds enough evidence.
3. A local part, :math:`k = \sigma^2(k(\ell) + q\,k_{\mathrm{Matern}\,1/2}(\ell_q))`, kept if it
   adds enough evidence where rows have their neighbours.
4. For likelihoods that are not normalised, whose evidence says nothing of the amplitude, and with
   many columns too little of the scale: both by the log loss of cross-validation.

Evidence is that of the likelihood of the fit, or of the logistic where that is not normalised.  The
search depends on the data alone, whatever the order of their rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ..core.types import Array
from ..kernels import Matern, Scaled, SmoothLocal, column_scales, with_columns
from ..likelihoods import Logistic
from ..predictive.leave_one_out import effective
from ..predictive.links import CalibratedLink, SoftmaxLink
from .evidence import Evidence, Reporter, SearchEnded, is_scale, maximise, parameter_prior
from .posterior import ExactProcess, Process
from .sites import Site, Sites, TrainingData, fit_sites


@dataclass(frozen=True)
class KernelSearch:
    """The search for a kernel, and what it may cost.

    Parameters
    ----------
    rows : int, default=1000
        Rows whose evidence decides, exactly: a step takes time proportional to their cube.  Of more
        than ten times as many rows a tenth is used, up to twice this number.
    first_rows : int, default=400
        Rows of the first ascent.
    start_scales, start_amplitudes : tuple of float
        Starts of the first ascent beside the kernel itself, all pairs: length scales in units of
        the size of the cloud of points, amplitudes in units of their prior mean.
    nats : float, default=4.0
        Evidence that a local part, and length scales of the columns, must add; these also one nat
        for each of them.
    judge_rows : int, default=600
        Rows that cross-validation predicts.
    amplitudes, factors : tuple of float
        Amplitudes in units of that of most evidence, and factors of the length scales, in the order
        in which cross-validation tries them while the log loss falls.
    amplitude_spread, factor_spread : float
        Standard deviations of the logarithms of amplitude and factor about zero, by which the log
        loss is penalised: f is of the size of the margin, length scales are those of the evidence.
    folds : int, default=10
        Folds of cross-validation.
    """

    rows: int = 1000
    first_rows: int = 400
    start_scales: tuple[float, ...] = (0.25, 1.0, 4.0)
    start_amplitudes: tuple[float, ...] = (1.0, 16.0, 256.0, 4096.0)
    nats: float = 4.0
    judge_rows: int = 600
    amplitudes: tuple[float, ...] = (0.25, 0.0625, 0.015625, 0.00390625)
    factors: tuple[float, ...] = (1.0, 0.7, 0.5, 0.35)
    amplitude_spread: float = 1.5
    factor_spread: float = 0.4
    folds: int = 10


def search_kernel(
    kernel: Scaled,
    data: TrainingData,
    likelihood: Any,
    search: KernelSearch,
    per_column: bool = False,
    local: bool = False,
    reporter: Reporter | None = None,
) -> Scaled:
    """The kernel with its parameters learned.

    ``likelihood`` is that of the fit to come.  Columns may have length scales of their own with
    ``per_column``, and the kernel a local part with ``local``.
    """
    reporter = reporter or Reporter()
    guide = likelihood if likelihood.normalised else Logistic()
    whole, p = data.search_data(), data.X.shape[1]
    few = whole.subset(search.first_rows)
    many = whole.subset(max(search.rows, min(2 * search.rows, len(data.X) // 10)))

    def evidence(kernel: Scaled, rows: TrainingData, tol: float = 1e-4) -> Evidence:
        prior = parameter_prior(kernel, data.extent)
        return Evidence(Process(kernel, data.level), rows, guide.tight, prior, tol)

    def ascend(kernel: Scaled, rows: TrainingData, most: int = 40) -> tuple[Scaled, float]:
        if reporter.stopped:
            return kernel, -np.inf
        score = evidence(kernel, rows)
        theta, value = maximise(score, kernel.theta, score.step, reporter, most)
        return kernel.with_theta(theta), value

    # From a common start the search stays where f is zero, if f bends little in many columns.
    scales, amplitude = is_scale(kernel), np.arange(kernel.theta.size) == 0
    centre = np.where(
        scales + amplitude > 0, parameter_prior(kernel, data.extent).mean, kernel.theta
    )
    factors = product(search.start_scales if scales.any() else (1.0,), search.start_amplitudes)
    steps = [np.log(scale) * scales + np.log(size) * amplitude for scale, size in factors]
    starts = [kernel, *(kernel.with_theta(centre + step) for step in steps)]
    best = max(starts, key=lambda start: evidence(start, few, 1e-3)(start.theta)[0])
    found, value = ascend(best, few)
    if many is not few:
        found, value = ascend(found, many)

    own = with_columns(found, p)
    count = int(is_scale(own).sum())
    if per_column and count > 1:
        # from a long common scale the columns along which f bends look as idle as the rest
        own, more = ascend(own.with_theta(own.theta - np.log(2.0) * is_scale(own)), many)
        if more - value > max(search.nats, count - 1.0):
            found, value = own, more

    if local:
        near = whole.neighbourhoods(search.rows, 4, column_scales(found, p))
        smooth = found.kernel
        scale = np.asarray(smooth.length_scale)
        rough = Matern((scale / 3.0).tolist(), nu=0.5, groups=smooth.groups)
        longer = replace(smooth, length_scale=(2.0 * scale).tolist())
        both = Scaled(found.weight, SmoothLocal(longer, Scaled(1.0, rough)))
        value = value if near is many else ascend(found, near, 15)[1]
        both, more = ascend(both, near, 15)
        found = both if more - value > search.nats else found

    if likelihood.normalised or reporter.stopped:
        return found
    return cross_validate(found, data, likelihood, search, reporter)


# ---------------------------------------------------------------------------------------------
# Cross-validation


def cross_validate(
    kernel: Scaled, data: TrainingData, likelihood: Any, search: KernelSearch, reporter: Reporter
) -> Scaled:
    """The kernel with the amplitude and the factor of its length scales of least log loss.

    Amplitudes are tried in their order while the loss falls; with the next factor from the best of
    the last on.
    """
    score = FoldLoss(data.subset(search.judge_rows), likelihood.tight, search.folds)
    scales, count, first = is_scale(kernel), 0, 0
    factors = search.factors if scales.any() else (1.0,)
    best, least = kernel, np.inf
    with suppress(SearchEnded):
        for factor in factors:
            lowest, start = np.inf, first
            for k in range(start, len(search.amplitudes)):
                theta = kernel.theta + np.log(factor) * scales
                theta[0] += np.log(search.amplitudes[k])
                gap = theta[0] / search.amplitude_spread, np.log(factor) / search.factor_spread
                loss = score(kernel.with_theta(theta)) + 0.5 * float(np.square(gap).sum())
                gain, count = least - loss, count + 1
                best, least = (kernel.with_theta(theta), loss) if gain > 0.0 else (best, least)
                most = len(factors) * len(search.amplitudes)
                reporter.report("amplitude", count, most, -loss, gain)
                if loss >= lowest:
                    break
                lowest, first = loss, k
            if lowest > least:
                break
    return best


class FoldLoss:
    """Log loss of rows left out by folds, copies of a row together, for kernels."""

    def __init__(self, data: TrainingData, site: Site, folds: int) -> None:
        self.data, self.site, labels = data, site, data.labels
        out = fold_weights(labels.c / labels.unit, data.codes, folds)
        self.out = np.minimum((out.T * labels.unit).T, labels.c[:, None])
        self.starts: list[Sites | None] = [None] * folds

    def __call__(self, kernel: Any) -> float:
        labels, codes, pool = self.data.labels, self.data.codes, []
        K = ExactProcess.of(kernel, self.data.X, self.data.level).K
        for k, out in enumerate(self.out.T):
            left = labels.c - out
            kept, test = np.flatnonzero(left > 1e-9 * labels.c), np.flatnonzero(out > 0.0)
            train, points = replace(labels, c=left).take(kept)
            process = ExactProcess(K[np.ix_(points, points)])
            fit = fit_sites(process, train, self.site, self.starts[k], 5e-4)
            self.starts[k] = fit.sites
            cross = K[np.ix_(labels.at[test], points)]
            v = fit.posterior.predict(cross, np.diag(K)[labels.at[test]])
            pool.append((test, cross @ fit.A, np.tile(v[:, None], fit.A.shape[1]), out[test]))
        rows, m, v, c = (np.concatenate(part) for part in zip(*pool, strict=True))
        c = effective(c, labels.unit if isinstance(labels.unit, float) else labels.unit[rows])
        if m.shape[1] == 1:
            return CalibratedLink.fit(labels.Y[rows, 0], m[:, 0], v[:, 0], c).loss
        return SoftmaxLink.fit(codes[rows], m, v, c).loss


def fold_weights(units: Array, codes: Array, folds: int) -> Array:
    """How many of the units of each row every fold leaves out, ``(rows, folds)``.

    Every class has equal parts in the folds, as far as it can; the parts of the next begin where
    those of one end.  The same data give the same folds.
    """
    order = np.random.default_rng(0).permutation(units.size)
    offset = np.empty(units.size, dtype=int)
    offset[order[np.argsort(codes[order], kind="stable")]] = np.arange(units.size)
    whole = np.floor(units / folds)
    rank = (np.arange(folds) - offset[:, None]) % folds
    return whole[:, None] + np.clip((units - folds * whole)[:, None] - rank, 0.0, 1.0)
