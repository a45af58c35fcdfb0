r"""The prior variance of coefficients, chosen by leave-one-out log loss.

If the variance of a prior is open (``Ridge(select=True)``), it is chosen before the fit:

1. :math:`\sigma_0^2` maximises the evidence of the likelihood if it is normalised, else of the
   logistic likelihood, because the evidence of a pseudo-likelihood is not informative.
2. For each factor *k* of a grid, the posterior with prior variance :math:`\sigma_0^2 / k` gives
   leave-one-out moments of f in closed form, and a link is fitted to them.  The factor with the
   lowest log loss is chosen, with a weak prior centred at 4.

The link has its own slope, so the loss depends on the direction of the coefficients rather than on
their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..data import Serial
from ..inference import VB
from ..inference.model import State
from ..inference.problem import Problem
from ..likelihoods import Logistic
from ..priors import Fixed, Prior, Ridge
from .leave_one_out import effective, masses
from .links import CalibratedLink
from .posterior import GaussianPosterior


def select_ridge(
    problem: Problem,
    factors: Sequence[float] = (4.0**-6, 0.25, 1.0, 4.0, 16.0, 64.0),
    rows_per_coefficient: int = 10,
) -> tuple[tuple[Prior, ...], State | None]:
    """Priors of all terms with chosen variances, and an initial state.

    At most ``rows_per_coefficient`` rows per coefficient (and at least 2,000) are used; if these
    are not all rows there is no initial state.  The first factor, nearly without a penalty, is for
    columns with outliers, which may need large coefficients; it is tried if the rarer class has
    that many rows.
    """
    rows = rows_per_coefficient * problem.model.width
    subset = _balanced_subset(problem, max(2000, rows))
    weight = effective(subset.c, subset.unit)  # class weights do not count as additional rows
    model, likelihood, rng = subset.model, subset.model.likelihood, np.random.default_rng(0)

    normalised = likelihood if likelihood.normalised else Logistic()
    learned = [Ridge() if prior.is_open else prior for prior in model.priors]
    model = replace(model.with_priors(learned), likelihood=normalised)
    evidence = VB(bound="augmented", tol=1e-6)
    state = evidence.fit(replace(subset, model=model, c=weight), rng).state
    learned_states = state.priors

    if masses(subset.y, subset.copies).min() <= rows:
        factors = factors[1:]
    least, best, best_state = np.inf, problem.model.priors, state
    for k in sorted(factors, key=lambda k: abs(np.log(k / 4.0))):  # warm starts between neighbours
        pairs = zip(subset.model.priors, learned_states, strict=True)
        priors = tuple(Fixed(k / s.variance) if prior.is_open else prior for prior, s in pairs)
        model = replace(subset.model.with_priors(priors), likelihood=likelihood.tightened())
        trial = replace(subset, model=model)
        state = VB(bound="tight", tol=1e-4).fit(trial, rng, State(state.coef, model.init())).state
        m, v = GaussianPosterior(state.coef).left_out(trial)
        loss = CalibratedLink.fit(subset.y, m, v, weight).loss
        loss += min(0.5 * np.log(k / 4.0) ** 2, 5.0)
        if loss < least:
            least, best, best_state = loss, priors, state
    return best, best_state if subset.n == problem.n else None


def _balanced_subset(problem: Problem, rows: int) -> Problem:
    """At most ``rows`` rows in memory, half of each label if possible, reweighted accordingly."""
    subset, share = problem.balanced(rows, np.random.default_rng(0))
    engine = problem.engine
    if engine.on_device or not problem.blocks.in_memory:
        engine = Serial()
    subset = replace(
        subset,
        model=replace(subset.model, dtype="float64"),
        engine=engine,
        c=subset.c * (share / share.min()),  # rows of the subsampled label count once
    )
    return subset if subset.blocks.ready else subset.assembled()
