"""Results of a fit: a binary model for each class (one for two classes), and predictions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import expit, ndtr, ndtri, softmax

from ..core.types import Array, Coef, Rows, Term
from ..inference.draws import Draws, Pair
from ..inference.latent import predict_rows, rows_with_entries
from ..inference.model import Model
from ..inference.problem import latent_variance
from ..inference.progress import Ascent
from ..linalg.columns import plain
from ..linalg.covariances import Point
from .diagnostics import r_hat_of
from .leave_one_out import Extrapolation, LooMoments, LooPredictions
from .links import (
    CalibratedLink,
    ClassLink,
    Link,
    SeparateLinks,
    class_bands,
    class_odds,
    floored,
    unseen_rate,
)
from .posterior import HELD, GaussianPosterior, Posterior, by_pairs, mixture
from .robust_covariance import RobustCovariance

DRAWS = 2000  # approximate number of joint draws of several classes for an interval


@dataclass(frozen=True)
class BinaryModel:
    """Result of a fit of one binary classification, or of a regression."""

    model: Model
    posterior: Posterior
    ascent: Ascent  # its state is a State; of draws, the change is the largest R-hat
    link: Link
    draws: Draws | None = None  # from a sampler
    warm_start_key: tuple[str, int] | None = None  # of the problem, see Problem.warm_start_key
    # covariances of random effects, (m, r, r), by term: draws if the effects were integrated out
    variances: Mapping[str, Array] = field(default_factory=dict)
    # None: report the posterior covariance
    robust_covariance: RobustCovariance | None = None
    effect_scale: float = 1.0  # corrects effects for the shrinkage of a fitted link

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    @property
    def params(self) -> tuple[Any, ...]:
        """Parameters of latent entries, for each term."""
        return tuple(each and each.params for each in self.ascent.state.latents)

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.model.terms

    @cached_property
    def reported(self) -> Posterior:
        """The posterior with its robust covariance, if any."""
        robust = self.robust_covariance
        return self.posterior if robust is None else robust.posterior(self.posterior)

    @property
    def coefficients(self) -> Posterior:
        """The posterior that summaries of coefficients report: see :mod:`.robust_covariance`."""
        robust = self.robust_covariance
        if robust is None or robust.coef is None:
            return self.reported
        return GaussianPosterior(robust.coef)

    # ----- f at new rows

    def columns(self, X: Any) -> Rows:
        """Design matrix at new rows."""
        if self.model.is_latent:
            return predict_rows(self.model, X, self.params)
        return self.model.rows(X)

    def moments(self, X: Any, rows: Rows | None = None) -> tuple[Array, Array]:
        """Mean and variance of f at new rows; ``rows`` is their design matrix, if known."""
        post, rows = self.posterior, self.columns(X) if rows is None else rows
        m, v = post.moments(rows.C)
        v = v + rows.extra
        if rows.V and isinstance(post, GaussianPosterior):
            v = v + latent_variance(rows, post.coef)
        elif rows.V:
            filled = rows_with_entries(part for h in rows.V for part in h.cells)
            m[filled], v[filled] = mixture(*by_pairs(self.model, X[filled], post.pairs))
        return m, v + self.absent(X)

    def reported_moments(self, X: Any, rows: Rows | None = None) -> tuple[Array, Array]:
        """Mean and variance of f at new rows, with the robust covariance."""
        rows, robust = self.columns(X) if rows is None else rows, self.robust_covariance
        m, v = self.moments(X, rows)
        if robust is None:
            return m, v
        if robust.root is not None:
            plain, reported = (p.moments(rows.C)[1] for p in (self.posterior, self.reported))
            return m, v - plain + reported
        residual = self.absent(X)  # also of latent entries, with coefficients at their means
        if self.model.is_latent:
            coef = Coef(self.posterior.mean, Point(self.model.width))
            residual = residual + latent_variance(rows, coef)
        return m, residual + robust.variance_factor * (v - residual)

    def quantiles(
        self, X: Any, levels: tuple[float, ...], rows: Rows | None = None, of_link: bool = False
    ) -> Array:
        """Quantiles of f at new rows, ``(levels, n)``; Gaussian if entries are latent.

        ``of_link``: without the directions that the link corrects.
        """
        rows, post = self.columns(X) if rows is None else rows, self.reported
        if self.model.is_latent:
            m, v = self.reported_moments(X, rows)
            return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]
        if of_link and self.robust_covariance is not None:
            post = self.robust_covariance.posterior(self.posterior, "link_root")
        return post.quantiles(rows.C, levels, rows.extra + self.absent(X))

    def band(self, X: Any, levels: tuple[float, float, float], rows: Rows | None = None) -> Array:
        """Log odds at the lower end, centre and upper end of an interval, ``(3, n)``.

        With a robust covariance the centre is the prediction, which averages over f, and the
        interval includes the uncertainty of the link.
        """
        f = self.quantiles(X, levels, rows, isinstance(self.link, CalibratedLink))
        if self.robust_covariance is None:
            return self.link.logit(f, np.zeros_like(f))
        low, _, high = self.link.band(f, levels)
        middle = self.link.logit(*self.moments(X, rows))
        gap = 1e-3 * (high - low)  # the prediction is strictly inside
        return np.stack([np.minimum(low, middle - gap), middle, np.maximum(high, middle + gap)])

    def predictors(self, X: Any, thetas: Array, rng: np.random.Generator) -> Array:
        """f at new rows for draws of coefficients and latent variables: ``(draws, n)``."""
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

    def absent(self, X: Any) -> Array | float:
        """Variance of f from groups not seen in training, and from imputed entries."""
        total: Array | float = 0.0
        for term, where in zip(self.model.terms, self.model.slices, strict=True):
            cells = term.design.variances(X)
            if cells is not None:
                square = self.posterior.mean[where] ** 2 + self.posterior.variance()[where]
                total = total + cells @ square
        for k in self.model.grouped:
            total = total + self.model.terms[k].design.absent(X, self.spread(k))
        return total

    def entries(self, X: Any, k: int) -> tuple[Array, Array]:
        """Columns of term ``k`` at new rows, with latent entries imputed, and their variances."""
        where, count, first, second = self.model.slices[k], 0, np.zeros(()), np.zeros(())
        params = [pair.params for pair in self.posterior.pairs] or [self.params]
        for each in {id(p[k]): p for p in params}.values():  # chains may share parameters
            rows = predict_rows(self.model, X, each)
            C = plain(rows.C)[:, where]
            count, first, second = count + 1, first + C, second + C * C
            for part in (part for h in rows.V if h.where == where for part in h.cells):
                assert part.cov is not None
                var = np.diagonal(part.cov, axis1=1, axis2=2)
                second[part.rows[:, None], part.columns] += var
        mean = first / count
        return mean, np.maximum(second / count - mean**2, 0.0)

    # ----- coefficients

    def drawn_covariances(self, k: int) -> Array | None:
        """Draws of the covariance of random effects under term ``k``, ``(m, r, r)``, if any."""
        term = self.model.terms[k]
        if self.draws is not None and term.name in self.draws.hyper:
            return covariances(term, self.draws.hyper[term.name])
        return self.variances.get(term.name)

    def spread(self, k: int) -> Array:
        """Expected covariance of random effects under term ``k``, ``(r, r)``."""
        term, drawn = self.model.terms[k], self.drawn_covariances(k)
        if drawn is not None:
            return drawn.mean(axis=0)
        out = term.prior.spread(self.ascent.state.priors[k], term.design.width)
        return np.asarray(out if np.ndim(out) else out * np.eye(term.design.r))

    @property
    def inclusion(self) -> Array | None:
        """Posterior inclusion probability of each coefficient; ``None`` without selection."""
        if self.draws is None:
            return self.model.gates(self.ascent.state.priors)
        chance = self.draws.inclusion
        return None if chance is None else chance.mean(axis=0)

    def sign_proba(self) -> Array:
        """Probability of a positive sign of each coefficient, given that it is not zero."""
        if self.draws is None:
            coef = self.ascent.state.coef
            return ndtr(coef.mean / np.sqrt(coef.cov.diag()))
        flat = self.draws.theta.reshape(-1, self.draws.theta.shape[-1])
        inside = np.count_nonzero(flat, axis=0)
        with np.errstate(invalid="ignore"):
            return np.where(inside > 0, (flat > 0).sum(axis=0) / inside, 0.5)

    def slab_quantiles(self, levels: tuple[float, ...], chance: Array, where: slice) -> Array:
        """Quantiles of coefficients with inclusion probability ``chance``, ``(levels, p)``.

        A probability of one gives the quantiles given inclusion.
        """
        if self.draws is not None:
            flat = self.draws.theta.reshape(-1, self.draws.theta.shape[-1])[:, where]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # never included: no draws
                return np.nanquantile(np.where(flat == 0, np.nan, flat), levels, axis=0)
        coef, q = self.ascent.state.coef, np.array(levels)[:, None]
        mean, sd = coef.mean[where], np.sqrt(coef.cov.diag()[where])
        below = chance * ndtr(-mean / sd)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = mean + sd * ndtri(q / chance)
            right = mean + sd * ndtri((q - (1.0 - chance)) / chance)
        return np.where(q < below, left, np.where(q <= below + 1.0 - chance, 0.0, right))


def covariances(term: Term, hyper: Array) -> Array:
    """Covariances of random effects from stored draws of their prior's state, ``(m, r, r)``."""
    r = term.design.r
    if term.prior.is_blocked:
        return hyper.reshape(-1, r, r)
    return hyper[..., 0].reshape(-1, 1, 1) * np.eye(r)


