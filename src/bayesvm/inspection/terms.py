"""The terms of an additive model: named coefficients, and contributions of terms to f."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..core.types import Array, Coef, Rows
from ..inference.latent import predict_rows
from ..inference.problem import moments
from ..linalg.columns import plain, scaled
from ..predictive.fitted import BinaryModel
from ..predictive.posterior import GaussianPosterior
from .arviz import Draws
from .tables import coefficient_table, contrasts, pandas_for, stacked, tails


class Terms:
    """Report on the terms of fitted models; ``names`` are the names of the numeric columns.

    ``levels`` are the indicators of the levels of each categorical column.
    """

    def __init__(
        self,
        machines: Sequence[BinaryModel],
        classes: Array,
        names: Sequence[str],
        levels: Sequence[Sequence[int]] = (),
    ) -> None:
        self.machines, self.classes, self.names, self.levels = machines, classes, names, levels

    def _named(self, machine: BinaryModel) -> tuple[list[tuple[str, str]], Array, Any]:
        """Names of coefficients, their positions, and the matrix from theta to the user's scale.

        The scaling of columns is undone; their centres go to the intercept.
        """
        labels: list[tuple[str, str]] = []
        at: list[int] = []
        scales: list[float] = []
        level, shift = None, np.zeros(machine.model.width)
        for term, where in zip(machine.model.terms, machine.model.slices, strict=True):
            design = term.design
            if not design.has_labels:  # smooth functions and random effects
                continue
            scale = np.ones(design.width)
            if design.is_intercept:
                level = len(labels) if level is None else level
            else:
                scale = 1.0 / design.scale
                shift[where] = -design.center * scale
            labels += [(term.name, label) for label in design.labels(self.names)]
            at += range(where.start, where.stop)
            scales += list(scale)
        moved = np.flatnonzero(shift) if level is not None else np.empty(0, dtype=int)
        rows = np.append(np.arange(len(at)), np.full(moved.size, level or 0))
        columns, values = np.append(np.array(at, dtype=int), moved), np.append(scales, shift[moved])
        T = sparse.coo_array((values, (rows, columns)), (len(at), shift.size))
        return labels, np.array(at, dtype=int), sparse.csr_array(T)

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients with their uncertainty, as a data frame."""
        pd, ends, frames = pandas_for("summary"), tails(level), []
        for machine in self.machines:
            labels, at, T = self._named(machine)
            labels, rows, compared = self._compared(labels)
            at, T = at[rows], compared @ T
            chance = machine.inclusion
            more = {} if chance is None else {"inclusion": chance[at]}
            table = coefficient_table(machine, T, ends, more)
            index = pd.MultiIndex.from_tuples(labels, names=["term", "name"])
            frame = pd.DataFrame(table, index=index)
            for name, edf in _degrees_of_freedom(machine).items():
                frame.loc[(name, "smooth"), "edf"] = edf
            frames.append(frame)
        return stacked(frames, self.classes, pd)

    def _compared(self, labels: Sequence[tuple[str, str]]) -> tuple[list[Any], Array, Any]:
        """Coefficients with levels compared to the first level, see :func:`.contrasts`.

        There is no comparison without an intercept, or under a selection prior.
        """
        machine, at = self.machines[0], {label: k for k, label in enumerate(labels)}
        level = [t.name for t in machine.model.terms if t.design.is_intercept]
        every: list[list[int]] = []
        if level and machine.inclusion is None:
            for term in dict.fromkeys(name for name, _ in labels):
                named = ([(term, self.names[j]) for j in each] for each in self.levels)
                every += [[at[k] for k in each] for each in named if all(k in at for k in each)]
        names, rows, T = contrasts(
            [name for _, name in labels], every, at[level[0], "intercept"] if level else 0
        )
        return [(labels[k][0], name) for k, name in zip(rows, names, strict=True)], rows, T

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of the coefficients; the second axis is the class."""
        parts = [np.asarray(m.reported.sample(n, rng) @ self._named(m)[2].T) for m in self.machines]
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)

    def group(self, thetas: Sequence[Array], X: Any = None) -> Draws:
        """Draws by name, names of their axes, and labels of the coordinates, for ArviZ.

        With rows ``X`` also the contributions of smooth functions to f there.
        """
        group: dict[str, Any] = {}
        dims: dict[str, list[str]] = {}
        coords: dict[str, Any] = {}
        labels = self._named(self.machines[0])[0]
        pairs = list(zip(self.machines, thetas, strict=True))
        parts = [theta @ self._named(m)[2].T.toarray() for m, theta in pairs]
        for term in dict.fromkeys(name for name, _ in labels):
            at = [j for j, (name, _) in enumerate(labels) if name == term]
            axis = f"name_of_{term}"
            group[term], dims[term] = [part[..., at] for part in parts], [axis]
            coords[axis] = [labels[j][1] for j in at]
        model = self.machines[0].model
        for k, each in enumerate(model.terms if X is not None else ()):
            if not (each.design.has_labels or each.design.is_grouped):
                f = []
                for m, theta in pairs:
                    drawn = np.asarray(_alone(m, X, k)[0] @ theta.reshape(-1, theta.shape[-1]).T)
                    f.append(drawn.T.reshape(*theta.shape[:2], -1))
                group[f"smooth_{each.name}"], dims[f"smooth_{each.name}"] = f, ["obs"]
        return group, dims, coords

    def inclusion(self, reads: dict[str, Array], count: int) -> Array:
        """Inclusion probability of each of ``count`` numeric columns.

        ``reads`` has the columns of each term.  A term without a coefficient for each column needs
        all of its columns.
        """
        chances = [m.inclusion for m in self.machines if m.inclusion is not None]
        if not chances:
            raise AttributeError(
                "inclusion_proba_ needs a term with a selection prior, such as "
                "('x', Columns(), 'laplace_zero') or 'spike_slab'."
            )
        out = np.ones(count)  # probability of exclusion from all terms of all models
        model = self.machines[0].model
        for term, where in zip(model.terms, model.slices, strict=True):
            read = reads[term.name]
            single = term.design.has_labels and len(read) == term.design.width
            for chance in chances:
                out[read] *= 1.0 - (chance[where] if single else 1.0)
        return 1.0 - out

    def partial(self, X: Any, level: bool = True) -> tuple[dict[str, Array], dict[str, Array]]:
        """Mean and standard deviation of each term's contribution to f at rows, by name.

        Without ``level``, smooth functions are centred over the rows, and the first intercept
        includes their averages.
        """
        mean, std, model = {}, {}, self.machines[0].model
        moved = {} if level else _levels(self.machines[0], X)
        for k, term in enumerate(model.terms):
            pairs = [_partial(machine, X, k, moved.get(k)) for machine in self.machines]
            m, v = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
            mean[term.name], std[term.name] = m, np.sqrt(v)
            if len(pairs) == 1:
                mean[term.name], std[term.name] = m[:, 0], np.sqrt(v[:, 0])
        return mean, std


def _degrees_of_freedom(machine: BinaryModel) -> dict[str, float]:
    r"""Effective degrees of freedom of the smooth terms of a variational posterior, by name.

    The trace of the smoother: with precisions S of the rows, P of the prior, and
    :math:`\Sigma = (S + P)^{-1}`, a term of *m* columns has
    :math:`\mathrm{tr}(\Sigma S)_{jj} = m - \mathrm{tr}(\Sigma_{jj} P_{jj})`.
    """
    out: dict[str, float] = {}
    if not isinstance(machine.posterior, GaussianPosterior):
        return out
    variance = machine.state.coef.cov.diag()
    model = machine.model
    for term, where, s in zip(model.terms, model.slices, machine.state.priors, strict=True):
        if not (term.design.has_labels or term.design.is_grouped):
            precision = term.prior.precisions(s, term.design.width)
            out[term.name] = term.design.width - float(np.sum(precision * variance[where]))
    return out


def centred(machine: BinaryModel, k: int, X: Any, around: Any) -> tuple[Array, Array | None]:
    """Mean and variance of term ``k``'s contribution to f, centred over the rows ``around``.

    Beside an intercept the level of a smooth function is hardly identified; its shape is.
    """
    m, v = _partial(machine, X, k, _average(machine, k, around))
    return m, v if machine.reported.has_spread else None


def _average(machine: BinaryModel, k: int, X: Any) -> Array:
    """Averages of the columns of term ``k`` over rows, zero for other terms."""
    where, out = machine.model.slices[k], np.zeros(machine.model.width)
    out[where] = plain(_alone(machine, X, k)[0])[:, where].mean(axis=0)
    return out


def _levels(machine: BinaryModel, X: Any) -> dict[int, Array]:
    """The averages to subtract from each term's columns, by term: for smooth functions.

    For the first intercept they are the sum over all smooth functions, with opposite sign.
    """
    terms = machine.model.terms
    smooth = [k for k, t in enumerate(terms) if not (t.design.has_labels or t.design.is_grouped)]
    out = {k: _average(machine, k, X) for k in smooth}
    first = [k for k, term in enumerate(terms) if term.design.is_intercept]
    if out and first:
        out[first[0]] = -np.sum(list(out.values()), axis=0)
    return out


def _alone(machine: BinaryModel, X: Any, k: int) -> tuple[Any, Rows]:
    """Columns of term ``k`` at rows, zero for other terms; and the rows."""
    model, where = machine.model, machine.model.slices[k]
    rows = predict_rows(model, X, machine.params) if machine.params else model.rows(X)
    own = np.zeros(model.width)
    own[where] = 1.0
    return scaled(rows.C, own), rows


def _partial(machine: BinaryModel, X: Any, k: int, level: Array | None) -> tuple[Array, Array]:
    """Mean and variance of term ``k``'s contribution to f, with ``level`` subtracted."""
    model, post, where = machine.model, machine.reported, machine.model.slices[k]
    C, rows = _alone(machine, X, k)
    if level is not None:
        own = plain(C)  # columns of groups, which are last, are zero
        C = sparse.csr_array(own - level[: own.shape[1]])
        C.resize((own.shape[0], model.width))
    V = tuple(h for h in rows.V if h.where == where)
    if V and post.has_spread:
        drawn = Coef(post.mean, machine.state.coef.cov)
        coef = post.coef if isinstance(post, GaussianPosterior) else drawn
        m, v = moments(Rows(C, 0.0, V), coef)
    else:
        m, v = post.reported_moments(C)
    if k in model.grouped:  # groups not seen in training
        v = v + model.terms[k].design.absent(X, machine.spread(k))
    return m, np.broadcast_to(v, m.shape)
