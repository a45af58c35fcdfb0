r"""A kernel with a smooth and a local part.

.. math::

    k = \sigma^2\big(k_{\mathrm{RBF}}(\ell) + q\,k_{\mathrm{Matern}\,1/2}(\ell_q)\big)

A smooth function that changes over long distances, and a rough one that changes over short ones:
neighbours have more in common than the first can tell.  Where that is not so, the local part costs
log loss, so it must earn its place by evidence, or by the log loss of rows left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Matern, Scaled, SmoothLocal, column_scales
from .evidence import (
    Evidence,
    LabelledPoints,
    Search,
    Summit,
    climb_evidence,
    parameter_prior,
)
from .process import Prior, Site, Sites

POINTS = 1000  # most that judge the local part,
TOGETHER = 4  # in neighbourhoods of so many
LONGER = 2.0  # start of the smooth part's length scale, in units of that found without a local one,
SHORTER = 1.0 / 3.0  # and of the local part's
NATS = 5.0  # evidence that the local part must add,
NATS_LEFT_OUT = 0.5  # or else log loss of rows left out that it must save (tabular fold 0),
ALONE = 0.7  # where points are at least this share of rows: copies of a row tell its label
EVALUATIONS = 15


class Judged(NamedTuple):
    """The best kernels without and with a local part, its evidence, and the points that judged."""

    plain: Scaled
    rough: Scaled
    gain: float
    seen: LabelledPoints

    @property
    def is_open(self) -> bool:
        """Whether rows left out may decide where evidence does not."""
        return self.seen.X.shape[0] >= ALONE * float(self.seen.machines[0].c.sum())


def roughened(kernel: Scaled) -> Scaled:
    """A smooth kernel with a local part, from where a search may start."""
    smooth = kernel.kernel
    scale = np.asarray(smooth.length_scale)
    local = Matern(_given(SHORTER * scale), nu=0.5, groups=smooth.groups)
    longer = replace(smooth, length_scale=_given(LONGER * scale))
    return Scaled(kernel.weight, SmoothLocal(longer, Scaled(1.0, local)))


def _given(scale: Any) -> Any:
    return tuple(scale.tolist()) if np.ndim(scale) else float(scale)


def judge_local(
    kernel: Scaled,
    seen: LabelledPoints,
    site: Site,
    amplitude: float,
    rng: np.random.Generator,
    search: Search,
) -> Judged:
    """Climb the evidence without and with a local part, from the kernel that few points chose."""
    near = seen.neighbourhoods(POINTS, TOGETHER, column_scales(kernel, seen.X.shape[1]), rng)
    digits = near.by_digits()
    sites: list[Sites | None] = [None] * len(digits.machines)

    def climb(kernel: Scaled) -> Summit:
        prior = parameter_prior(kernel, seen.extent, amplitude)
        score = Evidence(Prior(kernel, seen.level), digits, site, prior)
        score.fits.sites = [*sites]
        top = climb_evidence(score, prior, kernel.theta, EVALUATIONS, search)
        sites[:] = score.fits.sites
        return top

    plain = climb(kernel)
    found = kernel.with_theta(plain.theta)
    start = roughened(found)
    if search.stopped:
        return Judged(found, start, -np.inf, near)
    rough = climb(start)
    return Judged(found, start.with_theta(rough.theta), rough.value - plain.value, near)
