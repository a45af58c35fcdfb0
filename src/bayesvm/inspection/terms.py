"""Contributions of the terms of an additive model to f."""

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


def partial(
    machines: Sequence[BinaryModel], X: Any, level: bool = True
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Mean and standard deviation of each term's contribution to f at rows, by name.

    Without ``level``, smooth functions are centred over the rows, and the first intercept
    includes their averages.
    """
    mean, std, model = {}, {}, machines[0].model
    moved = {} if level else _levels(machines[0], X)
    for k, term in enumerate(model.terms):
        pairs = [_partial(machine, X, k, moved.get(k)) for machine in machines]
        m, v = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
        mean[term.name], std[term.name] = m, np.sqrt(v)
        if len(pairs) == 1:
            mean[term.name], std[term.name] = m[:, 0], np.sqrt(v[:, 0])
    return mean, std


def degrees_of_freedom(machine: BinaryModel) -> dict[str, float]:
    r"""Effective degrees of freedom of the smooth terms of a variational posterior, by name.

    The trace of the smoother: with precisions S of the rows, P of the prior, and
    :math:`\Sigma = (S + P)^{-1}`, a term of *m* columns has
    :math:`\mathrm{tr}(\Sigma S)_{jj} = m - \mathrm{tr}(\Sigma_{jj} P_{jj})`.
    """
    out: dict[str, float] = {}
    if not isinstance(machine.posterior, GaussianPosterior):
        return out
    variance = machine.ascent.state.coef.cov.diag()
    model = machine.model
    for term, where, s in zip(model.terms, model.slices, machine.ascent.state.priors, strict=True):
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
    out[where] = plain(term_rows(machine, X, k)[0])[:, where].mean(axis=0)
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


def term_rows(machine: BinaryModel, X: Any, k: int) -> tuple[Any, Rows]:
    """Columns of term ``k`` at rows, zero for other terms; and the rows."""
    model, where = machine.model, machine.model.slices[k]
    rows = predict_rows(model, X, machine.params) if machine.params else model.rows(X)
    own = np.zeros(model.width)
    own[where] = 1.0
    return scaled(rows.C, own), rows


def _partial(machine: BinaryModel, X: Any, k: int, level: Array | None) -> tuple[Array, Array]:
    """Mean and variance of term ``k``'s contribution to f, with ``level`` subtracted."""
    model, post, where = machine.model, machine.reported, machine.model.slices[k]
    C, rows = term_rows(machine, X, k)
    if level is not None:
        own = plain(C)  # columns of groups, which are last, are zero
        C = sparse.csr_array(own - level[: own.shape[1]])
        C.resize((own.shape[0], model.width))
    V = tuple(h for h in rows.V if h.where == where)
    if V and post.has_spread:
        drawn = Coef(post.mean, machine.ascent.state.coef.cov)
        coef = post.coef if isinstance(post, GaussianPosterior) else drawn
        m, v = moments(Rows(C, 0.0, V), coef)
    else:
        m, v = post.reported_moments(C)
    if k in model.grouped:  # groups not seen in training
        v = v + model.terms[k].design.absent(X, machine.spread(k))
    return m, np.broadcast_to(v, m.shape)
