"""One fitted binary machine: a model, its posterior and its link."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ..core.types import Array, Coef, Rows, Term
from ..gaussian.covariances import Point, covariance
from ..gaussian.gates import seen
from ..inference.draws import Draws, Pair
from ..inference.loop import State
from ..inference.progress import Ascent, Watch, silent
from ..inference.rotated import Basis, Rotation, bases
from ..inference.vb import learned
from ..model.latent import predicted
from ..model.model import Model, Problem
from .calibration import Link, ProbitLink, decisive, fit_link, plain_link
from .diagnostics import indicator_r_hat, r_hat
from .incomplete import by_coef, by_pairs, mixture, with_latents
from .posterior import CURVATURE_EPS, DrawsPosterior, GaussianPosterior, PointPosterior, Posterior

FLAT = 100.0  # posterior variances; a response beyond is the prior's, not that of the rows
CALIBRATION_ROWS = 50_000  # three numbers need no more
JUDGED = 4000  # draws of a chain that are sorted to see whether chains agree
AGREED = 1.1  # largest R-hat at which chains are taken to agree


@dataclass(frozen=True)
class Machine:
    """What a fit leaves behind for one pair of classes.

    ``change`` is the last change of the bound, or the largest R-hat of draws.
    """

    model: Model
    posterior: Posterior
    state: State
    link: Link
    bound: float
    path: list[float]
    n_iter: int
    converged: bool
    change: float = np.nan
    extra: dict[str, Any] = field(default_factory=dict)

    def moments(self, X: Any, rows: Rows | None = None) -> tuple[Array, Array]:
        """Mean and variance of f at new rows, whose columns may be at hand."""
        params = tuple(each and each.params for each in self.state.latents)
        pairs = getattr(self.posterior, "pairs", ())
        if self.model.is_latent and not pairs:
            m, v = by_coef(self.model, X, self.posterior.coef, params)  # type: ignore[attr-defined]
            return m, v + self.absent(X)
        if rows is None:
            rows = predicted(self.model, X, params) if pairs else self.model.rows(X)
        m, v = self.posterior.moments(rows.C)
        m, v = m, v + rows.extra
        if pairs and (some := with_latents(self.model, X)).size:
            m[some], v[some] = mixture(*by_pairs(self.model, X[some], pairs))
        return m, v + self.absent(X)

    def predictors(self, X: Any, thetas: Array, rng: np.random.Generator) -> Array:
        """f at new rows for draws of the coefficients, all else drawn too: ``(draws, n)``."""
        outside = self.absent(X)
        if not self.model.is_latent:
            rows = self.model.rows(X)
            f, outside = np.asarray(rows.C @ thetas.T).T, outside + rows.extra
        else:
            pairs, which = getattr(self.posterior, "pairs", ()), np.arange(len(thetas))
            if pairs:
                which = rng.integers(len(pairs), size=len(thetas))
            else:
                params = tuple(each and each.params for each in self.state.latents)
                pairs = tuple(Pair(theta, params) for theta in thetas)
            m, v = by_pairs(self.model, X, pairs)
            f, outside = m[which], outside + v[which]
        return f + np.sqrt(outside) * rng.standard_normal(f.shape) if np.any(outside) else f

    def quantiles(self, X: Any, levels: tuple[float, ...], rows: Rows | None = None) -> Array:
        """Of f at new rows, ``(levels, n)``; as of a Gaussian where rows have latent entries."""
        if not self.model.is_latent:
            rows = self.model.rows(X) if rows is None else rows
            return self.posterior.quantiles(rows.C, levels, rows.extra + self.absent(X))
        m, v = self.moments(X)
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]

    def spread(self, k: int) -> Array:
        """Expected covariance of a group's effects under term ``k``, ``(r, r)``."""
        term, s = self.model.terms[k], self.state.priors[k]
        held, eye = self.extra.get("draws"), np.eye(term.design.r)
        if held is not None and term.name in held.hyper:
            return covariances(term, held.hyper[term.name]).mean(axis=0)
        return term.prior.spread(s, term.design.width) * (1.0 if term.prior.is_blocked else eye)

    def absent(self, X: Any) -> Array | float:
        """Variance of f outside the coefficients: of groups that were not seen in training, or are
        not given, and of cells that were filled in."""
        total: Array | float = 0.0
        for term, where in zip(self.model.terms, self.model.slices, strict=True):
            cells = term.design.variances(X)
            if cells is not None:
                square = self.posterior.mean[where] ** 2 + self.posterior.variance()[where]
                total = total + cells @ square
        for k in self.model.grouped:
            total = total + self.model.terms[k].design.absent(X, self.spread(k))
        return total

    @property
    def inclusion(self) -> Array | None:
        """Posterior probability of each coefficient not to be zero; ``None`` without selection."""
        held = self.extra.get("draws")
        if held is not None:
            return None if held.inclusion is None else held.inclusion.mean(axis=0)
        return self.model.gates(self.state.priors)

    def sign_proba(self) -> Array:
        """Probability of each coefficient to be positive, if it is not zero."""
        held = self.extra.get("draws")
        if held is None:
            coef = self.state.coef
            return ndtr(coef.mean / np.sqrt(coef.cov.diag()))
        flat = held.theta.reshape(-1, held.theta.shape[-1])
        inside = np.count_nonzero(flat, axis=0)
        with np.errstate(invalid="ignore"):
            return np.where(inside > 0, (flat > 0).sum(axis=0) / inside, 0.5)

    def slab_quantiles(self, levels: tuple[float, ...], chance: Array, where: slice) -> Array:
        """Quantiles of coefficients that are zero but for a ``chance``, ``(levels, p)``.

        A chance of one gives those of the coefficient behind the gate.
        """
        held = self.extra.get("draws")
        q = np.array(levels)[:, None]
        if held is not None:
            flat = held.theta.reshape(-1, held.theta.shape[-1])[:, where]
            draws = np.where(flat == 0, np.nan, flat)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a column never in has none
                return np.nanquantile(draws, levels, axis=0)
        coef = self.state.coef
        mean, sd = coef.mean[where], np.sqrt(coef.cov.diag()[where])
        below = chance * ndtr(-mean / sd)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = mean + sd * ndtri(q / chance)
            right = mean + sd * ndtri((q - (1.0 - chance)) / chance)
        out: Array = np.where(q < below, left, np.where(q <= below + 1.0 - chance, 0.0, right))
        return out

    def proba(self, m: Array, v: Array) -> Array:
        return decisive(self.link.proba(m, v), self.link.score(m, v))