@dataclass(frozen=True)
class Fit:
    """Fitted binary models: one for two classes, else one for each class against the rest."""

    machines: list[BinaryModel]  # in the order of the classes
    classes: Array  # labels, sorted
    masses: Array = field(default_factory=lambda: np.empty(0))  # weight of each class's rows
    rows: Array | None = None  # indices of the training rows, unless all are used in order
    stopped: bool = False  # by a callback
    objective: str = ""  # name of the objective, unless it follows from the posteriors
    link: ClassLink | None = None  # for several classes, unless each binary model has its own
    is_joint: bool = False  # fitted together, with one bound and one history
    left_out: LooPredictions | None = None  # leave-one-out predictions of the training rows
    extrapolation: Extrapolation | None = None  # probabilities far from the training rows

    def with_left_out(self, moments: LooMoments | None, limit: float | None = None) -> Self:
        """The fit with leave-one-out predictions of training rows, from moments of f.

        With ``limit``, the largest variance of f or infinity, probabilities of a link fitted to
        these rows tend to the class shares far from them.
        """
        if moments is None:
            return self
        extrapolation = None
        if np.isfinite(self.link_rows) and limit is not None:
            extrapolation = Extrapolation.of(moments, self.masses, limit)
        fit = replace(self, extrapolation=extrapolation)
        return replace(fit, left_out=LooPredictions.of(moments, fit.proba))

    @property
    def weight(self) -> float:
        """Total weight of the training rows."""
        return float(self.masses.sum())

    @property
    def kind(self) -> str:
        """The objective: as given, or from the type of posterior."""
        first = self.machines[0]
        kind = "elbo" if first.posterior.has_spread else "log_posterior"
        return self.objective or ("log_likelihood" if first.draws is not None else kind)

    @property
    def is_binary(self) -> bool:
        return len(self.machines) == 1

    @property
    def n_iter(self) -> int:
        return max(m.ascent.n_iter for m in self.machines)

    @property
    def converged(self) -> bool:
        converged = not self.stopped
        for machine in self.machines:
            converged = converged and machine.ascent.converged
        return converged

    @property
    def bound(self) -> float:
        return float(sum(m.ascent.bound for m in self.machines[: 1 if self.is_joint else None]))

    @property
    def path(self) -> Any:
        """History of the objective; a list of histories for classes that were fitted one by one."""
        paths = [np.asarray(m.ascent.path) for m in self.machines]
        return paths[0] if self.is_binary or self.is_joint else paths

    def unfinished(self, name: str, columns: Sequence[str] = ()) -> str:
        """A warning if the fit has not converged; empty if a callback has stopped it.

        ``columns`` are the names of the columns of coefficients.
        """
        if self.converged or self.stopped:
            return ""
        worst = max(abs(m.ascent.change) for m in self.machines)
        if any(m.draws is not None for m in self.machines):
            few = "too few draws to judge the chains. " if np.isnan(worst) else ""
            return (
                f"{few}the chains do not agree yet (R-hat up to {worst:.3g}"
                f"{self._least_agreed(columns)}). Draw more, burn in longer, or give the prior a "
                "lighter tail."
            )
        return (
            f"{name} stopped after {self.n_iter} iterations with the bound still moving by "
            f"{worst:.3g}. Raise max_iter or loosen tol if it matters."
        )

    def _least_agreed(self, columns: Sequence[str]) -> str:
        """The coefficient with the largest R-hat, in words; empty if unknown."""
        machine = max(self.machines, key=lambda m: abs(m.ascent.change))
        if (
            not isinstance(machine, BinaryModel)
            or machine.draws is None
            or np.isnan(machine.ascent.change)
        ):
            return ""
        each = r_hat_of(machine.draws)
        if each.size != machine.model.width or not np.any(np.isfinite(each)):
            return ""
        j = int(np.nanargmax(each))
        pairs = zip(machine.model.terms, machine.model.slices, strict=True)
        term, where = next(pair for pair in pairs if pair[1].start <= j < pair[1].stop)
        design, width = term.design, where.stop - where.start
        if term.design.is_grouped:
            return f", of an effect of the groups {term.name!r}"
        if term.name == "intercept":
            return ", of the intercept"
        own = design.has_labels and columns and len(columns) != width
        labels = design.labels(columns) if own else list(columns)
        if len(labels) == width:
            return f", of {str(labels[j - where.start])!r}"
        return f", of a coefficient of the term {term.name!r}"

    # ----- f at new rows

    def columns_at(self, X: Any) -> list[Rows]:
        """Design matrix of each binary model at new rows; computed once if they share it."""
        first = self.machines[0]
        has_latent = any(params is not None for params in first.params)
        if has_latent or any(m.terms is not first.terms for m in self.machines):
            return [machine.columns(X) for machine in self.machines]
        return [first.columns(X)] * len(self.machines)

    def moments_at(self, X: Any, reported: bool = False) -> list[tuple[Array, Array]]:
        """Mean and variance of f at a block of rows, for each binary model, or ``reported``."""
        pairs = zip(self.machines, self.columns_at(X), strict=True)
        return [m.reported_moments(X, C) if reported else m.moments(X, C) for m, C in pairs]

    def thetas(self, n: int, rng: np.random.Generator) -> list[Array]:
        """Draws of each binary model's coefficients, ``(n, K)``; jointly if fitted jointly."""
        posts: list[Any] = [m.reported for m in self.machines]
        if not self.is_joint or not posts[0].has_spread:
            return [post.sample(n, rng) for post in posts]
        if self.machines[0].draws is None:
            return list(posts[0].sample_all(n, rng))
        drawn = rng.integers(posts[0].flat.shape[0], size=n)
        return [post.flat[drawn] for post in posts]

    def draws_at(self, X: Any, thetas: list[Array], rng: np.random.Generator) -> list[Array]:
        """f of each binary model at rows, for draws of its coefficients, ``(draws, rows)``."""
        return [m.predictors(X, t, rng) for m, t in zip(self.machines, thetas, strict=True)]

    # ----- from moments of f, (n, machines), to probabilities

    @property
    def over_classes(self) -> ClassLink:
        """The link for more than two classes."""
        return self.link or SeparateLinks([m.link for m in self.machines])

    @property
    def link_rows(self) -> float:
        """Weight of the rows to which the link was fitted; infinite for a link without a fit."""
        return self.machines[0].link.rows if self.is_binary else self.over_classes.rows

    @property
    def offsets(self) -> Array:
        """The shift of f by the link, for each binary model."""
        return self.over_classes.offsets

    def logs(self, m: Array, v: Array) -> Array:
        """Unnormalised log probabilities, without the floor, ``(n, classes)``."""
        if self.is_binary:
            z = self.machines[0].link.logit(m[:, 0], v[:, 0])
            logs = np.stack([np.zeros_like(z), z], axis=1)
        else:
            logs = self.over_classes.logs(m, v)
        return logs if self.extrapolation is None else self.extrapolation.mixed(logs, v)

    def scores(self, m: Array, v: Array) -> Array:
        """Decision values; for two classes one, positive if the second is more probable."""
        if not self.is_binary:
            certain = np.isinf(self.link_rows)
            return class_odds(self.logs(m, v) if certain else np.log(self.proba(m, v)))
        link: Any = self.machines[0].link
        if self.extrapolation is None:
            return link.score(m[:, 0], v[:, 0])
        return np.diff(self.logs(m, v))[:, 0] / link.a

    def proba(self, m: Array, v: Array) -> Array:
        """Class probabilities, consistent with the sign of the scores, including ties."""
        P = floored(softmax(self.logs(m, v), axis=1), self.link_rows, len(self.classes))
        if not self.is_binary:
            return P
        half_up, p = np.nextafter(0.5, 1.0), P[:, 1]
        p = np.where(self.scores(m, v) > 0, np.maximum(p, half_up), np.minimum(p, 0.5))
        return np.stack([1.0 - p, p], axis=1)

    def interval_at(self, X: Any, tails: tuple[float, float]) -> tuple[Array, Array]:
        """Lower and upper probabilities of all classes at a block of rows, ``(n, classes)`` each.

        They contain the probabilities and have the same floor.  The interval of a class with
        probability near one is at least as wide as Jeffreys' for an event not seen in as many rows.
        """
        columns, K = self.columns_at(X), len(self.classes)
        pairs = zip(self.machines, columns, strict=True)
        m, v = (np.stack(x, axis=1) for x in zip(*(m.moments(X, C) for m, C in pairs), strict=True))
        low, middle, high = self._bands(X, (tails[0], 0.5, tails[1]), columns, m, v)
        # averaging over f moves the median; the end on that side moves by as much
        moved = class_odds(self.logs(m, v)) - middle
        lower = floored(expit(low + np.minimum(moved, 0.0)), self.link_rows, K)
        upper = floored(expit(high + np.maximum(moved, 0.0)), self.link_rows, K)
        unseen = unseen_rate(self.link_rows, tails[1])
        return np.minimum(lower, 1.0 - unseen), np.maximum(upper, unseen)

    def _bands(
        self, X: Any, levels: tuple[float, float, float], columns: list[Rows], m: Array, v: Array
    ) -> Array:
        """Log odds of all classes at the lower end, median and upper end of f, ``(3, n, classes)``.

        For several classes see :func:`.class_bands`; draws of a joint likelihood are used directly.
        """
        if self.is_binary:
            logit = self.machines[0].band(X, levels, columns[0])
            return np.stack([-logit[::-1], logit], axis=2)
        if not self.is_joint:
            pairs = zip(self.machines, columns, strict=True)
            f = np.stack([machine.quantiles(X, levels, C) for machine, C in pairs], axis=-1)
        elif self.machines[0].draws is None:
            # for independent f: reported coefficients are centred, hence correlated
            f = m + np.sqrt(v) * ndtri(np.array(levels))[:, None, None]
        else:
            rng, parts = np.random.default_rng(0), []
            thetas, size = self.thetas(DRAWS, rng), max(1, HELD // (DRAWS * len(self.machines)))
            for first in range(0, X.shape[0], size):
                f = np.stack(self.draws_at(X[first : first + size], thetas, rng), axis=-1)
                odds = class_odds(self.over_classes.logs(f, np.zeros_like(f)))
                parts.append(np.quantile(odds, levels, axis=0))
            return np.concatenate(parts, axis=1)
        return class_bands(self.over_classes.logs(f, np.zeros_like(f)))
