"""The result of a fit: the machines of all classes, and predictions from their moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit, logsumexp, ndtri

from ..core.types import Array, Rows
from .diagnostics import r_hat_of
from .leave_one_out import Extrapolation, LooMoments, LooPredictions
from .links import (
    ClassLink,
    SeparateLinks,
    class_bands,
    class_odds,
    decisive,
    enclosing,
    floored,
    normalised,
    unseen_rate,
)
from .machine import Machine

DRAWS = 2000  # joint draws of several classes from which an interval is taken, about,
HELD = 2**22  # and numbers of them that are held at a time


class At(NamedTuple):
    """Columns of a block of rows for each machine, and moments of f there, ``(n, machines)``."""

    columns: list[Rows | None]
    m: Array
    v: Array
    z: Array | None = None  # log odds of two classes by the link, or of all of several

    def each(self) -> Iterator[tuple[Rows | None, tuple[Array, Array]]]:
        """Columns and moments of each machine."""
        return ((C, (self.m[:, k], self.v[:, k])) for k, C in enumerate(self.columns))


@dataclass(frozen=True)
class Fit:
    """Fitted machines: one for two classes, else one for each class against the rest.

    Parameters
    ----------
    machines : list of Machine
        In the order of the classes.
    classes : array of shape (n_classes,)
        Labels, sorted.
    masses : array of shape (n_classes,)
        Total weight of the training rows of each class.
    rows : array of int, optional
        Numbers of the training rows in the input, unless they are all of it in order.
    stopped : bool
        Whether a callback has ended the fit.
    objective : {"elbo", "log_posterior", "log_likelihood"}, optional
        What ``bound`` and ``path`` of the machines are; by default as their posteriors are
        variational, a point or draws.
    link : ClassLink, optional
        Probabilities of more than two classes from their f; by default by the machines' own links.
    is_joint : bool
        Whether the machines were fitted together: they have one bound and one history.
    left_out : LooPredictions, optional
        Training rows, each predicted without itself; see :meth:`judged`.
    far : Extrapolation, optional
        Probabilities far from the training rows.
    """

    machines: list[Machine]
    classes: Array
    masses: Array = field(default_factory=lambda: np.empty(0))
    rows: Array | None = None
    stopped: bool = False
    objective: str = ""
    link: ClassLink | None = None
    is_joint: bool = False
    left_out: LooPredictions | None = None
    far: Extrapolation | None = None

    def judged(self, moments: LooMoments | None, limit: float | None = None) -> Self:
        """The fit with its predictions of training rows left out, from moments of f there.

        With ``limit``, the largest variance of f or infinity, probabilities of a link that is
        fitted to these rows go to the shares of the classes far from them.
        """
        if moments is None:
            return self
        is_fitted = not np.isinf(self.over_classes.rows)
        far = None
        if is_fitted and limit is not None:
            far = Extrapolation.of(moments, self.masses, limit)
        fit = replace(self, far=far)
        return replace(fit, left_out=LooPredictions.of(moments, fit.proba))

    @property
    def weight(self) -> float:
        """Total weight of the training rows."""
        return float(self.masses.sum())

    @property
    def kind(self) -> str:
        """The objective: as given, or by the kind of posterior."""
        first = self.machines[0]
        kind = "elbo" if first.posterior.has_spread else "log_posterior"
        return self.objective or ("log_likelihood" if first.draws is not None else kind)

    @property
    def is_binary(self) -> bool:
        return len(self.machines) == 1

    @property
    def n_iter(self) -> int:
        return max(m.n_iter for m in self.machines)

    @property
    def converged(self) -> bool:
        return all(m.converged for m in self.machines) and not self.stopped

    @property
    def bound(self) -> float:
        some = self.machines[:1] if self.is_joint else self.machines
        return float(sum(m.bound for m in some))

    @property
    def path(self) -> Any:
        """History of the objective; a list of them for classes that were fitted one by one."""
        paths = [np.asarray(m.path) for m in self.machines]
        return paths[0] if self.is_binary or self.is_joint else paths

    def unfinished(self, name: str, columns: Sequence[str] = ()) -> str:
        """A warning if the fit has not converged; none if a callback has ended it.

        ``columns`` are names of the columns that have coefficients.
        """
        if self.converged or self.stopped:
            return ""
        worst = max(abs(m.change) for m in self.machines)
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
        """Which coefficient has the largest R-hat, in words; empty if that is not known."""
        machine = max(self.machines, key=lambda m: abs(m.change))
        if not isinstance(machine, Machine) or machine.draws is None or np.isnan(machine.change):
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

    # ----- predictions

    def columns_at(self, X: Any) -> Iterator[Rows | None]:
        """Columns at new rows for each machine; made once where machines have them in common.

        ``None`` where entries are latent: each machine has its own distribution of them.
        """
        made: dict[int, Rows | None] = {}
        for machine in self.machines:
            key = id(machine.terms)
            if key not in made:
                made[key] = machine.columns(X)
            yield made[key]

    def moments_at(self, X: Any, reported: bool = False) -> list[tuple[Array, Array]]:
        """Mean and variance of f at a block of rows, for each machine; or those ``reported``."""
        pairs = zip(self.machines, self.columns_at(X))
        return [m.reported_moments(X, C) if reported else m.moments(X, C) for m, C in pairs]

    def at(self, X: Any) -> At:
        """Columns and moments of f at a block of rows."""
        columns = list(self.columns_at(X))
        pairs = [m.moments(X, C) for m, C in zip(self.machines, columns, strict=True)]
        m, v = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
        return At(columns, m, v)

    def thetas(self, n: int, rng: np.random.Generator) -> list[Array]:
        """Draws of each machine's coefficients, ``(n, K)``; together if they were fitted so."""
        posts: list[Any] = [m.reported for m in self.machines]
        if not self.is_joint or not posts[0].has_spread:
            return [post.sample(n, rng) for post in posts]
        if self.machines[0].draws is None:
            return list(posts[0].sample_all(n, rng))
        some = rng.integers(posts[0].flat.shape[0], size=n)
        return [post.flat[some] for post in posts]

    def draws_at(self, X: Any, thetas: list[Array], rng: np.random.Generator) -> list[Array]:
        """f of each machine at rows, for draws of its coefficients, ``(draws, rows)``."""
        return [m.predictors(X, t, rng) for m, t in zip(self.machines, thetas, strict=True)]

    @property
    def over_classes(self) -> ClassLink:
        """The link of more than two classes."""
        return self.link or SeparateLinks([m.link for m in self.machines])

    @property
    def offsets(self) -> Array:
        """What the link adds to f, of each machine."""
        if self.is_binary:
            return np.array([self.machines[0].link.offset])
        return self.over_classes.offsets

    def scores(self, m: Array, v: Array) -> Array:
        """Decision values from moments of f."""
        if not self.is_binary:
            logs, rows = self._logs(m, v), self.over_classes.rows
            if not np.isinf(rows):
                logs = np.log(floored(normalised(logs), rows, len(self.classes)))
            return class_odds(logs)
        link: Any = self.machines[0].link
        score: Array = link.score(m[:, 0], v[:, 0])
        near = self._near(v)
        return np.where(near, score, self._log_odds(m, v)[1] / getattr(link, "a", 1.0))

    def proba(self, m: Array, v: Array) -> Array:
        """Class probabilities from moments of f, ``(n, classes)``."""
        if not self.is_binary:
            return floored(normalised(self._logs(m, v)), self.over_classes.rows, len(self.classes))
        link, near, z = self.machines[0].link, self._near(v), self._log_odds(m, v)[1]
        score = np.where(near, link.score(m[:, 0], v[:, 0]), z)
        p = decisive(floored(expit(z), link.rows, 2), score)
        return np.stack([1.0 - p, p], axis=1)

    def odds(self, m: Array, v: Array) -> Array:
        """Log odds of each class against the others, ``(n, classes)``, however certain."""
        if not self.is_binary:
            return class_odds(self._logs(m, v))
        logit = self._log_odds(m, v)[1][:, None]
        return np.hstack([-logit, logit])

    def _near(self, v: Array) -> Array:
        """Rows whose probabilities are those of the link."""
        if self.far is None:
            return np.ones_like(v[:, 0], dtype=bool)
        return self.far.weight(v) == 1.0

    def _log_odds(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Log odds of the second of two classes by the link, and with the shares far away."""
        plain = self.machines[0].link.logit(m[:, 0], v[:, 0])
        if self.far is None:
            return plain, plain
        logs = self.far.mixed(np.stack([np.zeros_like(plain), plain], axis=1), v)
        return plain, np.where(self._near(v), plain, logs[:, 1] - logs[:, 0])

    def _logs(self, m: Array, v: Array) -> Array:
        """Logs of the probabilities of more than two classes, up to a constant."""
        logs = self.over_classes.logs(m, v)
        if self.far is None:
            return logs
        return self.far.mixed(logs - logsumexp(logs, axis=-1, keepdims=True), v)

    def interval_at(
        self, X: Any, tails: tuple[float, float], at: At | None = None
    ) -> tuple[Array, Array]:
        """Lower and upper probabilities of all classes at a block of rows, ``(n, classes)`` each.

        They have the probabilities inside, which have the same floor.  An interval of a certain
        class is not narrower than Jeffreys' for an event that was not seen in as many rows.
        """
        at = self.at(X) if at is None else at
        if self.is_binary:
            plain, z = self._log_odds(at.m, at.v)
            rows, bands = self.machines[0].link.rows, self.bands(X, tails, at._replace(z=plain))
            low, high = enclosing(z, *bands[..., 1])
            least = np.stack([expit(-high), expit(low)], axis=1)
            most = np.stack([expit(-low), expit(high)], axis=1)
        else:
            odds, rows = self.odds(at.m, at.v), self.over_classes.rows
            low, high = enclosing(odds, *self.bands(X, tails, at._replace(z=odds)))
            least, most = expit(low), expit(high)
        least, most = (floored(end, rows, len(self.classes)) for end in (least, most))
        unseen = unseen_rate(rows, tails[1])
        return np.minimum(least, 1.0 - unseen), np.maximum(most, unseen)

    def bands(self, X: Any, tails: tuple[float, float], at: At | None = None) -> Array:
        """Log odds of all classes at lower end, median and upper end of f, ``(3, n, classes)``.

        Of several classes see :func:`.class_bands`; draws of a joint likelihood are taken as they
        are.
        """
        levels, at = (tails[0], 0.5, tails[1]), self.at(X) if at is None else at
        if self.is_binary:
            logit = self.machines[0].band(X, tails, *next(at.each()), at.z)
            return np.stack([-logit[::-1], logit], axis=2)
        if not (self.is_joint and self.machines[0].draws is not None):
            each = zip(self.machines, at.each(), strict=True)
            f = np.stack([self._spread(k, X, levels, *known) for k, known in each], axis=-1)
            return class_bands(self.over_classes.logs(f, np.zeros_like(f)))
        posts: list[Any] = [m.reported for m in self.machines]
        thetas = [post.flat[:: -(-len(post.flat) // DRAWS)] for post in posts]
        rng, size = np.random.default_rng(0), max(1, HELD // (DRAWS * len(thetas)))
        parts = []
        for first in range(0, X.shape[0], size):
            f = np.stack(self.draws_at(X[first : first + size], thetas, rng), axis=-1)
            odds = self.over_classes.odds(f, np.zeros_like(f))  # (draws, rows, classes)
            parts.append(np.quantile(odds, levels, axis=0))
        return np.concatenate(parts, axis=1)

    def _spread(
        self,
        machine: Machine,
        X: Any,
        levels: tuple[float, ...],
        rows: Any,
        moments: tuple[Array, Array],
    ) -> Array:
        """Quantiles of a machine's f, ``(levels, n)``; of several classes those of independent f.

        Coefficients of a joint likelihood are reported less their mean, which is correlated.
        """
        if not self.is_joint:
            return machine.quantiles(X, levels, rows, moments=moments)
        m, v = moments
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]
