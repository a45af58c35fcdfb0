"""Random effects and their variances, reported on the scale of the user's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..core.types import Array, Block, Term
from ..data.levels import Levels
from ..inference.problem import Problem
from ..inference.progress import stream
from ..predictive.fitted import BinaryModel, Fit
from .arviz import Draws
from .tables import draws_table, gaussian_table, pandas_for, stacked, tails

VARIANCES = 4000  # number of draws from a variational factor for an interval
LOGISTIC_VARIANCE = np.pi**2 / 3

BIASED = "biased low by {scheme}; use inference='gibbs'"
BIASED_EITHER_WAY = "biased by {scheme}; use inference='gibbs'"  # a correlation
CAUTION = (
    "Variances of the effects of groups were learned by variational inference, which takes effects "
    "and variances for independent: they are known to be too small, often by a factor of several "
    "where groups have few rows, and their intervals far too narrow. For the variances themselves "
    "use inference='gibbs'."
)
NARROW = "interval too narrow by {scheme}; use inference='gibbs'"
CAUTION_NARROW = (
    "Variances of the effects of groups were learned by variational inference, which takes effects "
    "and variances for independent: their intervals are too narrow, and where groups have few rows "
    "the variances may be too small by a quarter. For the variances themselves use "
    "inference='gibbs'."
)
MODEL_ERRORS = (
    "Standard errors of the coefficients are those of the model with these variances: somewhat too "
    "small for columns that are constant within groups."
)


class GroupReports:
    """Reports of random effects, as properties of the estimators with groups."""

    _fitted: Callable[[], Fit]
    _names: Callable[[], list[str]]
    _group_levels: Levels  # grouping factors and the labels of their groups
    _group_moments: Mapping[str, Array]  # averages of z z' over training rows
    _group_scheme: str  # name of the inference scheme

    def _keep_groups(self, problem: Problem, levels: Levels, scheme: Any) -> None:
        self._group_levels, self._group_moments = levels, second_moments(problem)
        self._group_scheme = type(scheme).__name__.lower()

    @property
    def factors_(self) -> list[str]:
        """Names of the grouping factors; empty if there are no groups."""
        self._fitted()
        return list(self._group_levels.names)

    @property
    def levels_(self) -> dict[str, Array]:
        """Labels of the groups of each factor."""
        return dict(zip(self.factors_, self._group_levels.labels, strict=True))

    def _group_terms(self, machine: BinaryModel) -> list[tuple[int, Term, str]]:
        """Index, term and factor of the random effects, in the order of the user's factors."""
        terms, factors = machine.model.terms, self._group_levels.names
        order = sorted(machine.model.grouped, key=lambda k: terms[k].design.factor)
        return [(k, terms[k], factors[terms[k].design.factor]) for k in order]

    def _effect_names(self, design: Any) -> list[str]:
        names = self._names()
        return ["intercept"] * bool(design.intercept) + [str(names[j]) for j in design.slopes]

    @property
    def random_effects_(self) -> Any:
        """Random effects of all groups, as a data frame.

        Indexed by factor, level and effect (and class, for more than two): mean, sd, and the lower
        and upper ends of 90 % intervals; under EM only the estimate.
        """
        return self._random_effects(0.9)

    def random_effects_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of ``random_effects_`` intervals with probability ``level``."""
        return self._ends_of(self._random_effects(level))

    def _random_effects(self, level: float) -> Any:
        pd, frames = pandas_for("a report of groups"), []
        for machine in self._fitted().machines:
            parts = []
            for k, term, factor in self._group_terms(machine):
                index = pd.MultiIndex.from_product(
                    [[factor], self.levels_[factor], self._effect_names(term.design)],
                    names=["factor", "level", "effect"],
                )
                parts.append(pd.DataFrame(_effects(machine, k, level), index=index))
            frames.append(pd.concat(parts) if parts else _table([], (), [], "", pd))
        return stacked(frames, self._fitted().classes, pd)

    @property
    def variance_components_(self) -> Any:
        """Variances and correlations of the random effects, as a data frame.

        Indexed by factor and component (and class, for more than two): mean, and the lower and
        upper ends of 90 % intervals, under EM from the variational fit that learned them.  With a
        single factor of up to three effects per group, VB integrates the effects out by quadrature.
        Other learned variances, unless sampled, are biased downwards; a column ``note`` marks them.
        """
        return self._variance_components(0.9)

    def variance_components_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of ``variance_components_`` intervals with probability ``level``."""
        return self._ends_of(self._variance_components(level))

    def _variance_components(self, level: float) -> Any:
        pd, ends, frames = pandas_for("a report of groups"), tails(level), []
        for machine in self._fitted().machines:
            rows, index, notes = [], [], []
            for k, term, factor in self._group_terms(machine):
                T, names = term.design.to_user(), self._effect_names(term.design)
                draws = T @ self._group_covariances(machine, k) @ T.T
                mean = T @ machine.spread(k) @ T.T
                sd = np.sqrt(np.einsum("mjj->mj", draws))
                for a, name in enumerate(names):
                    rows.append([mean[a, a], *np.quantile(draws[:, a, a], ends)])
                    index.append((factor, f"var({name})"))
                    notes.append(self._group_note(machine, k))
                for b, a in sorted(combinations(range(len(names)), 2), key=lambda pair: pair[1]):
                    rho = draws[:, a, b] / (sd[:, a] * sd[:, b])
                    rows.append([rho.mean(), *np.quantile(rho, ends)])
                    index.append((factor, f"corr({names[b]}, {names[a]})"))
                    either = BIASED_EITHER_WAY.format(scheme=self._group_scheme)
                    notes.append(either if term.prior.is_blocked and notes[-1] else "")
            labels = pd.MultiIndex.from_tuples(index, names=["factor", "component"]) if rows else ()
            frames.append(_table(rows, labels, notes, self._group_caution, pd))
        return stacked(frames, self._fitted().classes, pd)

    @property
    def intraclass_share_(self) -> Any:
        r"""Intraclass correlation: the groups' share of the residual variance, as a data frame.

        .. math::

            \frac{\bar v_b}{\sum_k \bar v_k + \pi^2 / 3a^2}, \qquad
            \bar v_b = \frac{\sum_i c_i z_{bi}^\top \Sigma_b z_{bi}}{\sum_i c_i},

        with the variance of a factor's effects averaged over the training rows.  The last summand
        is the variance of a logistic variable on the scale of f: *a* is the slope of the log odds
        at f = 0 under the link.  For the logistic likelihood with ``probability="normalised"`` a =
        1.  Indexed by factor (and class, for more than two): mean, the ends of 90 % intervals, and
        a ``note`` if the variances are biased, see ``variance_components_``.
        """
        return self._intraclass_share(0.9)

    def intraclass_share_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of ``intraclass_share_`` intervals with probability ``level``."""
        return self._ends_of(self._intraclass_share(level))

    def _intraclass_share(self, level: float) -> Any:
        pd, ends, frames = pandas_for("a report of groups"), tails(level), []
        for machine in self._fitted().machines:
            terms = self._group_terms(machine)
            v = []
            for k, term, _ in terms:
                draws, moments = self._group_covariances(machine, k), self._group_moments[term.name]
                v.append(np.einsum("mjk,jk->m", draws, moments))
            link = machine.link.logit(np.array([-1e-6, 1e-6]), np.zeros(2))
            slope = np.diff(link) / 2e-6  # of the log odds at f = 0, without variance
            total = np.sum(v, axis=0) + LOGISTIC_VARIANCE / slope**2
            rows = [[np.mean(x / total), *np.quantile(x / total, ends)] for x in v]
            index = pd.Index([factor for *_, factor in terms], name="factor")
            notes = [self._group_note(machine, k) for k, *_ in terms]
            frames.append(_table(rows, index, notes, self._group_caution, pd))
        return stacked(frames, self._fitted().classes, pd)

    def _ends_of(self, frame: Any) -> tuple[Any, Any]:
        """Interval ends of one of these reports."""
        if "lower" not in frame:
            self._fitted().machines[0].posterior.variance()  # raises an error: a point estimate
        return frame["lower"], frame["upper"]

    def _with_effects(self, draws: Draws, thetas: Sequence[Array]) -> Draws:
        """Named draws for ArviZ, including random effects and their variances."""
        machines = self._fitted().machines
        group, dims, coords = (dict(each) for each in draws)
        for k, term, factor in self._group_terms(machines[0]):
            parts, scales = [], []
            for machine, theta in zip(machines, thetas, strict=True):
                u, T = theta[..., machine.model.slices[k]], machine.model.terms[k].design.to_user()
                u = u.reshape(*u.shape[:2], term.design.G, term.design.r)
                parts.append(u @ T.T)
                V = self._group_covariances(machine, k)
                at = np.arange(u.shape[0] * u.shape[1]) % len(V)
                if machine.draws is None:  # evenly spaced quantiles, independent of the effects
                    at = stream(0, "shuffled", k).choice(len(V), at.size, replace=at.size > len(V))
                V = V[at]
                scales.append((T @ V @ T.T).reshape(*u.shape[:2], *V.shape[1:]))
            axes = [f"level_{factor}", f"effect_of_{factor}", f"other_effect_of_{factor}"]
            names = self._effect_names(term.design)
            group[f"effect_{factor}"], dims[f"effect_{factor}"] = parts, axes[:2]
            variances = [np.einsum("...jj->...j", V) for V in scales]
            group[f"variance_{factor}"], dims[f"variance_{factor}"] = variances, axes[1:2]
            coords |= {axes[0]: self.levels_[factor], axes[1]: names}
            if len(names) > 1:
                sds = [np.sqrt(v) for v in variances]
                rho = [V / (s[..., None] * s[..., None, :]) for V, s in zip(scales, sds)]
                group[f"correlation_{factor}"], dims[f"correlation_{factor}"] = rho, axes[1:]
                coords[axes[2]] = names
        return group, dims, coords

    def _group_covariances(self, machine: BinaryModel, k: int) -> Array:
        """Draws of the covariance of random effects, ``(m, r, r)``, on the internal scale."""
        term, drawn = machine.model.terms[k], machine.drawn_covariances(k)
        if drawn is not None:
            return drawn
        j = next(j for j, one in enumerate(self._fitted().machines) if one is machine)
        s, rng = machine.ascent.state.priors[k], stream(0, "scatter", j, k)
        draws: Array = term.prior.scatter(s, term.design.width, VARIANCES, rng)
        if machine.draws is not None:  # the same number as for factors that were sampled
            draws = draws[np.arange(machine.draws.log_prob.size) % VARIANCES]
        return draws if draws.ndim == 3 else draws[:, None, None] * np.eye(term.design.r)

    def _group_note(self, machine: BinaryModel, k: int) -> str:
        """The note on a variance that was learned and not sampled; else empty."""
        term = machine.model.terms[k]
        if machine.drawn_covariances(k) is not None or not term.prior.is_learned:
            return ""
        # with slopes variances may be too small by half, and the joint bound of several classes
        # is looser; else mainly the interval is wrong
        tight = machine.model.likelihood.is_tight and not self._fitted().is_joint
        note = NARROW if tight and term.design.r == 1 else BIASED
        return note.format(scheme=self._group_scheme)

    @property
    def _group_caution(self) -> str:
        machine = self._fitted().machines[0]
        notes = {self._group_note(machine, k) for k, *_ in self._group_terms(machine)}
        return CAUTION if BIASED.format(scheme=self._group_scheme) in notes else CAUTION_NARROW

    def _cautioned(self, frame: Any) -> Any:
        """Add a note to ``attrs`` if variances of random effects are known to be biased."""
        machine = self._fitted().machines[0]
        if any(self._group_note(machine, k) for k, *_ in self._group_terms(machine)):
            frame.attrs["note"] = f"{self._group_caution} {MODEL_ERRORS}"
        return frame


def _effects(machine: BinaryModel, k: int, level: float) -> dict[str, Array]:
    """Columns of the report of one term's effects."""
    where, design = machine.model.slices[k], machine.model.terms[k].design
    T, draws = design.to_user(), machine.draws
    mean = (machine.posterior.mean[where].reshape(design.G, design.r) @ T.T).ravel()
    if draws is not None:
        u = draws.theta[..., where].reshape(-1, design.G, design.r) @ T.T
        return draws_table(u.reshape(1, -1, mean.size), level) | {"mean": mean}
    if not machine.posterior.has_spread:
        return {"mean": mean}
    post: Any = machine.reported
    variance = np.einsum("jk,gkl,jl->gj", T, post.blocks(where, design.r), T)
    return gaussian_table(mean, np.sqrt(variance).ravel(), level)


def second_moments(problem: Problem) -> dict[str, Array]:
    """Average of ``z z'`` over rows, for each factor: covariance V contributes ``tr(V zz')``."""
    out = {}
    for k in problem.model.grouped:
        term = problem.model.terms[k]

        def visit(b: Block, c: Array, design: Any = term.design) -> Array:
            Z = design.part(b.X).Z
            return (Z * c[:, None]).T @ Z

        total = problem.engine.sum(visit, problem.blocks, problem.c)
        out[term.name] = total / problem.weight
    return out


def _table(rows: list[Any], index: Any, notes: list[str], caution: str, pd: Any) -> Any:
    """Estimates with intervals, and with notes if there are any."""
    values = np.reshape(rows, (-1, 3))
    frame = pd.DataFrame(values, columns=["mean", "lower", "upper"], index=index)
    if any(notes):
        frame["note"] = notes
        frame.attrs["note"] = caution
    return frame