def covariances(term: Term, hyper: Array) -> Array:
    """Covariances of a group's effects from kept draws of their prior's state, ``(m, r, r)``."""
    r = term.design.r
    if term.prior.is_blocked:
        return hyper.reshape(-1, r, r)
    return hyper[..., 0].reshape(-1, 1, 1) * np.eye(r)


def fit_machine(
    problem: Problem,
    scheme: Any,
    probability: str,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
    rotation: tuple[Basis | None, ...] | None = None,
    **options: Any,
) -> Machine:
    """Run a scheme on a problem and fit the link.

    ``rotation`` may be at hand: problems that differ in labels only have the same.
    """
    machine, problem = find_posterior(problem, scheme, rng, start, watch, rotation, **options)
    return replace(machine, link=make_link(machine.posterior, problem, probability))


def find_posterior(
    problem: Problem,
    scheme: Any,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
    rotation: tuple[Basis | None, ...] | None = None,
    **options: Any,
) -> tuple[Machine, Problem]:
    """Run a scheme on a problem, in the columns of its rotation.

    The machine has no link yet; the problem is where it ended.
    """
    turn = Rotation(problem, bases(problem, scheme) if rotation is None else rotation)
    small, watch = turn.small(), turn.watching(watch)
    start = turn.into(start, small)
    if not hasattr(scheme, "draws"):  # a sampler draws what is not known
        small, start = learned(small, scheme, rng, start, watch)
        problem = problem.with_likelihood(small.model.likelihood)
    found = scheme.fit(small, rng, start=start, watch=watch, **options)
    result = turn.back(found, rng)
    if hasattr(result, "theta"):
        problem = result.typical(problem)
        machine = _from_draws(problem, result, disagreement(found))
    else:
        machine = _from_ascent(problem, result)
    return machine, problem.at(machine.state.latents)


def disagreement(draws: Draws) -> float:
    """The largest R-hat; coefficients that no row informs, drawn from their prior, have none."""
    if draws.inclusion is not None:
        # indicators mix slowest; a coefficient that is mostly zero says little by its size
        return float(np.max(indicator_r_hat(draws.theta != 0)))
    return float(np.max(r_hat(draws.theta[:, :: max(1, draws.theta.shape[1] // JUDGED)])))


def _from_draws(problem: Problem, draws: Draws, worst: float) -> Machine:
    return Machine(
        problem.model,
        DrawsPosterior(draws.theta, draws.pairs),
        draws.start,
        ProbitLink(),
        bound=float("nan"),
        path=list(draws.log_prob.mean(axis=0)),
        n_iter=draws.theta.shape[1],
        converged=worst <= AGREED,
        change=worst,
        extra={"draws": draws, "shape": problem.shape},
    )


def _from_ascent(problem: Problem, ascent: Ascent) -> Machine:
    coef, priors = ascent.state.coef, ascent.state.priors
    gate = problem.model.gates(priors)
    post: Posterior = GaussianPosterior(seen(coef, gate), _response(problem, ascent.state, gate))
    extra: dict[str, Any] = {"shape": problem.shape}
    if coef.cov.is_point:
        rough = Coef(coef.mean, Point(coef.mean.size, CURVATURE_EPS))
        P = problem.model.precision(priors)
        post = PointPosterior(coef.mean, covariance(problem.stats(rough).S, P))
        extra["certificate"] = getattr(ascent, "certificate", None)
        extra["dual"] = getattr(ascent, "dual", None)
    return Machine(
        problem.model,
        post,
        ascent.state,
        ProbitLink(),
        ascent.bound,
        ascent.path,
        ascent.n_iter,
        ascent.converged,
        ascent.change,
        extra,
    )


def _response(problem: Problem, state: State, gate: Array | None) -> Any:
    """How the mean follows the slope of a row, where rows have groups: to leave one out."""
    coef, priors = state.coef, state.priors
    if problem.form != "arrow" or gate is not None or coef.cov.is_point:
        return None
    H = problem.at(state.latents).stats(coef, curved=True).H
    try:
        found = covariance(H, problem.model.precision(priors), retry=False)
    except np.linalg.LinAlgError:  # few rows have any curvature
        return None
    # where classes are far apart none has, and along a flat prior the mean would fly away
    return None if np.max(found.diag() / coef.cov.diag()) > FLAT else found


def make_link(post: Posterior, problem: Problem, probability: str) -> Link:
    """The link from f to probabilities, fitted on rows left out if it is to be fitted."""
    plain = plain_link(probability, problem.model.likelihood)
    if plain is not None:
        return plain
    some, share = problem.balanced(CALIBRATION_ROWS, np.random.default_rng(0))
    return fit_link(some.blocks.y, *post.left_out(some), some.blocks.c * share)
