"""Effects of groups and their variances, reported on the scale of the user's columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core.random import stream
from ..core.types import Array, Block
from ..estimators import choices as check
from ..estimators._base import BayesianClassifier, pandas_for
from ..machines.machine import Machine, covariances
from ..model.model import Problem

SCATTER = 4000  # draws of a variational factor behind an interval
LOGISTIC_VARIANCE = np.pi**2 / 3

BIASED = "biased low by {scheme}; draw by gibbs"
CAUTION = (
    "Variances of the effects of groups were learned by variational inference, which takes effects "
    "and variances for independent: they are known to be too small, often by a factor of several "
    "where groups have few rows, and their intervals far too narrow. For the variances themselves "
    "use inference='gibbs'."
)


class EffectReport(BayesianClassifier):
    """What a machine with groups can say of them."""

    def random_effects(self, level: float = 0.9) -> Any:
        """Effects of every group, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by factor, level and effect (and class, for more than two): mean, sd, lower,
            upper; under EM only the estimate.  An intercept is that at zero of the columns as
            given; a slope is per unit of its column.
        """
        self._check_fitted()
        pd, tails = pandas_for("a report of groups"), check.tails(level)
        frames = []
        for machine in self.machines_:
            parts = [self._effects_of(machine, k, tails, pd) for k in self._order(machine)]
            frames.append(pd.concat(parts) if parts else _empty(pd))
        return self._stacked(frames, pd)

    def _order(self, machine: Machine) -> list[int]:
        """Terms of groups in the order of the user's factors."""
        grouped = machine.model.grouped
        return sorted(grouped, key=lambda k: machine.model.terms[k].design.factor)

    def _stacked(self, frames: list[Any], pd: Any) -> Any:
        if len(frames) == 1:
            return frames[0]
        stacked = pd.concat(frames, keys=list(self.classes_), names=["class"])
        stacked.attrs.update(frames[0].attrs)
        return stacked

    def _effects_of(self, machine: Machine, k: int, tails: tuple[float, float], pd: Any) -> Any:
        term, where = machine.model.terms[k], machine.model.slices[k]
        design, T = term.design, term.design.to_user()
        shape, held = (design.G, design.r), machine.draws
        mean = machine.posterior.mean[where].reshape(shape) @ T.T
        table = {"mean": mean.ravel()}
        if held is not None:
            u = held.theta[..., where].reshape(-1, *shape) @ T.T
            table["sd"] = u.std(axis=0).ravel()
            table["lower"], table["upper"] = np.quantile(u, tails, axis=0).reshape(2, -1)
        elif machine.posterior.has_spread:
            own = machine.state.coef.cov.blocks(where, design.r)  # type: ignore[attr-defined]
            sd = np.sqrt(np.einsum("jk,gkl,jl->gj", T, own, T)).ravel()
            table["sd"] = sd
            table["lower"], table["upper"] = table["mean"] + sd * ndtri(np.array(tails))[:, None]
        name = self.factors_[design.factor]
        index = pd.MultiIndex.from_product(
            [[name], self.levels_[name], self._effect_names(design)],
            names=["factor", "level", "effect"],
        )
        return pd.DataFrame(table, index=index)

    def _effect_names(self, design: Any) -> list[str]:
        names = self._names()
        return ["intercept"] * bool(design.intercept) + [str(names[j]) for j in design.slopes]

    @property
    def random_effects_(self) -> Any:
        """Effects of every group with 90 % intervals: see :meth:`random_effects`."""
        return self.random_effects()

    def _drawn_effects(
        self, rng: np.random.Generator
    ) -> tuple[dict[str, Any], dict[str, list[str]], dict[str, Any]]:
        """Draws of the effects of each factor, by its name, on the scale of the input."""
        group: dict[str, Any] = {}
        dims: dict[str, list[str]] = {}
        coords: dict[str, Any] = {}
        single = len(self.machines_) == 1
        for k in self._order(self.machines_[0]):
            design = self.machines_[0].model.terms[k].design
            name, parts = self.factors_[design.factor], []
            for machine in self.machines_:
                theta = self._draws(machine, rng)[..., machine.model.slices[k]]
                u = theta.reshape(*theta.shape[:2], design.G, design.r)
                parts.append(u @ machine.model.terms[k].design.to_user().T)
            key = f"effect_{name}"
            group[key] = parts[0] if single else np.stack(parts, axis=2)
            axes = [f"level_{name}", f"effect_of_{name}"]
            dims[key] = axes if single else ["class", *axes]
            coords[axes[0]], coords[axes[1]] = self.levels_[name], self._effect_names(design)
        return group, dims, coords

    def _scatter(self, machine: Machine, k: int) -> Array:
        """Draws of the covariance of a group's effects, ``(m, r, r)``, on the inner scale."""
        term, held = machine.model.terms[k], machine.draws
        if held is not None and term.name in held.hyper:
            return covariances(term, held.hyper[term.name])
        j = next(j for j, one in enumerate(self.machines_) if one is machine)
        s, rng = machine.state.priors[k], stream(0, "scatter", j, k)
        draws: Array = term.prior.scatter(s, term.design.width, SCATTER, rng)
        if held is not None:  # as many as of the factors that were sampled
            draws = draws[np.arange(held.log_prob.size) % SCATTER]
        return draws if draws.ndim == 3 else draws[:, None, None] * np.eye(term.design.r)

    def variance_components(self, level: float = 0.9) -> Any:
        """Variances and correlations of the effects of groups, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by factor and component (and class, for more than two): mean, lower, upper.
            Under EM the interval is that of the variational fit the variances were learned by.

        Notes
        -----
        Unless they are drawn (``inference="gibbs"``), variances that are learned are known to be
        too small and their intervals far too narrow: on the toenail data that of patients is 4.2
        (3.6 to 4.8) by VB and 16.4 (11.8 to 22.2) by Gibbs.  A column ``note`` says so beside each.
        """
        self._check_fitted()
        pd, tails = pandas_for("a report of groups"), check.tails(level)
        frames = []
        for machine in self.machines_:
            rows, index, notes = [], [], []
            for k in self._order(machine):
                note = self._caution(machine, k)
                design = machine.model.terms[k].design
                T, names = design.to_user(), self._effect_names(design)
                draws = T @ self._scatter(machine, k) @ T.T
                mean = T @ machine.spread(k) @ T.T
                factor, sd = self.factors_[design.factor], np.sqrt(np.einsum("mjj->mj", draws))
                for a in range(design.r):
                    ends = np.quantile(draws[:, a, a], tails)
                    rows.append([mean[a, a], *ends])
                    index.append((factor, f"var({names[a]})"))
                    notes.append(note)
                for a in range(design.r):
                    for b in range(a):
                        rho = draws[:, a, b] / (sd[:, a] * sd[:, b])
                        rows.append([rho.mean(), *np.quantile(rho, tails)])
                        index.append((factor, f"corr({names[b]}, {names[a]})"))
                        notes.append("")
            labels = pd.MultiIndex.from_tuples(index, names=["factor", "component"]) if rows else ()
            frames.append(_noted(rows, labels, notes, pd) if rows else _empty(pd))
        return self._stacked(frames, pd)

    def _caution(self, machine: Machine, k: int) -> str:
        """The note beside a learned variance that was not drawn; empty if there is none."""
        term, held = machine.model.terms[k], machine.draws
        if held is not None and term.name in held.hyper:
            return ""
        learned = term.prior.is_learned
        scheme = check.choose_scheme(self.inference, None, None)
        return BIASED.format(scheme=type(scheme).__name__.lower()) if learned else ""

    def _cautioned(self, frame: Any) -> Any:
        """A frame with a note in ``attrs`` if variances of effects are known to be biased."""
        machine = self.machines_[0]
        if any(self._caution(machine, k) for k in self._order(machine)):
            frame.attrs["note"] = CAUTION
        return frame

    @property
    def variance_components_(self) -> Any:
        """Variances of effects with 90 % intervals: see :meth:`variance_components`.

        Unless drawn by Gibbs they are known to be too small; a column ``note`` says so.
        """
        return self.variance_components()

    def intraclass_share(self, level: float = 0.9) -> Any:
        r"""Share of the groups in what the columns leave unexplained, as a data frame.

        .. math::

            \frac{\bar v_b}{\sum_k \bar v_k + \pi^2 / 3a^2}, \qquad
            \bar v_b = \frac{\sum_i c_i z_{bi}^\top \Sigma_b z_{bi}}{\sum_i c_i},

        with the variance of a factor's effects averaged over the training rows, and that of a
        logistic variable on the scale of f: *a* is the slope of the log odds at f = 0 under the
        link that turns f into probabilities (``probability``).  For the logistic likelihood with
        ``probability="normalised"`` a = 1, and the share of a random intercept is the usual
        intraclass correlation :math:`\sigma^2 / (\sigma^2 + \pi^2/3)`.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by factor (and class, for more than two): mean, lower, upper, and a ``note``
            where the variances behind them are biased, see :meth:`variance_components`.
        """
        self._check_fitted()
        pd, tails = pandas_for("a report of groups"), check.tails(level)
        frames = []
        for machine in self.machines_:
            order = self._order(machine)
            second = [self._second[machine.model.terms[k].name] for k in order]
            v = [
                np.einsum("mjk,jk->m", self._scatter(machine, k), W)
                for k, W in zip(order, second, strict=True)
            ]
            total = np.sum(v, axis=0) + LOGISTIC_VARIANCE / _slope(machine.link) ** 2
            rows = [[np.mean(x / total), *np.quantile(x / total, tails)] for x in v]
            names = [self.factors_[machine.model.terms[k].design.factor] for k in order]
            notes = [self._caution(machine, k) for k in order]
            frames.append(_noted(rows, pd.Index(names, name="factor"), notes, pd))
        return self._stacked(frames, pd)

    @property
    def intraclass_share_(self) -> Any:
        """Share of the groups with 90 % intervals: see :meth:`intraclass_share`."""
        return self.intraclass_share()


