"""Average effects of columns on class probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.utils import get_tags

from ..core import arrays
from ..core.parameters import is_among, is_number
from ..core.types import Array
from ..data.tables import cells_of, column_names, column_of
from ..designs.groups import Layout
from ..inference.latent import predict_rows
from ..inspection.tables import pandas_for, stacked, tails
from ..predictive.fitted import DRAWS, BinaryModel
from ..predictive.links import CalibratedLink
from .predictions import pieces, proba

STEP = 1e-3  # finite-difference step, in standard deviations


class Contrast(NamedTuple):
    """A column, its change, and its values below and above."""

    name: str
    change: str
    position: int
    low: Any
    high: Any
    unit: float = 1.0  # of the column; derivatives are divided by it


def average_effects(
    model: Any, X: Any, columns: Any, change: Any, level: float, groups: Any = None
) -> Any:
    """Average effects of changes of columns; see the method of the estimators."""
    pd = pandas_for("average_effects")
    tails(level)
    model._fitted()
    if get_tags(model).input_tags.pairwise:
        raise ValueError("average_effects changes columns; a precomputed kernel has none.")
    X = editable(model._own_columns(X), pd)
    model._read_new(X, groups)  # check the rows before they are changed
    every = list(contrasts(model, X, columns, change))
    if not every:
        raise ValueError("average_effects has no column to change; name one in columns.")
    return effects_of(model, X, every, level, groups)


def effects_of(
    model: Any, X: Any, every: Sequence[Contrast], level: float, groups: Any = None, total: int = 0
) -> Any:
    """Average effects of given changes.

    If the rows are a random sample of a table of ``total`` rows, intervals include the sampling
    error of the average over the whole table.
    """
    pd, fit, n = pandas_for("average_effects"), model._fitted(), X.shape[0]
    scale = getattr(fit.machines[0], "effect_scale", 1.0)
    unseen = max(1.0 - n / total, 0.0) if total else 0.0
    effects, errors = [], []  # errors: variances of the means by the draw of rows
    for one in every:
        low, high = (
            average_proba(model, with_column(X, one.position, values), groups)
            for values in (one.low, one.high)
        )
        rise = (high.each - low.each) * (scale / one.unit)
        # the standard deviation of a fitted slope does not depend on its size
        factors = [scale] * len(fit.machines) + [1.0]
        pairs = zip(low.slopes, high.slopes, factors, strict=False)
        effects.append(Average(rise, [(b - a) * (k / one.unit) for a, b, k in pairs]))
        errors.append(unseen * rise.var(axis=0) / n)
    index = pd.MultiIndex.from_tuples([one[:2] for one in every], names=["name", "change"])
    most = 1.0 / np.array([one.unit for one in every])
    out = table_of(fit, effects, np.array(errors), index, level, (-most, most))
    if "sd" in out and (note := model._width_note()):
        out.attrs["note"] = note
    return out


def average_at(
    model: Any, X: Any, column: int, values: Sequence[Any], level: float, groups: Any = None
) -> Any:
    """Average probabilities with one column set to each of the values, as a data frame.

    Indexed by value (and class, for more than two): mean; sd, lower and upper if there is a
    posterior.  Intervals are computed as in :func:`average_effects`.
    """
    pd, fit = pandas_for("average_at"), model._fitted()
    X = editable(X, pd)
    averages = [average_proba(model, with_column(X, column, x), groups) for x in values]
    index = pd.Index(values, name="value")
    return table_of(fit, averages, np.zeros((len(averages), 1)), index, level, (0.0, 1.0))


class Average(NamedTuple):
    """Probabilities of rows (or their changes) and derivatives of their averages."""

    each: Array  # (n, classes); for two classes only the second
    # (classes, K): in the coefficients of each binary model, then in the parameters of the link
    slopes: list[Array]


def average_proba(model: Any, X: Any, groups: Any, size: int = 5000) -> Average:
    """Probabilities of rows and, if there is a posterior, derivatives of their averages.

    The rows are processed in blocks of ``size``.
    """
    fit, n = model.fit_, X.shape[0]
    first, link = 1 if len(fit.classes) == 2 else 0, fitted_link(fit)
    if not has_spread(fit):
        return Average(proba(model, X, groups)[:, first:], [])
    slopes: list[Any] = [0.0] * (len(fit.machines) + (link is not None))
    each = []
    for rows in pieces(model._read_new(X, groups), size):
        m, v = (np.stack(x, axis=1) for x in zip(*fit.moments_at(rows), strict=True))
        each.append(fit.proba(m, v)[:, first:])
        for j, machine in enumerate(fit.machines):
            step = np.zeros_like(m)
            step[:, j] = STEP * (1.0 + np.sqrt(v[:, j]))
            rise = (fit.proba(m + step, v) - fit.proba(m - step, v))[:, first:]
            slope = rise / (2.0 * step[:, j, None])
            slopes[j] = slopes[j] + np.asarray(_columns(machine, rows).T @ slope).T / n
        if link is not None:
            p = each[-1][:, 0]
            slopes[-1] = slopes[-1] + (link.slopes(m[:, 0], v[:, 0]) @ (p * (1.0 - p)))[None] / n
    return Average(np.concatenate(each), slopes)


def has_spread(fit: Any) -> bool:
    """Whether the coefficients have a posterior."""
    return isinstance(fit.machines[0], BinaryModel) and fit.machines[0].posterior.has_spread


def fitted_link(fit: Any) -> CalibratedLink | None:
    """The link of two classes, if its estimation uncertainty is included."""
    machine = fit.machines[0]
    counts = has_spread(fit) and fit.is_binary and machine.robust_covariance is not None
    link = machine.link if counts and isinstance(machine.link, CalibratedLink) else None
    return None if link is None or link.cov is None else link


def _columns(machine: Any, rows: Any) -> Any:
    """Rows of the design matrix."""
    if machine.model.is_latent:
        return predict_rows(machine.model, rows, machine.params).C
    return machine.model.rows(rows).C


def table_of(
    fit: Any,
    averages: Sequence[Average],
    errors: Array,
    index: Any,
    level: float,
    limits: tuple[Any, Any],
) -> Any:
    """Averages with standard deviations and intervals by the delta method, as a data frame.

    ``errors`` are variances that the posterior does not include, ``(averages, classes)``.
    """
    pd, z, frames = pandas_for("average_effects"), ndtri(np.array(tails(level)))[:, None], []
    mean = np.array([one.each.mean(axis=0) for one in averages])
    drawn = len(fit.machines) > 1 and has_spread(fit)
    thetas = fit.thetas(DRAWS, np.random.default_rng(0)) if drawn else []
    for k in range(mean.shape[1]):
        table = {"mean": mean[:, k]}
        if has_spread(fit):
            pairs = zip(*(one.slopes for one in averages), strict=True)
            slopes = [np.stack([x[k] for x in each]) for each in pairs]  # (averages, K) each
            error = errors[:, min(k, errors.shape[1] - 1)]
            if thetas:  # coefficients of classes fitted together are correlated
                f = sum(theta @ S.T for theta, S in zip(thetas, slopes, strict=True))
                table["sd"] = np.sqrt(f.var(axis=0) + error)
                low, high = mean[:, k] + table["sd"] * z
            else:
                post, link, S = fit.machines[0].reported, fitted_link(fit), slopes[0]
                if link is not None:  # its correction is not counted twice
                    machine = fit.machines[0]
                    post = machine.robust_covariance.posterior(machine.posterior, "effect_root")
                    cov = link.counted * np.asarray(link.cov)
                    error = error + np.einsum("ei,ij,ej->e", slopes[1], cov, slopes[1])
                table["sd"] = np.sqrt(post.reported_moments(S)[1] + error)
                gap = post.quantiles(S, tails(level)) - S @ post.mean
                low, high = mean[:, k] + np.copysign(np.hypot(gap, z * np.sqrt(error)), z)
            table["lower"], table["upper"] = np.clip(low, *limits), np.clip(high, *limits)
        frames.append(pd.DataFrame(table, index=index))
    return stacked(frames, fit.classes, pd)


# ---------------------------------------------------------------------------------------------
# What changes


def contrasts(model: Any, X: Any, columns: Any, change: Any) -> Iterator[Contrast]:
    """The changes of each column."""
    names = [str(k) for k in (column_names(X) or model._input_names())]
    known = model._levels_of(names)
    given = change if isinstance(change, Mapping) else {}
    by_column = {_chosen(known, names, [name])[0]: how for name, how in given.items()}
    for j in _chosen(known, names, list(given) if columns is None and given else columns):
        how = by_column.get(j, "sd") if isinstance(change, Mapping) else change
        if isinstance(how, Sequence | np.ndarray) and not isinstance(how, str) and len(how) == 2:
            yield Contrast(names[j], f"{how[0]} to {how[1]}", j, *how)
            continue
        amount = float(how) if is_number(how) else None
        if not (is_among(how, ("sd", "unit", "slope")) or (amount and np.isfinite(amount))):
            raise ValueError(
                f"change={how!r} is not known; choose 'sd', 'unit', 'slope', a number of units "
                "other than 0, or a pair (from, to) of values of the column, such as (40, 50)."
            )
        cells = X[:, [j]].toarray() if sparse.issparse(X) else cells_of(column_of(X, j))
        levels, is_real = known.get(j), cells.dtype.kind in "biuf"
        if levels is None and not (is_real or all(isinstance(cell, Real) for cell in cells)):
            levels = tuple(sorted(set(cells.tolist())))
        if levels is not None:
            first, *rest = (level for level in levels if level is not None)
            for level in rest:
                yield Contrast(names[j], f"{level} against {first}", j, first, level)
            continue
        values = np.asarray(cells, dtype=float).ravel()
        seen = np.unique(values[~np.isnan(values)])
        if how != "slope" and seen.size == 2:
            low, high = seen.tolist()
            yield Contrast(names[j], f"{low:g} to {high:g}", j, low, high)
            continue
        if how == "sd" and seen.size < 2 and (columns is not None or values.size == 1):
            raise ValueError(
                f"column {names[j]!r} has {seen.size} values in X, so that it has no standard "
                "deviation there; give more rows, change='unit' or 'slope', or a pair of values."
            )
        sd = float(np.nanstd(values)) if seen.size else 0.0
        steps = {"sd": ("+1 sd", sd), "unit": ("+1", 1.0), "slope": ("slope", STEP * (sd or 1.0))}
        label, step = steps[how] if amount is None else (f"{amount:+g}", amount)
        unit = step if how == "slope" else 1.0
        yield Contrast(names[j], label, j, values - 0.5 * step, values + 0.5 * step, unit)


def _chosen(known: Mapping[int, Any], names: list[str], columns: Any) -> list[int]:
    """Positions of columns given by name or position; by default all columns that may change."""
    if columns is None:
        return list(known)
    given = [columns] if isinstance(columns, str | int | np.integer) else columns
    is_list = isinstance(given, Iterable) and hasattr(given, "__len__")
    if not is_list or len(given) > len(names) or any(isinstance(k, bool | float) for k in given):
        raise ValueError(
            f"columns must be names or positions of some of the {len(names)} columns of X; got "
            f"{type(columns).__name__}. Labels are not needed; give others by name, such as "
            "level=0.9."
        )
    layout = Layout(tuple(names), len(names))
    found = [layout.position(column) for column in given]
    if absent := [names[j] for j in found if j not in known]:
        raise ValueError(
            f"the model has no effect of the column {absent[0]!r} that all rows share; choose "
            f"among {[names[j] for j in known]}."
        )
    return found


def editable(X: Any, pd: Any) -> Any:
    """A pandas frame, an array or a sparse array whose columns can be replaced."""
    if sparse.issparse(X):
        return sparse.csc_array(X)
    if hasattr(X, "iloc"):
        return X
    if names := column_names(X):
        return pd.DataFrame({name: cells_of(column_of(X, j)) for j, name in enumerate(names)})
    X = np.asarray(arrays.to_numpy(X))
    return X.astype(float, copy=False) if X.dtype.kind in "biuf" else X


def with_column(X: Any, j: int, values: Any) -> Any:
    """A copy of the table with new values in one column; a scalar applies to all rows."""
    n = X.shape[0]
    if isinstance(values, Real | str) or np.ndim(values) == 0:
        kind = float if isinstance(values, Real) and not isinstance(values, bool) else object
        values = np.full(n, values, dtype=kind)
    if sparse.issparse(X):
        parts = [X[:, :j], sparse.csc_array(values[:, None]), X[:, j + 1 :]]
        return sparse.csr_array(sparse.hstack(parts))
    out = X.copy()
    if hasattr(X, "iloc"):
        out.isetitem(j, values)
    else:
        out[:, j] = values
    return out
