r"""Evidence of a kernel: the bound of a fit as a function of the kernel's log parameters.

At the optimum of the posterior the gradient of the bound with the posterior fixed equals the total
gradient, so one fit gives both; L-BFGS maximises the bound plus a weak log-normal prior.  Inducing
points may be optimised with the kernel or alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.optimize import minimize

from ..core.types import Array
from ..inference.progress import Monitor, Progress
from ..kernels import column_scales
from .posterior import Process
from .sites import Site, Sites, TrainingData, fit_sites


@dataclass(frozen=True, eq=False)
class LogNormal:
    """Gaussian prior of log parameters; parameters of a set share a common component.

    The covariance of a set of m parameters is ``v I + 1 1'``, whose inverse and root are known.
    """

    mean: Array
    variance: Array  # of each parameter alone
    shared: tuple[Array, ...] = ()  # sets of parameters with a common component of variance one

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Log density up to a constant, and its gradient."""
        gap = theta - self.mean
        slope = -gap / self.variance
        for where in self.shared:
            v = self.variance[where[0]]
            slope[where] += gap[where].sum() / (v * (v + where.size))
        return 0.5 * float(gap @ slope), slope

    def step(self, z: Array) -> Array:
        """Map coordinates with a standard normal prior to steps of the parameters."""
        out: Array = np.sqrt(self.variance) * z
        for where in self.shared:
            v, m = self.variance[where[0]], where.size
            out[where] += (np.sqrt(v + m) - np.sqrt(v)) / m * z[where].sum()
        return out


def is_scale(kernel: Any) -> Array:
    """1 for the parameters that are length scales, else 0."""
    return np.array([n.split("[")[0].endswith("length_scale") for n in kernel.names], float)


def parameter_prior(
    kernel: Any, extent: float, amplitude: float = 16.0, spread: float = 1.5
) -> LogNormal:
    """The prior of a kernel's log parameters, the amplitude first.

    The squared length scales have the prior mean ``extent``, the size of the cloud of points; a
    local component has a fifth of the length scale and the same amplitude; other parameters are
    centred at their current values.  The standard deviation of the logarithms is ``spread``, and 1
    for length scales and for the deviations of columns' length scales from the common one.
    """
    mean = kernel.theta.copy()
    mean[0] = np.log(amplitude)
    mean[[name == "local.weight" for name in kernel.names]] = 0.0
    variance, shared = np.full(mean.size, spread**2), []
    stems = np.array([name.split("[")[0] for name in kernel.names])
    for stem in {s for s in stems if s.endswith("length_scale")}:
        where = np.flatnonzero(stems == stem)
        mean[where] = 0.5 * np.log(extent) - stem.startswith("local.") * np.log(5.0)
        variance[where] = 1.0
        if where.size > 1:
            shared.append(where)
    return LogNormal(mean, variance, tuple(shared))


@dataclass(eq=False)
class Evidence:
    """Bounds of the binary models plus the log prior, with the gradient.

    The ``argument`` has the log parameters of the kernel (none without a prior) and, with
    ``moves``, the inducing points.  Several binary models share rows and precisions, and half of
    their sum counts.  Each evaluation starts at the sites of the previous one.
    """

    process: Process
    data: TrainingData
    site: Site
    prior: LogNormal | None
    tol: float = 1e-5
    moves: bool = False
    sites: Sites | None = None

    @property
    def size(self) -> int:
        """Number of log parameters in the argument."""
        return 0 if self.prior is None else self.process.kernel.theta.size

    def start(self) -> Array:
        """The argument of the current process."""
        theta = self.process.kernel.theta[: self.size]
        return np.append(theta, cast(Array, self.process.Z)) if self.moves else theta

    def at(self, argument: Array) -> Process:
        """The process with the parameters and points of the argument."""
        process, k = self.process, self.size
        if k:
            process = replace(process, kernel=process.kernel.with_theta(argument[:k]))
        if self.moves:
            process = replace(process, Z=argument[k:].reshape(cast(Array, process.Z).shape))
        return process

    def __call__(self, argument: Array) -> tuple[float, Array]:
        at, k = self.at(argument).at(self.data.X), self.size
        fit = fit_sites(at, self.data.labels, self.site, self.sites, self.tol, power=1.0)
        self.sites, share = fit.sites, 1.0 / min(2, fit.M.shape[1])
        value, slope = share * fit.bound, share * at.gradient(fit, self.moves)
        if self.prior is None:  # only the gradient in the points
            return value, slope[self.process.kernel.theta.size :]
        log_prior, prior_slope = self.prior(argument[:k])
        slope[:k] += prior_slope
        return value + log_prior, slope

    def step(self, z: Array) -> Array:
        """Map from coordinates with a unit scale to steps of the argument.

        A unit step is 0.3 length scales of a point, or one prior standard deviation.
        """
        theta = np.empty(0) if self.prior is None else self.prior.step(z[: self.size])
        if not self.moves:
            return theta
        Z = cast(Array, self.process.Z)
        reach = np.tile(column_scales(self.process.kernel, Z.shape[1]), len(Z))
        return np.append(theta, 0.3 * reach * z[self.size :])


def maximise(
    score: Callable[[Array], tuple[float, Array]],
    theta: Array,
    step: Callable[[Array], Array],
    monitor: Monitor,
    evaluations: int = 40,
    small: float = 1e-3,
    stage: str = "kernel",
    farthest: float = 12.0,
) -> tuple[Array, float]:
    """The argument that maximises the score, and the score; stop when a step gains little.

    ``step`` is a symmetric map from coordinates with a standard normal prior to steps of theta, so
    that a length scale shared by many columns moves as easily as the length scale of one column.
    Parameters stay within ``farthest`` of the start.  Every evaluation is reported to ``monitor``,
    which may stop the search.
    """
    unit, best, count = 0.0, (theta, -np.inf), 0

    def minus(z: Array) -> tuple[float, Array]:
        nonlocal unit, best, count
        argument = theta + np.clip(step(z), -farthest, farthest)
        value, slope = score(argument)
        count, gain, slope = count + 1, value - best[1], step(slope)
        best = (argument, value) if gain > 0.0 else best
        if monitor(Progress(stage, count, max(count, evaluations), value, gain), None):
            raise StopIteration
        unit = unit or max(1.0, float(np.linalg.norm(slope)))  # length of the first step
        return -value / unit, -slope / unit

    options = {"maxfun": evaluations, "maxcor": 20, "maxls": 4, "ftol": small, "gtol": 1e-3}
    with suppress(StopIteration):  # by a callback
        minimize(minus, np.zeros(theta.size), jac=True, method="L-BFGS-B", options=options)
    return best