def _slope(link: Any) -> float:
    """Slope of the log odds at f = 0, where f is certain."""
    at = np.array([-1e-6, 1e-6])
    low, high = link.logit(at, np.zeros(2))
    return float(high - low) / 2e-6


def second_moments(problem: Problem) -> dict[str, Array]:
    """Average of ``z z'`` over rows, for each factor: what makes a variance of f of effects."""
    out, blocks = {}, problem.blocks
    for k in problem.model.grouped:
        term = problem.model.terms[k]
        design = term.design

        def visit(b: Block, design: Any = design) -> Array:
            Z = design.part(b.X).Z
            return (Z * b.c[:, None]).T @ Z

        out[term.name] = problem.engine.sum(visit, blocks) / blocks.weight
    return out


def _noted(rows: list[Any], index: Any, notes: list[str], pd: Any) -> Any:
    """Estimates with their intervals, and notes beside them if there are any."""
    values = np.reshape(rows, (-1, 3))
    frame = pd.DataFrame(values, columns=["mean", "lower", "upper"], index=index)
    if any(notes):
        frame["note"] = notes
        frame.attrs["note"] = CAUTION
    return frame


def _empty(pd: Any) -> Any:
    """What is said of groups where there are none."""
    return pd.DataFrame({"mean": [], "lower": [], "upper": []})
