"""Average effects of columns on probabilities, a method of the estimators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.utils import get_tags

from ..core import arrays
from ..core.types import Array
from ..inputs.parameters import is_number
from ..inputs.reading import column_names, column_of
from ..inputs.tables import cells_of
from ..machines.calibration import Calibrated
from ..machines.machine import Machine
from ..model.latent import predict_rows
from ..reports.tables import pandas_for, stacked, tails
from .predictions import pieces, proba
from .surface import note_of_width

CHANGES = ("sd", "unit", "slope")
STEP = 1e-3  # of a difference that stands for a derivative, in standard deviations
PIECE = 5000  # rows whose columns are held at once


def average_effects(
    self: Any, X: Any, columns: Any = None, change: Any = "sd", level: float = 0.9
) -> Any:
    r"""Average change of the probability of a class when one column changes, with intervals.

    .. math::

        \frac1n\sum_i P(y = 1 \mid x_i^{high}) - P(y = 1 \mid x_i^{low}),

    where the rows differ in one column.  Probabilities are those of ``predict_proba``; intervals
    are those of f, to first order (the delta method), and follow ``width``.

    Parameters
    ----------
    X : array-like of shape (n, n_features)
        Rows over which to average, such as the training rows.
    columns : name, position or list of these, optional
        Columns of the input; by default all.
    change : {"sd", "unit", "slope"}, number, pair, or dict of these by column, default="sd"
        One standard deviation of the column in ``X`` (which needs rows that differ), one unit, or a
        number of units, half below and half above the value of each row; ``"slope"``, the
        derivative per unit; a pair, from the first value to the second.  Columns of categories
        go from their first level to each of the others, and numbers with two values in ``X`` from
        the lower to the higher, unless a pair is given.
    level : float, default=0.9
        Posterior mass of the interval.

    Returns
    -------
    frame : pandas.DataFrame
        Indexed by column and change (and class, for more than two): mean, sd, lower, upper; under
        EM, and of factor models, only the mean.  Of two classes the effects are on the probability
        of ``classes_[1]``.  Where widths can only be those of the posterior, as of several classes
        fitted together, ``frame.attrs["note"]`` says so.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm import BayesianLinearSVC
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> y = X[:, 0] + np.random.default_rng(1).logistic(size=200) > 0
    >>> effects = BayesianLinearSVC().fit(X, y).average_effects(X)
    >>> effects.index.tolist()
    [('x0', '+1 sd'), ('x1', '+1 sd')]
    >>> bool(0.1 < effects["lower"].iloc[0] < effects["upper"].iloc[0] < 0.4)
    True
    """
    return average(self, X, columns, change, level)


def average_effects_in_groups(
    self: Any,
    X: Any,
    columns: Any = None,
    change: Any = "sd",
    level: float = 0.9,
    groups: Any = None,
) -> Any:
    """Average change of a probability when one column changes, of rows in ``groups``.

    As :meth:`BayesianLinearSVC.average_effects`; groups that were not seen or are not given are
    averaged over.
    """
    return average(self, X, columns, change, level, groups)


class Contrast(NamedTuple):
    """A column, what happens to it, and its values below and above."""

    name: str
    change: str
    position: int
    low: Any
    high: Any
    unit: float = 1.0  # of the column, by which a derivative is divided


def average(model: Any, X: Any, columns: Any, change: Any, level: float, groups: Any = None) -> Any:
    """Average effects of the changes of columns."""
    pd = pandas_for("average_effects")
    tails(level)
    model._fitted()
    if get_tags(model).input_tags.pairwise:
        raise ValueError("average_effects changes columns; a precomputed kernel has none.")
    X = editable(model._own_columns(X), pd)
    model._read_new(X, groups)  # wrong rows are refused before they are changed
    every = list(contrasts(model, X, columns, change))
    if not every:
        raise ValueError("average_effects has no column to change; name one in columns.")
    return effects_of(model, X, every, level, groups)


def effects_of(
    model: Any, X: Any, every: Sequence[Contrast], level: float, groups: Any = None, total: int = 0
) -> Any:
    """Average effects of given changes.

    If the rows are drawn at random from a table of ``total`` rows, whose average is meant,
    intervals count what the average of all of them may differ by.
    """
    pd, ends, fit, n = pandas_for("average_effects"), tails(level), model._fitted(), X.shape[0]
    first = fit.machines[0]
    spread = isinstance(first, Machine) and first.posterior.has_spread
    means, pulls, unit = [], [], np.array([one.unit for one in every])
    errors, kept = [], {}  # variances of means by the draw of rows; the side below that many share
    for one in every:
        shared = (one.position, one.low) if np.ndim(one.low) == 0 else None
        if shared is None or shared not in kept:
            kept = {shared: _side(model, with_column(X, one.position, one.low), groups, spread)}
        high = _side(model, with_column(X, one.position, one.high), groups, spread)
        low = kept[shared]
        rise = (high[0] - low[0])[:, 1 if len(fit.classes) == 2 else 0 :] / one.unit
        means.append(rise.mean(axis=0))
        errors.append(
            max(1.0 - n / total, 0.0) * rise.var(axis=0) / n if total else 0.0 * means[-1]
        )
        if spread:
            pulls.append([(b - a) / one.unit for a, b in zip(low[1], high[1], strict=True)])
    index = pd.MultiIndex.from_tuples([one[:2] for one in every], names=["name", "change"])
    mean, error, frames = np.array(means), np.array(errors), []  # (effects, classes)
    for k in range(mean.shape[1]):
        table = {"mean": mean[:, k]}
        if spread:
            each = [[x[k] for x in p] for p in pulls]
            table |= _spread(fit, mean[:, k], each, ends, error[:, k])
            for end in ("lower", "upper"):
                table[end] = np.clip(table[end], -1.0 / unit, 1.0 / unit)
        frames.append(pd.DataFrame(table, index=index))
    out = stacked(frames, fit.classes, pd)
    if spread and (note := note_of_width(model)):
        out.attrs["note"] = note
    return out


def _side(model: Any, X: Any, groups: Any, spread: bool) -> tuple[Array, list[Array]]:
    """Probabilities of rows and, where wanted, derivatives of their averages."""
    return pulls_at(model, X, groups) if spread else (proba(model, X, groups), [])


def average_at(
    model: Any, X: Any, column: int, values: Sequence[Any], level: float, groups: Any = None
) -> Any:
    """Average probabilities of rows as one column takes each of the values, as a data frame.

    Indexed by value (and class, for more than two): mean, and lower and upper where there is a
    posterior.  Intervals are those of :func:`average_effects`.
    """
    pd, ends, fit = pandas_for("average_at"), tails(level), model._fitted()
    first, frames = fit.machines[0], []
    spread = isinstance(first, Machine) and first.posterior.has_spread
    X = editable(X, pd)
    sides = [_side(model, with_column(X, column, x), groups, spread) for x in values]
    mean = np.array([P.mean(axis=0) for P, _ in sides])[:, 1 if len(fit.classes) == 2 else 0 :]
    pulls = [pull for _, pull in sides if spread]
    for k in range(mean.shape[1]):
        frame = pd.DataFrame({"mean": mean[:, k]}, index=pd.Index(values, name="value"))
        if pulls:
            each = [[x[k] for x in p] for p in pulls]
            found = _spread(fit, mean[:, k], each, ends, np.zeros(len(sides)))
            frame["lower"], frame["upper"] = (np.clip(found[e], 0, 1) for e in ("lower", "upper"))
        frames.append(frame)
    return stacked(frames, fit.classes, pd)


def pulls_at(model: Any, X: Any, groups: Any) -> tuple[Array, list[Array]]:
    """Probabilities of rows, and derivatives of their averages in coefficients of each machine.

    Each of these is a matrix ``(classes, K)``; of two classes only the second counts.  The last is
    that in the numbers of a fitted link.
    """
    fit, n = model.fit_, 0
    link = fitted_link(fit)
    pull = [np.zeros(())] * (len(fit.machines) + (link is not None))
    each = []
    for rows in pieces(model._read_new(X, groups), PIECE):
        m, v = (np.stack(x, axis=1) for x in zip(*fit.moments_at(rows), strict=True))
        n, first = n + len(m), 1 if fit.is_binary else 0
        each.append(fit.proba(m, v))
        for j, machine in enumerate(fit.machines):
            step = np.zeros_like(m)
            step[:, j] = STEP * (1.0 + np.sqrt(v[:, j]))
            rise = (fit.proba(m + step, v) - fit.proba(m - step, v))[:, first:]
            slope = rise / (2.0 * step[:, j, None])
            pull[j] = pull[j] + np.asarray(_columns(machine, rows).T @ slope).T
        if link is not None:
            p = each[-1][:, 1]
            slopes = link.slopes(m[:, 0], v[:, 0])  # (numbers, n)
            pull[-1] = pull[-1] + (slopes @ (p * (1.0 - p)))[None]
    return np.concatenate(each), [x / n for x in pull]


def fitted_link(fit: Any) -> Calibrated | None:
    """The link of two classes, where it has an uncertainty of its own that is to be counted."""
    machine = fit.machines[0]
    counts = fit.is_binary and machine.width is not None and isinstance(machine.link, Calibrated)
    return machine.link if counts and machine.link.uncertainty is not None else None


def _columns(machine: Any, rows: Any) -> Any:
    """Columns of theta at rows."""
    if machine.model.is_latent:
        return predict_rows(machine.model, rows, machine.params).C
    return machine.model.rows(rows).C


def _spread(
    fit: Any, mean: Array, pulls: Sequence[Sequence[Array]], ends: tuple[float, float], error: Array
) -> dict[str, Array]:
    """Standard deviations and intervals of effects with given derivatives.

    ``error`` are variances of the effects by what is no part of the fit.
    """
    each = [np.stack(x) for x in zip(*pulls, strict=True)]  # (effects, K) for each machine
    z, link, machines = ndtri(np.array(ends))[:, None], fitted_link(fit), fit.machines
    if len(machines) > 1:
        pairs = zip(machines, each, strict=True)
        sd = np.sqrt(error + sum(machine.reported.reported(C)[1] for machine, C in pairs))
        low, high = mean + sd * z
        return {"sd": sd, "lower": low, "upper": high}
    (machine,), C, extra = machines, each[0], error
    post = machine.reported
    if link is not None:  # what it corrects is not counted twice
        post = machine.width.posterior(machine.posterior, of_link=True)
        cov: Any = link.uncertainty
        extra = error + np.einsum("ei,ij,ej->e", each[-1], cov, each[-1])
    gap = post.quantiles(C, ends) - C @ post.mean
    low, high = mean + np.copysign(np.hypot(gap, z * np.sqrt(extra)), z)
    return {"sd": np.sqrt(post.reported(C)[1] + extra), "lower": low, "upper": high}


# ---------------------------------------------------------------------------------------------
# What changes


def contrasts(model: Any, X: Any, columns: Any, change: Any) -> Iterator[Contrast]:
    """The changes of each column."""
    names = [str(k) for k in (column_names(X) or model._input_names())]
    known = model._levels_of(names)
    given = change if isinstance(change, Mapping) else {}
    by_column = {_chosen(known, names, [name])[0]: how for name, how in given.items()}
    for j in _chosen(known, names, columns if columns is not None or not given else list(given)):
        how = by_column.get(j, "sd") if isinstance(change, Mapping) else change
        amount = float(how) if is_number(how) else None
        is_word = isinstance(how, str)
        is_pair = not is_word and isinstance(how, Sequence | np.ndarray) and len(how) == 2
        if not (is_pair or (is_word and how in CHANGES) or (amount and np.isfinite(amount))):
            raise ValueError(
                f"change={how!r} is not known; choose 'sd', 'unit', 'slope', a number of units "
                "other than 0, or a pair (from, to) of values of the column, such as (40, 50)."
            )
        if is_pair:
            low, high = how
            yield Contrast(names[j], f"{low} to {high}", j, low, high)
            continue
        cells = X[:, [j]].toarray() if sparse.issparse(X) else cells_of(column_of(X, j))
        levels = known.get(j)
        is_real = cells.dtype.kind in "biuf" or all(isinstance(cell, Real) for cell in cells)
        if levels is None and not is_real:
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
        if amount is not None:
            step, label = amount, f"{amount:+g}"
        else:
            step = {"sd": sd, "unit": 1.0, "slope": STEP * (sd or 1.0)}[how]
            label = {"sd": "+1 sd", "unit": "+1", "slope": "slope"}[how]
        unit = step if how == "slope" else 1.0
        yield Contrast(names[j], label, j, values - 0.5 * step, values + 0.5 * step, unit)


def _chosen(known: Mapping[int, Any], names: list[str], columns: Any) -> list[int]:
    """Positions of columns given by name or position; by default of all that may change."""
    if columns is None:
        return list(known)
    given = [columns] if isinstance(columns, str | int | np.integer) else columns
    is_list = isinstance(given, Iterable) and hasattr(given, "__len__")
    if not is_list or len(given) > len(names) or any(map(_is_no_column, given)):
        what = f"{len(given)} values" if is_list else repr(columns)
        raise ValueError(
            f"columns must be names or positions of some of the {len(names)} columns of X; got "
            f"{what} ({type(columns).__name__}). Labels are not needed; give others by name, such "
            "as level=0.9."
        )
    out = []
    for column in given:
        at = names.index(column) if isinstance(column, str) and column in names else column
        if isinstance(at, str) or not -len(names) <= at < len(names):
            raise ValueError(f"column {column!r} is not in X, whose columns are {names}.")
        if int(at) % len(names) not in known:
            raise ValueError(
                f"the model has no effect of the column {column!r} that all rows share; choose "
                f"among {[names[j] for j in known]}."
            )
        out.append(int(at) % len(names))
    return out


def _is_no_column(value: Any) -> bool:
    return isinstance(value, bool) or not isinstance(value, str | int | np.integer)


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
    """The table with other values in a column; one value is for all rows."""
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
