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
    ROUGHLY,
    TOL,
    Evidence,
    Search,
    WarmFits,
    ascend_evidence,
    is_scale,
    parameter_prior,
)
from .labelled import LabelledPoints
from .matrices import signs_of, square
from .process import Gram, Prior
from .quick import fit_one
from .sites import Site, Sites

FEW = 400  # points of two classes that may show that there is no local part
POINTS = 1000  # most that judge it else,
TOGETHER = 4  # in neighbourhoods of so many
LONGER = 2.0  # start of the smooth part's length scale, in units of that found without a local one,
SHORTER = 1.0 / 3.0  # and of the local part's
NATS = 5.0  # evidence that the local part must add (tabular fold 0)
EVALUATIONS = 15
# Standard deviations of its slope by which the evidence of few points, and of more, must rise with
# a local part for one to be tried.  Where one was kept, few have 2.1 at least and more 1.7 (15
# fits to wine-quality, artificial-characters and simulated rows of two classes), waveforms, which
# have none, 1.4 at most (40 draws); of several classes 0.5, so those are maximised in any case
HINT = 1.5
PROBES = 32  # columns of signs from which that deviation is estimated
STEP = 1e-3  # of a logarithm, for a difference

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


def with_local_part(kernel: Scaled, plain: Found, rough: Found) -> Scaled:
    """The kernel with a local part if that adds enough evidence, else the kernel as it is."""
    return rough[0] if rough[1] - plain[1] > NATS else kernel


def hinted(kernel: Scaled, seen: LabelledPoints, site: Site) -> float:
    r"""Slope of the evidence in the weight of a local part at none, in standard deviations.

    Of two classes.  With G the gradient in the kernel matrix and :math:`P = (K + W^{-1})^{-1}`, the
    slope in the weight of a matrix L is :math:`\langle G, L\rangle`, and its information with
    another :math:`\tfrac12\mathrm{tr}(PLPL')`, estimated from columns of signs.  What amplitude and
    length scale would do as well is taken away (the efficient score): the kernel need not be at the
    top.
    """
    process = Prior(kernel, seen.level).at(seen.X)
    assert isinstance(process, Gram)
    fits = WarmFits(seen.machines, site, ROUGHLY * TOL, fit_one)(process)
    longer = kernel.with_theta(kernel.theta + STEP * is_scale(kernel))
    local = kernel.weight * roughened(kernel).kernel.right.kernel(seen.X)
    K, G, fit = process.values, process.gradient(fits), fits[0]
    parts = [local, K, (longer(seen.X) - K) / STEP]
    root = fit.R * np.sqrt(fit.sites.w[fit.on]).astype(fit.R.dtype)
    some = root.T @ signs_of(len(root), PROBES).astype(root.dtype)
    each = np.stack([(root @ (L[square(fit.on, L)] @ some)).ravel() for L in parts])
    info = each @ each.T * (0.5 / PROBES)
    slope = np.array([np.vdot(G, L) for L in parts])
    by = np.linalg.lstsq(info[1:, 1:], info[1:, 0], rcond=None)[0]
    spread = info[0, 0] - by @ info[1:, 0]
    return float((slope[0] - by @ slope[1:]) / np.sqrt(max(spread, 1e-3 * info[0, 0], 1e-300)))


def judge_local(
    kernel: Scaled,
    seen: LabelledPoints,
    site: Site,
    amplitude: float,
    rng: np.random.Generator,
    search: Search,
) -> tuple[Found, Found]:
    """Maximise the evidence without and with a local part, from the kernel that few points chose.

    Of two classes that is done where the slope of the evidence hints at one.
    """
    reach, near = column_scales(kernel, seen.X.shape[1]), seen
    # one draw in any case: those that follow do not depend on what is found
    centres = seen.some(POINTS // TOGETHER, rng) if len(seen.X) > POINTS else None
    for most in (FEW, POINTS) if len(seen.machines) == 1 else (POINTS,):
        near = seen
        if most == FEW:
            near = seen.neighbourhoods(FEW, TOGETHER, reach, np.random.default_rng(0))
        elif centres is not None:
            near = seen.around(centres, TOGETHER, reach)
        near = near.by_digits()
        if len(near.machines) == 1 and hinted(kernel, near, site) < HINT:
            return (kernel, 0.0), (kernel, -np.inf)
    sites: list[Sites | None] = [None] * len(near.machines)

    def ascend(kernel: Scaled) -> Found:
        prior = parameter_prior(kernel, seen.extent, amplitude)
        score = Evidence(Prior(kernel, seen.level), near, site, prior)
        score.fits.sites = [*sites]
        top = ascend_evidence(score, prior, kernel.theta, EVALUATIONS, search)
        sites[:] = score.fits.sites
        return kernel.with_theta(top.theta), top.value

    plain = ascend(kernel)
    rough = roughened(plain[0])
    return plain, (rough, -np.inf) if search.stopped else ascend(rough)
