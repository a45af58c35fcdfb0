"""One fitted binary machine: a model, its posterior and its link."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ..core.types import Array, Coef, Rows, Term
from ..inference.design_matrix import latent_variance
from ..inference.draws import Draws, Pair
from ..inference.em import Certificate
from ..inference.latent import predict_rows, rows_with_entries
from ..inference.model import Model
from ..inference.state import State
from ..linalg.columns import plain
from ..linalg.covariances import Point
from .links import CalibratedLink, Link
from .posterior import (
    GaussianPosterior,
    Posterior,
    by_pairs,
    mixture,
)
from .robust_covariance import RobustCovariance


@dataclass(frozen=True)
class Machine:
    """Result of a fit for one pair of classes.

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
    draws: Draws | None = None  # of a sampler
    shape: tuple[str, int] | None = None  # of the problem, see Problem.shape
    certificate: Certificate | None = None  # of the optimality of a mode
    dual: Array | None = None  # variables of a mode
    # covariances of groups' effects, (m, r, r), by term: draws where these were integrated out
    variances: Mapping[str, Array] = field(default_factory=dict)
    # of the data; without it the covariance of the posterior is reported
    width: RobustCovariance | None = None
    effect_scale: float = 1.0  # of effects on probabilities, which a fitted link shrinks

    # ----- f at new rows

    @property
    def params(self) -> tuple[Any, ...]:
        """Parameters of latent entries, one for each term."""
        return tuple(each and each.params for each in self.state.latents)

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.model.terms

    def columns(self, X: Any) -> Rows | None:
        """Columns at new rows; ``None`` where entries are latent."""
        return None if self.model.is_latent else self.model.rows(X)

    def moments(self, X: Any, rows: Rows | None = None) -> tuple[Array, Array]:
        """Mean and variance of f at new rows, whose columns may be given."""
        post = self.posterior
        if self.model.is_latent:
            rows = predict_rows(self.model, X, self.params)
        elif rows is None:
            rows = self.model.rows(X)
        m, v = post.moments(rows.C)
        v = v + rows.extra
        if rows.V and isinstance(post, GaussianPosterior):
            v = v + latent_variance(rows, post.coef)
        elif rows.V:
            some = rows_with_entries(part for h in rows.V for part in h.cells)
            m[some], v[some] = mixture(*by_pairs(self.model, X[some], post.pairs))
        return m, v + self.absent(X)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    @cached_property
    def reported(self) -> Posterior:
        """The posterior as it is reported: with the width of the data, or with the model's."""
        return self.posterior if self.width is None else self.width.posterior(self.posterior)

    @cached_property
    def _of_link(self) -> Posterior:
        """The posterior as it is reported, without what the link corrects."""
        if self.width is None:
            return self.reported
        return self.width.posterior(self.posterior, "link_root")

    def reported_moments(
        self, X: Any, rows: Rows | None = None, moments: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array]:
        """Mean and variance of f at new rows, as they are reported; from moments if known."""
        rows = self.columns(X) if rows is None else rows
        m, v = self.moments(X, rows) if moments is None else moments
        if self.width is None:
            return m, v
        if not self.width.is_factor and rows is not None:
            own, data = self.posterior.moments(rows.C)[1], self.reported.moments(rows.C)[1]
            return m, v - own + data
        rest = self.absent(X)
        if rows is None:
            known = Coef(self.posterior.mean, Point(self.model.width))
            rest = rest + latent_variance(predict_rows(self.model, X, self.params), known)
        return m, rest + self.width.by * (v - rest)

    def band(
        self,
        X: Any,
        tails: tuple[float, float],
        rows: Rows | None = None,
        moments: tuple[Array, Array] | None = None,
        centre: Array | None = None,
    ) -> Array:
        """Log odds at lower end, centre and upper end of an interval, ``(3, n)``.

        With a robust width the centre is the prediction, which averages over f, and the
        uncertainty of the link is added.
        Moments of f, and the log odds there by the link, may be given.
        """
        levels, rows = (tails[0], 0.5, tails[1]), self.columns(X) if rows is None else rows
        m, v = self.moments(X, rows) if moments is None else moments
        f = self.quantiles(X, levels, rows, isinstance(self.link, CalibratedLink), (m, v))
        if self.width is None:
            return self.link.logit(f, np.zeros_like(f))
        low, _, high = self.link.band(f, levels)
        middle = self.link.logit(m, v) if centre is None else centre
        gap = 1e-3 * (high - low)  # the prediction is strictly inside
        return np.stack([np.minimum(low, middle - gap), middle, np.maximum(high, middle + gap)])

    def predictors(self, X: Any, thetas: Array, rng: np.random.Generator) -> Array:
        """f at new rows for draws of the coefficients, with all else drawn: ``(draws, n)``."""
        outside = self.absent(X)
        if not self.model.is_latent:
            rows = self.model.rows(X)
            f, outside = np.asarray(rows.C @ thetas.T).T, outside + rows.extra
        else:
            pairs, which = self.posterior.pairs, np.arange(len(thetas))
            if pairs:
                which = rng.integers(len(pairs), size=len(thetas))
            else:
                params = self.params
                pairs = tuple(Pair(theta, params) for theta in thetas)
            m, v = by_pairs(self.model, X, pairs)
            f, outside = m[which], outside + v[which]
        return f + np.sqrt(outside) * rng.standard_normal(f.shape) if np.any(outside) else f

    def quantiles(
        self,
        X: Any,
        levels: tuple[float, ...],
        rows: Rows | None = None,
        of_link: bool = False,
        moments: tuple[Array, Array] | None = None,
    ) -> Array:
        """Of f at new rows, ``(levels, n)``; those of a Gaussian where entries are latent.

        ``of_link``: without what the link corrects.  ``moments`` of f at the rows, if known.
        """
        if not self.model.is_latent:
            rows = self.model.rows(X) if rows is None else rows
            post: Any = self._of_link if of_link else self.reported
            rest = rows.extra + self.absent(X)
            scaled = self.width is not None and self.width.is_factor and self.draws is None
            if moments is None or not scaled or rows.V:
                return post.quantiles(rows.C, levels, rest)
            m, v = moments
            v = rest + post.scale * np.maximum(v - rest, 0.0)
        else:
            m, v = self.reported_moments(X, None, moments)
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]

    def entries(self, X: Any, k: int) -> tuple[Array, Array]:
        """Columns of term ``k`` at new rows, with latent entries filled in, and their variances."""
        where, count, first, second = self.model.slices[k], 0, np.zeros(()), np.zeros(())
        params = [pair.params for pair in self.posterior.pairs] or [self.params]
        for each in {id(p[k]): p for p in params}.values():  # chains may share one
            rows = predict_rows(self.model, X, each)
            C = plain(rows.C)[:, where]
            count, first, second = count + 1, first + C, second + C * C
            for part in (part for h in rows.V if h.where == where for part in h.cells):
                assert part.cov is not None
                var = np.diagonal(part.cov, axis1=1, axis2=2)
                second[part.rows[:, None], part.columns] += var
        mean = first / count
        return mean, np.maximum(second / count - mean**2, 0.0)

    def absent(self, X: Any) -> Array | float:
        """Variance of f from groups not seen in training, and from entries that were filled in."""
        total: Array | float = 0.0
        for term, where in zip(self.model.terms, self.model.slices, strict=True):
            cells = term.design.variances(X)
            if cells is not None:
                square = self.posterior.mean[where] ** 2 + self.posterior.variance()[where]
                total = total + cells @ square
        for k in self.model.grouped:
            total = total + self.model.terms[k].design.absent(X, self.spread(k))
        return total

    # ----- coefficients

    def spread(self, k: int) -> Array:
        """Expected covariance of a group's effects under term ``k``, ``(r, r)``."""
        term, held = self.model.terms[k], self.draws
        if held is not None and term.name in held.hyper:
            return covariances(term, held.hyper[term.name]).mean(axis=0)
        if term.name in self.variances:
            return np.asarray(self.variances[term.name].mean(axis=0))
        out = term.prior.spread(self.state.priors[k], term.design.width)
        return np.asarray(out if np.ndim(out) else out * np.eye(term.design.r))

    @property
    def inclusion(self) -> Array | None:
        """Posterior probability of each coefficient not to be zero; ``None`` without selection."""
        if self.draws is None:
            return self.model.gates(self.state.priors)
        chance = self.draws.inclusion
        return None if chance is None else chance.mean(axis=0)

    def sign_proba(self) -> Array:
        """Probability of each coefficient to be positive, if it is not zero."""
        if self.draws is None:
            coef = self.state.coef
            return ndtr(coef.mean / np.sqrt(coef.cov.diag()))
        flat = self.draws.theta.reshape(-1, self.draws.theta.shape[-1])
        inside = np.count_nonzero(flat, axis=0)
        with np.errstate(invalid="ignore"):
            return np.where(inside > 0, (flat > 0).sum(axis=0) / inside, 0.5)

    def slab_quantiles(self, levels: tuple[float, ...], chance: Array, where: slice) -> Array:
        """Quantiles of coefficients that are not zero with probability ``chance``, ``(levels, p)``.

        A probability of one gives those of the coefficient behind the gate.
        """
        if self.draws is not None:
            flat = self.draws.theta.reshape(-1, self.draws.theta.shape[-1])[:, where]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a column never included has none
                return np.nanquantile(np.where(flat == 0, np.nan, flat), levels, axis=0)
        coef, q = self.state.coef, np.array(levels)[:, None]
        mean, sd = coef.mean[where], np.sqrt(coef.cov.diag()[where])
        below = chance * ndtr(-mean / sd)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = mean + sd * ndtri(q / chance)
            right = mean + sd * ndtri((q - (1.0 - chance)) / chance)
        out: Array = np.where(q < below, left, np.where(q <= below + 1.0 - chance, 0.0, right))
        return out


def covariances(term: Term, hyper: Array) -> Array:
    """Covariances of a group's effects from kept draws of their prior's state, ``(m, r, r)``."""
    r = term.design.r
    if term.prior.is_blocked:
        return hyper.reshape(-1, r, r)
    return hyper[..., 0].reshape(-1, 1, 1) * np.eye(r)
