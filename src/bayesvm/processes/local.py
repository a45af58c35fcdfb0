r"""A kernel with a smooth and a local part.

.. math::

    k = \sigma^2\big(k_{\mathrm{RBF}}(\ell) + q\,k_{\mathrm{Matern}\,1/2}(\ell_q)\big)

A smooth function that changes over long distances, and a rough one that changes over short ones:
neighbours have more in common than the first can tell.  Where that is not so, the local part costs
log loss, so it must add evidence to be kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..kernels import Matern, Scaled, SmoothLocal, column_scales
from .evidence import (
    Evidence,
    LabelledPoints,
    Search,
    climb_evidence,
    parameter_prior,
)
from .process import Prior, Site, Sites

FEW = 400  # points of two classes that may show that there is no local part.  By the priors of its
# parameters the evidence of rows that know nothing of one is 2.1 to 5.3 nats lower (12 fits); of
# rows that all together earn one it was 1.1 lower at most (10 fits).  Of several classes few points
# may miss one: 3.6 lower where all have 67 nats for it
NONE = -2.0
POINTS = 1000  # most that judge it else,
TOGETHER = 4  # in neighbourhoods of so many
LONGER = 2.0  # start of the smooth part's length scale, in units of that found without a local one,
SHORTER = 1.0 / 3.0  # and of the local part's
NATS = 5.0  # evidence that the local part must add (tabular fold 0)
EVALUATIONS = 15

Found = tuple[Scaled, float]  # a kernel and its evidence


def roughened(kernel: Scaled) -> Scaled:
    """A smooth kernel with a local part, from where a search may start."""
    smooth = kernel.kernel
    scale = np.asarray(smooth.length_scale)
    local = Matern(_given(SHORTER * scale), nu=0.5, groups=smooth.groups)
    longer = replace(smooth, length_scale=_given(LONGER * scale))
    return Scaled(kernel.weight, SmoothLocal(longer, Scaled(1.0, local)))


def _given(scale: Any) -> Any:
    return tuple(scale.tolist()) if np.ndim(scale) else float(scale)


def earned(kernel: Scaled, plain: Found, rough: Found) -> Scaled:
    """The kernel with a local part if that adds enough evidence, else the kernel as it is."""
    return rough[0] if rough[1] - plain[1] > NATS else kernel


def judge_local(
    kernel: Scaled,
    seen: LabelledPoints,
    site: Site,
    amplitude: float,
    rng: np.random.Generator,
    search: Search,
) -> tuple[Found, Found]:
    """Climb the evidence without and with a local part, from the kernel that few points chose.

    Few of two classes are looked at first; all are unless these show that there is no local part.
    """
    reach = column_scales(kernel, seen.X.shape[1])
    near = seen.neighbourhoods(POINTS, TOGETHER, reach, rng)
    few = near
    if len(near.machines) == 1:
        few = near.neighbourhoods(FEW, TOGETHER, reach, np.random.default_rng(0))

    def climb(kernel: Scaled, part: LabelledPoints, sites: list[Sites | None]) -> Found:
        prior = parameter_prior(kernel, seen.extent, amplitude)
        score = Evidence(Prior(kernel, seen.level), part, site, prior)
        score.fits.sites = [*sites]
        top = climb_evidence(score, prior, kernel.theta, EVALUATIONS, search)
        sites[:] = score.fits.sites
        return kernel.with_theta(top.theta), top.value

    for part in (few, near):
        digits = part.by_digits()
        sites: list[Sites | None] = [None] * len(digits.machines)
        plain = climb(kernel, digits, sites)
        rough = roughened(plain[0]), -np.inf
        if search.stopped:
            break
        rough = climb(rough[0], digits, sites)
        if part is near or search.stopped or rough[1] - plain[1] < NONE:
            break
    return plain, rough
