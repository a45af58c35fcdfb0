r"""The kernel of a Gaussian process classifier: one search for its parameters.

1. Length scale and amplitude of most evidence, from several starts on a few rows, the best of them
   on more rows; then a length scale for each column, kept if it adds enough evidence.
2. A local part, kept if it adds evidence where rows have their neighbours.
3. For likelihoods that are not normalised, whose evidence says nothing of the amplitude: amplitude
   and a common factor of the length scales by the log loss of cross-validation.

Evidence is that of the likelihood of the fit, or of the logistic where that is not normalised.  The
search depends on the data alone.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ..core.types import Array
from ..inference.progress import Watch, silent
from ..kernels import Matern, Scaled, SmoothLocal, column_scales, with_columns
from ..likelihoods import Logistic
from ..predictive.leave_one_out import effective
from ..predictive.links import CalibratedLink, SoftmaxLink
from .data import TrainingData
from .evidence import Ended, Evidence, Reporter, is_scale, maximise, parameter_prior
from .posterior import ExactProcess, Process
from .sites import Site, Sites, fit_sites


@dataclass(frozen=True)
class KernelSearch:
    """The search for a kernel, and what it may cost.

    Parameters
    ----------
    rows : int, default=1000
        Rows whose evidence decides, exactly: a step takes time proportional to their cube.  Of more
        than ten times as many rows a tenth is used, up to twice this number.
    first_rows : int, default=400
        Rows on which the first ascents are made.
    scales, amplitudes : tuple of float
        First length scales, in units of the size of the cloud of points, and first amplitudes; the
        best two pairs by evidence are maximised.
    nats : float, default=4.0
        Evidence that a local part, and length scales of the columns, must add; these also one nat
        for each of them.
    judge_rows : int, default=800
        Rows that cross-validation predicts.
    judge_amplitudes, judge_factors : tuple of float
        The grid of cross-validation: amplitudes in units of that of most evidence, and factors of
        the length scales.
    amplitude_spread, factor_spread : float
        Standard deviations of the logarithms of amplitude and factor about zero, by which the log
        loss is penalised: f is of the size of the margin, length scales are those of the evidence.
    folds : int, default=5
        Folds of cross-validation.
    """

    rows: int = 1000
    first_rows: int = 400
    scales: tuple[float, ...] = (0.25, 1.0, 4.0)
    amplitudes: tuple[float, ...] = (4.0, 64.0, 1024.0)
    nats: float = 4.0
    judge_rows: int = 800
    judge_amplitudes: tuple[float, ...] = (1.0, 0.25, 0.0625, 0.015625, 0.00390625)
    judge_factors: tuple[float, ...] = (1.0, 0.7, 0.5)
    amplitude_spread: float = 1.5
    factor_spread: float = 0.5
    folds: int = 5


def search_kernel(
    kernel: Scaled,
    data: TrainingData,
    likelihood: Any,
    search: KernelSearch,
    per_column: bool = False,
    local: bool = False,
    watch: Watch = silent,
) -> Scaled:
    """The kernel with its parameters learned.

    Parameters
    ----------
    kernel : Scaled
        Kernel to start from.
    data : TrainingData
        Points and labels.
    likelihood : Likelihood
        Likelihood of the fit to come.
    search : KernelSearch
        What the search may cost.
    per_column : bool
        Whether columns may have length scales of their own.
    local : bool
        Whether the kernel may have a local part.
    watch : callable
        Told of every evaluation; may end the search with the best kernel so far.
    """
    reporter = Reporter(watch)
    guide = likelihood if likelihood.normalised else Logistic()
    found = maximise_evidence(kernel, data, guide, search, per_column, reporter)
    if local and not reporter.stopped:
        found = with_local_part(found, data, guide, search, reporter)
    if likelihood.normalised or reporter.stopped:
        return found
    grid = (search.judge_amplitudes, search.judge_factors)
    return cross_validate(found, data, likelihood, *grid, search, reporter)


def ascend(
    kernel: Scaled,
    data: TrainingData,
    site: Site,
    reporter: Reporter,
    evaluations: int = 40,
) -> tuple[Scaled, float]:
    """The kernel at the nearest maximum of the evidence of some rows, and its value there."""
    prior = parameter_prior(kernel, data.extent)
    score = Evidence(Process(kernel, data.level), data, site, prior, 1e-4)
    top = maximise(score, kernel.theta, prior.step, reporter, evaluations)
    return kernel.with_theta(top.theta), top.value


def starts(kernel: Scaled, data: TrainingData, site: Site, search: KernelSearch) -> list[Scaled]:
    """First kernels, those of most evidence first, and the kernel given."""
    prior = parameter_prior(kernel, data.extent)
    score = Evidence(Process(kernel, data.level), data, site, prior, 1e-3)
    scales, each = is_scale(kernel) > 0, list[tuple[float, int, Scaled]]()
    for amplitude in search.amplitudes:
        for scale in search.scales if scales.any() else (1.0,):
            theta = kernel.theta.copy()
            theta[0] = np.log(amplitude)
            theta[scales] = np.log(scale) + prior.mean[scales]
            fit = score.fit(theta)
            value = score.share * fit.bound + prior(theta)[0]
            each.append((value, len(each), kernel.with_theta(theta)))
    return [kernel for _, _, kernel in sorted(each, reverse=True)]


def maximise_evidence(
    kernel: Scaled,
    data: TrainingData,
    guide: Any,
    search: KernelSearch,
    per_column: bool = False,
    reporter: Reporter | None = None,
) -> Scaled:
    """The kernel of most evidence, with a length scale a column if that has clearly more."""
    site, reporter = guide.tight, reporter or Reporter()
    whole = data.search_data()
    most = max(search.rows, min(2 * search.rows, data.n // 10))
    few, many = whole.subset(search.first_rows), whole.subset(most)
    tops = [ascend(k, few, site, reporter) for k in starts(kernel, few, site, search)[:2]]
    common, value = max(tops, key=lambda top: top[1])
    if many is not few:
        common, value = ascend(common, many, site, reporter)
    wide = with_columns(common, data.X.shape[1])
    count = int(is_scale(wide).sum())
    if not per_column or count < 2 or reporter.stopped:
        return common
    # from a long common scale the columns along which f bends look as idle as the rest
    shorter = wide.with_theta(wide.theta - np.log(2.0) * is_scale(wide))
    own, more = ascend(shorter, many, site, reporter)
    return own if more - value > max(search.nats, count - 1.0) else common


def with_local_part(
    kernel: Scaled, data: TrainingData, guide: Any, search: KernelSearch, reporter: Reporter
) -> Scaled:
    r"""The kernel with a local part if that adds evidence among neighbours, else as it is.

    .. math::

        k = \sigma^2\big(k(\ell) + q\,k_{\mathrm{Matern}\,1/2}(\ell_q)\big)
    """
    near = data.search_data().neighbourhoods(search.rows, 4, column_scales(kernel, data.X.shape[1]))
    smooth = kernel.kernel
    scale = np.asarray(smooth.length_scale)
    longer, shorter = (
        tuple(x.tolist()) if np.ndim(x) else float(x) for x in (2.0 * scale, scale / 3.0)
    )
    rough = Scaled(1.0, Matern(shorter, nu=0.5, groups=smooth.groups))
    both = Scaled(kernel.weight, SmoothLocal(replace(smooth, length_scale=longer), rough))
    _, plain = ascend(kernel, near, guide.tight, reporter, 15)
    found, value = ascend(both, near, guide.tight, reporter, 15)
    return found if value - plain > search.nats else kernel


# ---------------------------------------------------------------------------------------------
# Cross-validation


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


class FoldLoss:
    """Log loss of rows left out by folds, copies of a row together, for kernels."""

    def __init__(self, data: TrainingData, site: Site, folds: int) -> None:
        self.data, self.site, labels = data, site, data.labels
        out = fold_weights(labels.c / labels.unit, data.codes, folds)
        self.out = np.minimum((out.T * labels.unit).T, labels.c[:, None])
        self.starts: list[Sites | None] = [None] * folds

    def __call__(self, kernel: Any) -> float:
        K, labels, pool = (
            ExactProcess.of(kernel, self.data.X, self.data.level).K,
            self.data.labels,
            [],
        )
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
        return SoftmaxLink.fit(self.data.codes[rows], m, v, c).loss


def cross_validate(
    kernel: Scaled,
    data: TrainingData,
    likelihood: Any,
    amplitudes: tuple[float, ...],
    factors: tuple[float, ...],
    search: KernelSearch,
    reporter: Reporter | None = None,
) -> Scaled:
    """The kernel with the amplitude and the factor of its length scales of least log loss."""
    score = FoldLoss(data.subset(search.judge_rows), likelihood.tight, search.folds)
    scales, reporter = is_scale(kernel), reporter or Reporter()
    best, least = kernel, np.inf
    grid = list(product(factors if scales.any() else (1.0,), amplitudes))
    with suppress(Ended):
        for count, (factor, amplitude) in enumerate(grid):
            theta = kernel.theta + np.log(factor) * scales
            theta[0] += np.log(amplitude)
            tried = kernel.with_theta(theta)
            gap = theta[0] / search.amplitude_spread, np.log(factor) / search.factor_spread
            loss = score(tried) + 0.5 * float(np.square(gap).sum())
            gain = least - loss
            best, least = (tried, loss) if gain > 0.0 else (best, least)
            reporter.report("amplitude", count + 1, len(grid), -loss, gain)
    return best
