r"""The variance of a ridge, chosen by leave-one-out predictions.

1. A variance :math:`\sigma_0^2` by the evidence of a normalised likelihood: that of the model, or
   the logistic one in place of a pseudo-likelihood, whose evidence is no guide.
2. For each factor *k* of a short grid the posterior under the variance :math:`\sigma_0^2 / k`, the
   moments of f at each row left out, in closed form, and the log loss of a link fitted to them.
   The factor of least loss is chosen, with a weak prior about 4.

The link has a slope of its own, so that the direction of the coefficients is chosen rather than
their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import Serial
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.state import State
from ..inference.vb import VB
from ..likelihoods import Logistic
from ..priors import Fixed, Prior, Ridge
from .leave_one_out import effective, masses
from .links import CalibratedLink
from .posterior import GaussianPosterior


def select_ridge(
    problem: Problem,
    factors: Sequence[float] = (4.0**-6, 0.25, 1.0, 4.0, 16.0, 64.0),
    rows_per_coefficient: int = 10,
) -> tuple[Problem, State | None]:
    """The problem with the variances of its open ridges chosen, and a state to start from.

    The state is ``None`` if only a subset of the rows has chosen.

    At most ``rows_per_coefficient`` rows for each coefficient (and at least 2,000) choose.  The
    first factor, almost without a penalty, is for columns with outliers, which need a coefficient
    of dozens; it is tried where the rarer class has that many rows.
    """
    some = _subset(problem, max(2000, rows_per_coefficient * problem.model.width))
    rng = np.random.default_rng(0)
    likelihood = some.model.likelihood
    guide = likelihood if likelihood.normalised else Logistic()
    weight = effective(some.c, some.unit)  # class weights are not more rows
    opened = with_ridges(some.with_likelihood(guide), [Ridge()] * some.model.width)
    opened = replace(opened, c=weight)
    state = VB(bound="augmented", tol=1e-6).fit(opened, rng).state
    pairs = zip(some.model.terms, state.priors, strict=True)
    evidence = [s.variance for t, s in pairs if t.prior.is_open]
    if masses(some.y, some.copies).min() <= rows_per_coefficient * some.model.width:
        factors = factors[1:]
    best = (np.inf, some, state)
    for k in sorted(factors, key=lambda k: abs(np.log(k / 4.0))):  # neighbours start each other
        one = with_ridges(some, [Fixed(k / v) for v in evidence])
        one = one.with_likelihood(likelihood.tightened())
        state = VB(bound="tight", tol=1e-4).fit(one, rng, State(state.coef, one.model.init())).state
        m, v = GaussianPosterior(state.coef).left_out(one)
        loss = CalibratedLink.fit(some.y, m, v, weight).loss
        loss += min(0.5 * np.log(k / 4.0) ** 2, 5.0)
        best = min(best, (loss, one, state), key=lambda x: x[0])
    _, one, state = best
    return with_priors(problem, one.model), state if some.n == problem.n else None


def with_ridges(problem: Problem, priors: Sequence[Prior]) -> Problem:
    """The problem with other priors in place of open ones, in their order."""
    each = iter(priors)
    terms = (t._replace(prior=next(each)) if t.prior.is_open else t for t in problem.model.terms)
    return replace(problem, model=replace(problem.model, terms=tuple(terms)))


def with_priors(problem: Problem, like: Model) -> Problem:
    """The problem with the priors of a model of the same terms."""
    pairs = zip(problem.model.terms, like.terms, strict=True)
    terms = tuple(term._replace(prior=other.prior) for term, other in pairs)
    return replace(problem, model=replace(problem.model, terms=terms))


def _subset(problem: Problem, most: int) -> Problem:
    """At most so many rows on the host, of both labels.

    Rows of the label that is thinned less count once, those of the other as often as keeps the
    share of the labels.
    """
    some, share = problem.balanced(most, np.random.default_rng(0))
    engine: Any = problem.engine if problem.is_held else Serial()
    model = replace(some.model, dtype="float64")
    some = some.replaced(model=model, engine=engine, c=some.c * (share / share.min()))
    return some if some.blocks.ready else some.assembled()
