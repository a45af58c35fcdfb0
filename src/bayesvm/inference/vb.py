r"""Variational Bayes with a Gaussian posterior of the coefficients.

With :math:`q(\theta) = N(\mu, \Sigma)`, rows :math:`c_i` and :math:`v_i = c_i^\top\Sigma c_i`, the
evidence lower bound (ELBO) is

.. math::

    \sum_i \ell_i(c_i^\top\mu, v_i) + E\log p(\theta \mid P) + H[q] ,

where :math:`\ell_i(m, v)` is the expected log likelihood under :math:`f \sim N(m, v)`, or the
augmented bound of the papers (``bound="augmented"``).  One round of :func:`fit_gaussian` is

1. :math:`\mu \leftarrow \arg\max` of the ELBO at fixed :math:`v_i`, by L-BFGS;
2. :math:`\Sigma^{-1} \leftarrow S + E[P]`, with :math:`S = \sum_i w_i c_i c_i^\top` and
   :math:`w_i = -2\,\partial\ell_i / \partial v_i`;
3. hyperparameters to their fixed point given *S*.

Only step 2 needs a product of matrices over the rows.  :mod:`bayesvm.inference.cavi`
has the papers' algorithm, which also serves selection priors and missing cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ..core.arrays import to_numpy
from ..core.parameters import is_among, require
from ..core.precision import Precision
from ..core.types import Array, Coef
from ..linalg.covariances import blended, covariance
from ..linalg.spike_slab import gated_coef
from .cavi import coordinate_ascent, search_models
from .model import Model, State, States, shift
from .problem import Problem
from .progress import Ascent, Monitor, Progress, Watch, silent

BOUNDS = ("auto", "augmented", "tight")
COVARIANCES = ("auto", "full", "diagonal")


@dataclass(frozen=True)
class VB:
    r"""Mean-field variational Bayes.

    The posterior of the coefficients is Gaussian, :math:`q(\theta) = N(\mu, \Sigma)`, and
    independent of the hyperparameters.  Rounds of three steps maximise the evidence lower bound
    (ELBO): the mean at fixed variances of f by L-BFGS, then the covariance

    .. math:: \Sigma^{-1} = \sum_i w_i c_i c_i^\top + E[P],

    then the hyperparameters.  The ELBO never decreases.  The augmented bound of the papers makes
    posterior standard deviations 20 to 40 % too small; the tight bound is the expected log
    likelihood itself.

    Parameters
    ----------
    max_iter : int, default=2000
        Maximum number of rounds.
    tol : float, default=1e-8
        Stop when further rounds would raise the ELBO by less than this fraction of its size.  Under
        the tight bound coefficients are then within about ``sqrt(tol)`` posterior standard
        deviations of their optimum.
    bound : {"auto", "augmented", "tight"}, default="auto"
        The bound to maximise.  ``"auto"`` is tight for kernel machines, for linear machines whose
        penalty is chosen before the fit and, if the likelihood is normalised, for models with
        groups; otherwise it is augmented.
    covariance : {"auto", "full", "diagonal"}, default="auto"
        Covariance of the coefficients; ``"auto"`` is full if it fits in memory.
    accelerate : bool, default=True
        ``False`` maximises the augmented bound by coordinate ascent exactly as in the papers; not
        available for a diagonal covariance.
    warm_rows : int, default=10
        With many rows, start from a fit to a random subset of this many rows per coefficient (and
        at least 2,000); 0 always starts from zero.  The optimum does not depend on it.

    References
    ----------
    Luts & Ormerod (2014), Algorithms 1 to 3, for coordinate ascent.
    """

    is_tight = False  # set from ``bound``

    max_iter: int = 2000
    tol: float = 1e-8
    bound: str = "auto"
    covariance: str = "auto"
    accelerate: bool = True
    warm_rows: int = 10

    def __post_init__(self) -> None:
        require(self, {"max_iter": 1, "tol": 0.0, "warm_rows": 0})
        for name, words in (("bound", BOUNDS), ("covariance", COVARIANCES)):
            if not is_among(value := vars(self)[name], words):
                known = f"{', '.join(repr(k) for k in words[:-1])} or {words[-1]!r}"
                raise ValueError(f"{name}={value!r} is not known; choose {known}.")
        self.__dict__["is_tight"] = self.bound == "tight"

    def seen(self, likelihood: Any) -> Any:
        """The likelihood with the chosen bound."""
        if self.bound == "auto":
            return likelihood
        return likelihood.tightened(self.is_tight)

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
    ) -> Ascent:
        problem = problem.with_likelihood(self.seen(problem.model.likelihood))
        problem = problem.with_columns_if_small()
        model, options = problem.model, (self.max_iter, self.tol, watch)
        if model.has_gates:
            start = start or search_models(problem, rng, *options)
            return coordinate_ascent(problem, start, *options)
        tight = model.likelihood.is_tight
        if model.is_latent or not (self.accelerate or tight or problem.form == "diagonal"):
            return coordinate_ascent(problem, start or State(model.start(), model.init()), *options)
        rows = max(2000, self.warm_rows * model.width)
        if start is None and self.warm_rows and problem.n >= 8 * rows:
            # the covariance of a fit to a random subset preconditions the fit to all rows
            subset, share = problem.balanced(rows, rng)
            subset = replace(subset, c=subset.c * share)  # weights of the rows they represent
            start = replace(self, tol=max(self.tol, 1e-6)).fit(subset, rng).state
        elif start is None or start.coef.cov.is_point:  # variances of f start at one
            coef, priors, _ = start or State(model.start(), model.init())
            S = problem.expectations(coef, 1.0, gram=True).S
            start = State(Coef(coef.mean, covariance(S, model.precision(priors))), priors)
        return fit_gaussian(problem, start, *options)


# ---------------------------------------------------------------------------------------------
# The engine


def fit_gaussian(
    problem: Problem,
    start: State,
    max_iter: int,
    tol: float,
    watch: Watch = silent,
    rounds: int = 50,
) -> Ascent:
    """Maximise the ELBO over the mean, the covariance and the hyperparameters in turn.

    A new covariance is blended with the old one as long as it would decrease the ELBO.  If the
    covariance is unchanged, updating the hyperparameters cannot decrease the ELBO.
    """
    model, watch = problem.model, Monitor.of(watch)
    run = watch.begin(start) or Ascent(start, -np.inf, [], change=np.inf)
    (coef, priors, _), path, gain, rate = run.state, run.path, run.change, 1.0
    v = problem.row_variance(coef.cov)
    elbo = _elbo(problem, coef, v, priors)
    if not np.isfinite(elbo):
        raise ValueError(
            f"the lower bound (ELBO) is {elbo} at the initial value. Check for extreme weights, "
            "kernel values or prior variances, and bring them nearer to one."
        )
    while run.n_iter < max_iter and not (run.converged or run.stopped):
        P, before, n_iter = model.precision(priors), elbo, run.n_iter + 1
        # in posterior standard deviations; loose while rounds gain more than a nat
        gtol = max(np.sqrt(tol), 1e-10 if gain < 1.0 else 0.01)
        mean = maximise_mean(problem, coef, v, P, gtol)
        sums = problem.expectations(Coef(mean, coef.cov), v, gram=True)
        floor = sums.bound + model.bound(Coef(mean, coef.cov), priors)
        slack = max(1e-11, np.finfo(model.dtype).eps) * max(1.0, abs(floor))
        tried = rate
        while True:
            if rate == 1.0:
                new, new_priors = settle_hyperparameters(
                    model, sums.S, P, Coef(mean, coef.cov), priors, 0.1 * gtol, rounds
                )
            else:
                cov = blended(coef.cov, sums.S, P, rate) if rate > 1e-4 else coef.cov
                new = Coef(mean, cov)
                new_priors = model.update(priors, new)
            v_new = problem.row_variance(new.cov)
            elbo = _elbo(problem, new, v_new, new_priors)
            if elbo >= floor - slack or rate <= 1e-4:
                break
            rate *= 0.5
        if not np.isfinite(elbo):  # keep the last state
            break
        coef, priors, v, last, gain = new, new_priors, v_new, gain, elbo - before
        path.append(elbo)
        # gains decay about geometrically: estimate the sum of all further gains
        share = min(gain / last, 0.99) if 0.0 < last < np.inf else 0.99
        left = gain * share / (1.0 - share) / rate
        converged = bool(left <= tol * max(1.0, abs(elbo))) and gtol <= max(np.sqrt(tol), 1e-10)
        rate = min(1.0, 2.0 * rate) if rate == tried else rate
        state = State(coef, priors)
        stop = watch(Progress("vb", n_iter, max_iter, elbo, gain), state)
        run = Ascent(state, elbo, path, n_iter, converged, gain, stop)
        watch.keep(run)
    watch.keep(run, now=True)
    return run


def maximise_mean(
    problem: Problem, coef: Coef, v: Array | float, P: Precision, gtol: float
) -> Array:
    """The mean at fixed variances of f, by L-BFGS.

    In the coordinates z of :math:`\\mu + Fz`, :math:`FF^\\top = \\Sigma`, the posterior is nearly
    isotropic: the gradient is the distance to the optimum in posterior standard deviations.
    """
    mean, cov = coef

    def objective(z: Array) -> tuple[float, Array]:
        theta = mean + cov.times_root(z)
        sums, gap = problem.expectations(Coef(theta, cov), v), theta - problem.model.prior_mean
        pull = P * gap
        return 0.5 * float(gap @ pull) - sums.bound, -cov.times_root_transposed(sums.g - pull)

    options = {"gtol": gtol, "ftol": 1e-15, "maxiter": 200, "maxcor": 10}
    found = minimize(objective, np.zeros(mean.size), jac=True, method="L-BFGS-B", options=options)
    return mean + cov.times_root(found.x)


def settle_hyperparameters(
    model: Model, S: Any, P: Precision, coef: Coef, priors: States, tol: float, rounds: int = 50
) -> tuple[Coef, States]:
    """Coefficients and hyperparameters at their joint fixed point for given S.

    The log likelihood is approximated by a quadratic of curvature S about the mean, so that the
    mean depends on the prior: :math:`\\mu(P) = \\mu_0 + (S + P)^{-1}(P_0 - P)\\mu_0`.
    """
    mean, cov, Q = coef.mean, covariance(S, P), P
    new = Coef(mean, cov)
    for _ in range(rounds):
        priors, old, last = model.update(priors, new, "fixed_point_update"), new, Q
        Q = model.precision(priors)
        if np.array_equal(Q, last):  # for example if all priors are fixed
            break
        cov = covariance(S, Q)
        new = Coef(mean + cov.solve(P * mean - Q * mean), cov)
        if shift(old, new) < tol and np.allclose(old.cov.diag(), cov.diag(), rtol=tol, atol=0.0):
            break
    return new, model.update(priors, new)


def _elbo(problem: Problem, coef: Coef, v: Array, priors: States) -> float:
    with np.errstate(all="ignore"):
        return float(problem.expectations(coef, v).bound + problem.model.bound(coef, priors))


# ---------------------------------------------------------------------------------------------
# The scale of a likelihood


def scale_sums(
    problem: Problem, coef: Coef, fit: float | None = None
) -> tuple[float, float, float]:
    """Sums over rows of likelihood contributions, mean margin residuals and weights."""
    y, c = map(to_numpy, (problem.y, problem.c))
    lean = float(c @ (1.0 - y * problem.matvec(coef.mean)))
    return problem.expectations(coef).bound if fit is None else fit, lean, float(c.sum())


def learn_scale(
    problem: Problem,
    scheme: Any,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
) -> tuple[Problem, State | None]:
    """Learn the scale of the likelihood; returns the problem with it and an initial state.

    Fits and updates of the scale alternate; neither can decrease the ELBO.
    """
    likelihood: Any = problem.model.likelihood
    if not likelihood.is_learned:
        return problem, start
    inner = scheme if isinstance(scheme, VB) else VB(tol=1e-7)
    for _ in range(inner.max_iter):
        now = problem.with_likelihood(likelihood)
        run = inner.fit(now, rng, start, watch)
        start = run.state
        view = gated_coef(start.coef, now.model.gates(start.priors))
        new = likelihood.update(*scale_sums(replace(now, latents=start.latents), view))
        step = float(np.log(new.scale / likelihood.scale))
        likelihood = new
        if abs(step) < 1e-4 or run.stopped:
            break
    return problem.with_likelihood(likelihood), start
