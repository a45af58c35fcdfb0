r"""The kernel of a Gaussian process classifier: one search for its parameters.

1. Maximise the evidence in length scale and amplitude, from several starts on a subset of rows.
2. A length scale for each column, kept if it adds enough evidence.
3. A local component, :math:`k = \sigma^2(k(\ell) + q\,k_{\mathrm{Matern}\,1/2}(\ell_q))`, kept if
   it adds enough evidence on rows together with their nearest neighbours.
4. For likelihoods that are not normalised, the evidence does not determine the amplitude, nor the
   scale with many columns: both are chosen by the log loss of cross-validation.

The evidence uses the likelihood of the fit, or the logistic likelihood if that is not normalised.
The search is deterministic and does not depend on the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from ..core.types import Array
from ..inference.progress import Monitor, Progress, Watch, silent
from ..kernels import Matern, Scaled, SmoothLocal, column_scales, with_columns
from ..likelihoods import Logistic
from ..predictive.leave_one_out import effective
from ..predictive.links import CalibratedLink, SoftmaxLink
from .evidence import Evidence, LogNormal, is_scale, maximise, parameter_prior
from .posterior import ExactProcess, Process
from .sites import Site, Sites, TrainingData, fit_sites


@dataclass(frozen=True)
class KernelSearch:
    """Settings of the kernel search, including its cost.

    Parameters
    ----------
    rows : int, default=1000
        Number of rows for the exact evidence: a step takes time proportional to their cube.  If
        there are more than ten times as many rows, a tenth is used, up to twice this number.
    first_rows : int, default=400
        Number of rows in the first maximisation.
    start_scales, start_amplitudes : tuple of float
        Starting points beside the kernel itself, all pairs: length scales in units of the size of
        the cloud of points, amplitudes in units of their prior mean.
    nats : float, default=4.0
        Evidence that a local component, or length scales of the columns, must add; length scales
        must add one more nat each.
    judge_rows : int, default=600
        Number of rows that cross-validation predicts.
    amplitudes, factors : tuple of float
        Factors of the amplitude with most evidence, and of the length scales, in the order in which
        cross-validation tries them while the log loss decreases.
    amplitude_spread, factor_spread : float
        Standard deviations of the logarithms of the amplitude, about one, and of the factor of the
        length scales, in a Gaussian penalty of the log loss: f has about the size of the margin,
        and length scales stay near the evidence's.
    folds : int, default=10
        Number of cross-validation folds.
    """

    rows: int = 1000
    first_rows: int = 400
    start_scales: tuple[float, ...] = (0.25, 1.0, 4.0)
    start_amplitudes: tuple[float, ...] = (1.0, 16.0, 256.0, 4096.0)
    nats: float = 4.0
    judge_rows: int = 600
    amplitudes: tuple[float, ...] = (1.0, 0.25, 0.0625, 0.015625, 0.00390625)
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
    watch: Watch = silent,
) -> Scaled:
    """The kernel with learned parameters.

    ``likelihood`` is the likelihood of the final fit.  ``per_column`` allows a length scale for
    each column, and ``local`` a local component.
    """
    monitor, p = Monitor.of(watch), data.X.shape[1]
    guide = likelihood if likelihood.normalised else Logistic()
    everything = data.search_data()
    small = everything.subset(search.first_rows)
    large = everything.subset(max(search.rows, min(2 * search.rows, len(data.X) // 10)))

    def evidence(kernel: Scaled, rows: TrainingData) -> Evidence:
        prior = parameter_prior(kernel, data.extent)
        return Evidence(Process(kernel, data.intercept_variance), rows, guide.tight, prior, 1e-4)

    def ascend(kernel: Scaled, rows: TrainingData, most: int = 40) -> tuple[Scaled, float]:
        if monitor.stopped:
            return kernel, -np.inf
        score = evidence(kernel, rows)
        theta, value = maximise(score, kernel.theta, score.step, monitor, most)
        return kernel.with_theta(theta), value

    # 1. Length scale and amplitude.  The evidence has a second maximum where f is nearly constant;
    # the search can end there unless it starts at the best point of a coarse grid.
    starts = [kernel, *grid_of_starts(kernel, parameter_prior(kernel, data.extent), search)]
    best = max(starts, key=lambda start: evidence(start, small)(start.theta)[0])
    kernel, value = ascend(best, small)
    if large is not small:
        kernel, value = ascend(kernel, large)

    # 2. A length scale for each column.  Start at half the common scale: at a long one the
    # gradients of relevant and irrelevant columns are alike.
    start = with_columns(kernel, p)
    count = int(is_scale(start).sum())
    if per_column and count > 1:
        start = start.with_theta(start.theta - np.log(2.0) * is_scale(start))
        with_scales, scales_value = ascend(start, large)
        if scales_value - value > max(search.nats, count - 1.0):
            kernel, value = with_scales, scales_value

    # 3. A local component, compared on rows together with their nearest neighbours.
    if local:
        neighbourhoods = everything.neighbourhoods(search.rows, 4, column_scales(kernel, p))
        if neighbourhoods is not large:
            value = ascend(kernel, neighbourhoods, 15)[1]
        with_local, local_value = ascend(add_local_part(kernel), neighbourhoods, 15)
        if local_value - value > search.nats:
            kernel = with_local

    # 4. The amplitude, and a factor of the length scales.
    if likelihood.normalised or monitor.stopped:
        return kernel
    return cross_validate(kernel, data, likelihood, search, monitor)


def grid_of_starts(kernel: Scaled, prior: LogNormal, search: KernelSearch) -> list[Scaled]:
    """The kernel with all pairs of a length scale and an amplitude, in units of the prior's means.

    Other parameters keep their values.
    """
    scales = is_scale(kernel)
    pairs = product(search.start_scales if scales.any() else (1.0,), search.start_amplitudes)
    starts = []
    for scale, amplitude in pairs:
        theta = np.where(scales > 0.0, prior.mean + np.log(scale), kernel.theta)
        theta[0] = prior.mean[0] + np.log(amplitude)
        starts.append(kernel.with_theta(theta))
    return starts


def add_local_part(kernel: Scaled) -> Scaled:
    """The kernel with doubled length scales, plus a rough component with a third of them."""
    smooth, scale = kernel.kernel, np.asarray(kernel.kernel.length_scale)
    longer = replace(smooth, length_scale=(2.0 * scale).tolist())
    rough = Matern((scale / 3.0).tolist(), nu=0.5, groups=smooth.groups)
    return Scaled(kernel.weight, SmoothLocal(longer, Scaled(1.0, rough)))


# ---------------------------------------------------------------------------------------------
# Cross-validation


def cross_validate(
    kernel: Scaled, data: TrainingData, likelihood: Any, search: KernelSearch, watch: Watch = silent
) -> Scaled:
    """The kernel whose amplitude and length-scale factor minimise the cross-validated log loss.

    Amplitudes, factors and again amplitudes are tried in order while the loss decreases.
    """
    monitor, scales = Monitor.of(watch), is_scale(kernel)
    score = FoldLoss(data.subset(search.judge_rows), likelihood.tight, search.folds)
    grid = search.amplitudes, search.factors if scales.any() else (1.0,)
    most = len(grid[0]) + len(grid[1])
    at, best, least, count = (0, 0), kernel, np.inf, 0
    for axis in (0, 1, 0):
        while True:
            step = at if count == 0 else (at[0] + (axis == 0), at[1] + (axis == 1))
            if step[axis] == len(grid[axis]):
                break
            log_amplitude, log_factor = np.log(grid[0][step[0]]), np.log(grid[1][step[1]])
            theta = kernel.theta + log_factor * scales
            theta[0] += log_amplitude
            gaps = theta[0] / search.amplitude_spread, log_factor / search.factor_spread
            candidate = kernel.with_theta(theta)
            loss = score(candidate) + 0.5 * float(np.square(gaps).sum())
            gain, count = least - loss, count + 1
            if gain > 0.0:
                at, best, least = step, candidate, loss
            if monitor(Progress("amplitude", count, max(count, most), -loss, gain), None):
                return best
            if gain <= 0.0:
                break
    return best


class FoldLoss:
    """Cross-validated log loss of a kernel; copies of a row are in the same fold."""

    def __init__(self, data: TrainingData, site: Site, folds: int) -> None:
        self.data, self.site, labels = data, site, data.labels
        left_out = fold_weights(labels.c / labels.unit, data.codes, folds)
        self.test_weights = np.minimum((left_out.T * labels.unit).T, labels.c[:, None])
        self.starts: list[Sites | None] = [None] * folds

    def __call__(self, kernel: Any) -> float:
        labels, codes, parts = self.data.labels, self.data.codes, []
        K = ExactProcess.of(kernel, self.data.X, self.data.intercept_variance).K
        for k, test_weight in enumerate(self.test_weights.T):
            train_weight = labels.c - test_weight
            train_rows = np.flatnonzero(train_weight > 1e-9 * labels.c)
            test_rows = np.flatnonzero(test_weight > 0.0)
            train, train_points = replace(labels, c=train_weight).take(train_rows)
            process = ExactProcess(K[np.ix_(train_points, train_points)])
            fit = fit_sites(process, train, self.site, self.starts[k], 5e-4)
            self.starts[k] = fit.sites
            cross = K[np.ix_(labels.at[test_rows], train_points)]
            m, v = cross @ fit.A, fit.posterior.predict(cross, np.diag(K)[labels.at[test_rows]])
            v = np.tile(v[:, None], m.shape[1])
            parts.append((test_rows, m, v, test_weight[test_rows]))
        rows, m, v, c = (np.concatenate(part) for part in zip(*parts, strict=True))
        c = effective(c, labels.unit if isinstance(labels.unit, float) else labels.unit[rows])
        if m.shape[1] == 1:
            return CalibratedLink.fit(labels.Y[rows, 0], m[:, 0], v[:, 0], c).loss
        return SoftmaxLink.fit(codes[rows], m, v, c).loss


def fold_weights(units: Array, codes: Array, folds: int) -> Array:
    """Number of units of each row that every fold leaves out, ``(rows, folds)``.

    Each class is split as evenly as possible; the larger folds of one class are followed by those
    of the next.  The folds are deterministic.
    """
    order = np.random.default_rng(0).permutation(units.size)
    offset = np.empty(units.size, dtype=int)
    offset[order[np.argsort(codes[order], kind="stable")]] = np.arange(units.size)
    whole = np.floor(units / folds)
    rank = (np.arange(folds) - offset[:, None]) % folds
    return whole[:, None] + np.clip((units - folds * whole)[:, None] - rank, 0.0, 1.0)
