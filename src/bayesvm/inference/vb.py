"""Mean-field variational Bayes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..gaussian import posterior
from ..model import Problem
from .loop import Ascent, State, Watch, ascend, silent

THIN_ROWS = 20_000  # below this a full pass is cheaper than arranging a smaller one
THIN_BY = 10


@dataclass(frozen=True)
class VB:
    r"""Mean-field variational Bayes by coordinate ascent.

    With :math:`q(\theta) = N(\mu, \Sigma)` one sweep is

    .. math::

        \Sigma^{-1} = S + E[P], \qquad
        \mu = \mu_{old} + \Sigma\,(g - E[P]\,\mu_{old}),

    followed by the factors of the hyperparameters; *S* and *g* are the sums over rows of
    :mod:`bayesvm.stats` at the old :math:`q(\theta)`.  The bound never falls.  Sweeps are
    extrapolated (SQUAREM) and an extrapolation that would lower the bound is dropped.

    With many rows, the start comes from a random tenth of them; the answer does not depend on it,
    because for fixed hyperparameters the bound is concave.

    Parameters
    ----------
    max_iter : int, default=2000
        Most passes over the data.
    tol : float, default=1e-8
        Stop when a sweep raises the bound by less than this fraction of its size and moves no
        coefficient by more than ``10 * sqrt(tol)`` posterior standard deviations.
    accelerate : bool, default=True
        Extrapolate.  ``False`` gives the printed algorithms, iterate by iterate.
    warm_rows : bool, default=True
        Start on a subset of the rows when there are many.

    References
    ----------
    Luts & Ormerod (2014), Algorithms 1 and 2; Varadhan & Roland (2008) for SQUAREM.
    """

    max_iter: int = 2000
    tol: float = 1e-8
    accelerate: bool = True
    warm_rows: bool = True

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
    ) -> Ascent:
        model = problem.model
        if start is None:
            start = self._start(problem, rng, watch)
        return ascend(
            lambda state: sweep(problem, state),
            model,
            start,
            max_iter=self.max_iter,
            tol=self.tol,
            shift_tol=10.0 * np.sqrt(self.tol),
            accelerate=self.accelerate,
            watch=watch,
            stage="vb",
        )

    def _start(self, problem: Problem, rng: np.random.Generator, watch: Watch) -> State:
        model = problem.model
        keep = problem.n // THIN_BY
        if not self.warm_rows or problem.n < THIN_ROWS or keep < 10 * model.width:
            return State(model.start(), model.init())
        rough = replace(self, tol=max(self.tol, 1e-6))
        return rough.fit(problem.thinned(keep, rng), rng, watch=watch).state


def sweep(problem: Problem, state: State) -> tuple[State, float]:
    """One sweep; also the bound of the state it was given."""
    model, (coef, priors) = problem.model, state
    stats = problem.stats(coef)
    bound = stats.bound + sum(model.each("bound", priors, coef)) + model.entropy(coef)
    if not coef.cov.diag().any():  # the start is a point: its bound is minus infinity
        bound = -np.inf
    product = problem.product(coef) if problem.form == "diagonal" else None
    coef = posterior(stats, model.precision(priors), coef.mean, product)
    return State(coef, tuple(model.each("update", priors, coef))), bound
