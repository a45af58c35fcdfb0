r"""Kernel parameters from many rows: the bound with inducing points, its gradient row by row.

At the optimum of :math:`q(\theta) = N(\mu, \Sigma)` the gradient in the kernel's parameters is that
at fixed *q*, so rows contribute one by one.  With :math:`c_i = (1, \phi_i)`,
:math:`\phi_i = L^{-1} k_m(x_i)`, slopes :math:`g_i = \partial\ell_i/\partial m_i` and precisions
:math:`w_i = -2\,\partial\ell_i/\partial v_i`,

.. math::

    \bar\phi_i = g_i \mu_\phi + w_i\,(\phi_i - (\Sigma c_i)_\phi), \qquad
    \bar k_{ii} = -\tfrac12 w_i, \qquad \bar K_{nm} = \bar\Phi L^{-1},

and :math:`\bar K_{mm}` follows from :math:`\bar\Phi^\top\Phi`, see :func:`.process.through_factor`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays import like
from ..core.types import Array, Block, Coef
from ..inference.state import State
from ..inference.vb import VB
from ..kernels import Scaled
from ..likelihoods.tight import Tight
from ..model.design_matrix import moments
from ..model.model import Model
from ..model.problem import Problem
from .evidence import Evidence, LogNormal, Search, ascend_evidence, parameter_prior
from .labelled import LabelledPoints
from .matrices import through_factor
from .process import Prior
from .sites import Site
from .whitened import Whitened

EVALUATIONS = 16  # of the bound and its gradient,
SMALL_GAIN = 1e-4  # and relative gain of a step that ends them: there are many more rows than seen
ROWS = 30_000  # that are seen: three times as many gain a tenth of what these do
PASSES = 40  # at most, for each
SETTLED = 1e-6  # relative change of the bound at which a gradient is taken,
SETTLED_SITES = 1e-5  # and gain a row of a pass by sites, each of which makes the mean's best


@dataclass(frozen=True)
class Pull:
    """Sums over rows from which the gradient is made."""

    theta: Array  # through the kernel between rows and points, and of rows with themselves
    cross: Array  # Phi_bar' Phi

    def __add__(self, other: Pull) -> Pull:
        return Pull(self.theta + other.theta, self.cross + other.cross)


def pull_block(model: Model, coef: Coef, block: Block, y: Array, c: Array) -> Pull:
    """The share of a block of rows, made where they are; its last term is the whitened kernel."""
    rows, design = model.held(block), model.terms[-1].design
    local = model.likelihood.expected(y, *moments(rows, coef)).times(c)
    Phi = rows.C[:, 1:]
    through = rows.C @ like(coef.cov.dense()[:, 1:], rows.C)
    bar = local.g[:, None] * like(coef.mean[1:], Phi) + local.w[:, None] * (Phi - through)
    X = design.inputs.columns(block.X)
    to_cross = bar @ like(design.inverse, bar)
    theta = design.kernel.pull(to_cross, X, like(design.Z, X))
    theta = theta + design.kernel.pull_diag(-0.5 * local.w, X)
    return Pull(theta, bar.T @ Phi)


class StreamedEvidence:
    """Bound of all machines as a function of log parameters; each keeps q between calls."""

    def __init__(self, kernel: Scaled, problems: list[Problem], prior: LogNormal) -> None:
        self.kernel, self.problems, self.prior = kernel, problems, prior
        self.states: list[State | None] = [None] * len(problems)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Bound plus log prior, and the gradient."""
        scheme = VB(tol=SETTLED, max_iter=PASSES)
        value, slope = self.prior(theta)
        for j, problem in enumerate(self.problems):
            level, gp = problem.model.terms
            design = Whitened(self.kernel.with_theta(theta), gp.design.Z, gp.design.inputs)
            model = replace(problem.model, terms=(level, gp._replace(design=design)))
            now = problem.replaced(model=model)
            fit = scheme.fit(now.assembled(), np.random.default_rng(0), self.states[j])
            self.states[j], coef = fit.state, fit.state.coef
            pull = now.engine.sum(partial(pull_block, model, coef), now.blocks, now.y, now.c)
            value += fit.bound
            among = through_factor(design.L, pull.cross)
            slope = slope + pull.theta + design.kernel.pull(among, design.Z)
        return value, slope


def refine(
    kernel: Scaled,
    problems: list[Problem],
    extent: float,
    amplitude: float,
    search: Search | None = None,
) -> Scaled:
    """A few ascent steps from a kernel chosen on a sample."""
    prior = parameter_prior(kernel, extent, amplitude)
    return _ascended(kernel, StreamedEvidence(kernel, problems, prior), prior, search)


def refine_sites(
    process: Prior,
    rows: LabelledPoints,
    site: Site,
    amplitude: float,
    search: Search | None = None,
) -> Scaled:
    """The same ascent of the same bound, with q by the sites of rows that are one array."""
    prior = parameter_prior(process.kernel, rows.extent, amplitude)
    score = Evidence(process, rows, site, prior)
    score.fits.tol = SETTLED_SITES
    return _ascended(process.kernel, score, prior, search)


def _ascended(kernel: Scaled, score: Any, prior: LogNormal, search: Search | None) -> Scaled:
    how: dict[str, Any] = {"search": search or Search(), "small": SMALL_GAIN}
    return kernel.with_theta(ascend_evidence(score, prior, kernel.theta, EVALUATIONS, **how).theta)


def guided(problem: Problem, guide: Any) -> Problem:
    """The problem with the guide's likelihood, in full precision."""
    return replace(problem, model=replace(problem.model, likelihood=Tight(guide), dtype="float64"))
