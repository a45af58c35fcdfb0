"""Plots of one value per column or group: coefficients, effects, inclusion, loadings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for, machine_for
from ..inspection.kernels import relevances

Parts = tuple[Array, Array | None, Array | None]  # means, and interval ends if any


@dataclass(repr=False)
class _Intervals(Display):
    """Named means with interval ends."""

    names: list[str]
    mean: Array
    lower: Array | None = None
    upper: Array | None = None
    xlabel: str = ""
    _downwards = True  # first entry at the top

    @classmethod
    def _of(cls, names: Iterable[Any], parts: Parts, xlabel: str, level: float) -> Self:
        """From means and, unless the fit is a point estimate, interval ends."""
        told = "" if parts[1] is None else f" ({100 * level:g}% interval)"
        return cls([str(name) for name in names], *parts, xlabel=xlabel + told)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw points and bars; further arguments go to ``Axes.errorbar``."""
        ax = axes_for(self, ax)
        parts = self.mean, self.lower, self.upper
        draw_intervals(ax, self.names, parts, kwargs, self._downwards)
        ax.set_xlabel(self.xlabel)
        return self


def error_bars(mean: Array, lower: Array | None, upper: Array | None) -> Array | None:
    """Lengths of error bars, at least zero if the mean of draws is outside its interval."""
    if lower is None or upper is None:
        return None
    return np.maximum([mean - lower, upper - mean], 0.0)


def draw_intervals(
    ax: Any, names: Sequence[str], parts: Parts, style: dict[str, Any], downwards: bool = True,
    most: int = 40,
) -> None:  # fmt: skip
    """Means as points with error bars and names, first entry at the top.

    Groups start at the bottom, and are named if there are at most ``most``.
    """
    at = np.arange(len(names))
    style = {"fmt": "o", "markersize": 4 if downwards else 3} | style
    ax.errorbar(parts[0], at, xerr=error_bars(*parts), **style)
    ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_ylim(-0.5, len(at) - 0.5)
    if downwards:
        ax.invert_yaxis()
    if downwards or len(names) <= most:
        ax.set_yticks(at, names)
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names)} groups, in order")


def parts_of(frame: Any) -> Parts:
    """Means in a data frame and, if available, interval ends."""
    lower, upper = (frame[end].to_numpy() if end in frame else None for end in ("lower", "upper"))
    return frame["mean"].to_numpy(), lower, upper


@dataclass(repr=False)
class CoefficientDisplay(_Intervals):
    """Posterior means of coefficients with intervals.

    Parameters
    ----------
    names, mean, lower, upper : list of str, and arrays of the same length
        Coefficients, first at the top.  Under EM the interval ends are ``None``.
    xlabel : str, default="coefficient"
        Label of the axis.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> model = BayesianLinearSVC().fit(*load_breast_cancer(return_X_y=True))
    >>> plot.CoefficientDisplay.from_estimator(model, top=2).names
    ['x...', 'x...']
    """

    xlabel: str = "coefficient"

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, top: int | None = None,
        sort: bool = True, level: float = 0.9, standardized: bool = True, label: Any = None,
        **kwargs: Any,
    ) -> CoefficientDisplay:  # fmt: skip
        """Draw the ``top`` coefficients of a linear estimator.

        They are sorted by ``|mean| / sd`` (``|mean|`` under EM).  With ``standardized`` they are
        multiplied by the standard deviations of columns that ``fit`` has standardised.
        """
        inside = Inside.fitted(estimator, "coef_")
        model = inside.model
        machine, j, label = machine_for(model, label)
        scale = machine.model.find("coef")[0].design.scale
        coef, lower, upper = model._user(machine.coefficients.mean)[0], None, None
        unit = scale if standardized else np.ones(coef.size)
        size = np.abs(coef) * scale
        if machine.posterior.has_spread:
            size = np.abs(coef) / (np.atleast_2d(model.coef_std_)[j] + 1e-300)
        order = (np.argsort(-size, kind="stable") if sort else np.arange(size.size))[:top]
        if machine.posterior.has_spread:
            ends = (np.atleast_2d(end)[j] for end in model.coef_interval(level))
            lower, upper = ((end * unit)[order] for end in ends)
        parts = (coef * unit)[order], lower, upper
        known = inside.names() if names is None else names
        xlabel = "coefficient" if label is None else f"coefficient for {label!s}"
        xlabel += ", per sd of column" if standardized else ""
        return cls._of([known[k] for k in order], parts, xlabel, level).plot(**kwargs)


@dataclass(repr=False)
class EffectsDisplay(_Intervals):
    """Average effects of columns on a probability with intervals, largest first.

    Parameters
    ----------
    names, mean, lower, upper : list of str, and arrays of the same length
        Changes of columns and their effects on the probability, first at the top.  Under EM the
        interval ends are ``None``.
    xlabel : str, default="change of probability"
        Label of the axis.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BayesianLinearSVC().fit(X, y)
    >>> plot.EffectsDisplay.from_estimator(model, X, label=1, top=2).names
    ['petal ..., +1 sd', 'petal ..., +1 sd']
    """

    xlabel: str = "change of probability"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, columns: Any = None, change: Any = "sd",
        level: float = 0.9, label: Any = None, top: int | None = None, groups: Any = None,
        **kwargs: Any,
    ) -> EffectsDisplay:  # fmt: skip
        """Draw the ``top`` largest effects of ``average_effects``.

        ``groups`` are the groups of the rows, for estimators with groups.
        """
        inside = Inside.fitted(estimator, "average_effects")
        model, inner = inside.model, {} if groups is None else {"groups": groups}
        label = machine_for(model, label)[2]
        frame = model.average_effects(inside.rows(X), columns, change, level, **inner)
        frame = frame.loc[label] if len(model.classes_) > 2 else frame
        order = np.argsort(-np.abs(frame["mean"].to_numpy()), kind="stable")[:top]
        frame = frame.iloc[order]
        given = dict(zip(model._input_names(), inside.names(made=False), strict=True))
        names = [f"{given.get(name, name)}, {what}" for name, what in frame.index]
        xlabel = f"average change of P({label!s})"
        return cls._of(names, parts_of(frame), xlabel, level).plot(**kwargs)


@dataclass(repr=False)
class GroupDisplay(_Intervals):
    """Caterpillar plot: random effects of groups in ascending order, with intervals.

    Parameters
    ----------
    names : list of str
        Groups, lowest effect first.
    mean, lower, upper : arrays of the same length
        Effects.  Under EM the interval ends are ``None``.
    xlabel : str, default="effect"
        Label of the axis.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm import MixedSVC, plot
    >>> rng = np.random.default_rng(0)
    >>> X, g = rng.standard_normal((300, 2)), rng.integers(0, 20, 300)
    >>> y = X[:, 0] + rng.standard_normal(20)[g] > 0
    >>> display = plot.GroupDisplay.from_estimator(MixedSVC().fit(X, y, groups=g))
    >>> len(display.names), bool((np.diff(display.mean) >= 0).all())
    (20, True)
    """

    xlabel: str = "effect"
    _downwards = False

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, factor: str | None = None, effect: str | None = None,
        level: float = 0.9, label: Any = None, **kwargs: Any,
    ) -> GroupDisplay:  # fmt: skip
        """Draw one random effect of a factor's groups, by default the first effect.

        ``effect`` is "intercept" or the name of a column with random slopes.
        """
        model = Inside.fitted(estimator, "random_effects_interval").model
        _, _, label = machine_for(model, label)
        factors = list(model.factors_)
        factor = factors[0] if factor is None and factors else factor
        if factor not in factors:
            raise ValueError(f"factor must be one of {factors}; got {factor!r}.")
        effect, frame = group_effects(model, factor, effect, level, label)
        xlabel = f"{effect} of {factor} for {label!s}"
        return cls._of(frame.index, parts_of(frame), xlabel, level).plot(**kwargs)


def group_effects(
    model: Any, factor: Any, effect: str | None, level: float, label: Any
) -> tuple[str, Any]:
    """One random effect of a factor's groups, by default the first, and the groups in order."""
    frame = model.random_effects_
    if "lower" in frame:
        frame["lower"], frame["upper"] = model.random_effects_interval(level)
    if frame.index.nlevels > 3:
        frame = frame.xs(label, level="class")
    frame = frame.xs(factor, level="factor")
    effects = list(dict.fromkeys(frame.index.get_level_values("effect")))
    effect = effects[0] if effect is None else effect
    if effect not in effects:
        raise ValueError(f"effect must be one of {effects}; got {effect!r}.")
    return effect, frame.xs(effect, level="effect").sort_values("mean", kind="stable")


@dataclass(repr=False)
class InclusionDisplay(Display):
    """Inclusion probabilities as bars, shaded by the probability of a positive sign.

    Parameters
    ----------
    names : list of str of length p
        Columns, first at the top.
    inclusion, positive : arrays of shape (models, p)
        Inclusion probability of each column, and probability of a positive sign given inclusion.
    titles : list of str, optional
        One title per model; several models are drawn side by side.
    label : str, default=""
        The class whose probability increases with a positive coefficient.

    References
    ----------
    Polson & Scott (2011), Fig. 3; Luts & Ormerod (2014), Fig. 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> from bayesvm.priors import LaplaceZero
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = BayesianLinearSVC(LaplaceZero(expected_size=5), random_state=0).fit(X, y)
    >>> plot.InclusionDisplay.from_estimator(model, top=10).inclusion.shape
    (1, 10)
    """

    names: list[str]
    inclusion: Array
    positive: Array
    titles: list[str] | None = None
    label: str = ""

    @classmethod
    def from_estimator(cls, estimator: Any, **kwargs: Any) -> InclusionDisplay:
        """Draw one fit with a selection prior; for the arguments see :meth:`from_estimators`."""
        return cls.from_estimators([estimator], **kwargs)

    @classmethod
    def from_estimators(
        cls, estimators: Sequence[Any] | Mapping[str, Any], *, names: Sequence[str] | None = None,
        top: int | None = None, sort: bool = False, label: Any = None, **kwargs: Any,
    ) -> InclusionDisplay:  # fmt: skip
        """Draw several fits to the same columns side by side; the keys of a mapping are the titles.

        ``top`` keeps the columns with the largest maximum probability over the fits, in their
        order; ``sort`` puts the most probable columns first.
        """
        titles = list(estimators) if isinstance(estimators, Mapping) else None
        models = list(estimators.values() if isinstance(estimators, Mapping) else estimators)
        insides = [Inside.fitted(model, "coef_") for model in models]
        found = []
        for inside in insides:
            machine, _, own = machine_for(inside.model, label)
            if machine.inclusion is None:
                raise ValueError(
                    "there are no inclusion probabilities to draw; fit with a selection prior: "
                    "prior='spike_slab' or 'laplace_zero'."
                )
            where = machine.model.find("coef")[1]
            found.append((machine.inclusion[where], machine.sign_proba()[where]))
        chance, positive = np.stack(found, axis=1)
        order = np.argsort(-chance.max(axis=0), kind="stable")[:top]
        order = order if sort else np.sort(order)
        known = insides[0].names() if names is None else names
        chosen = [str(known[k]) for k in order]
        return cls(chosen, chance[:, order], positive[:, order], titles, str(own)).plot(**kwargs)

    def plot(self, ax: Any = None, *, cmap: str = "Greys", **kwargs: Any) -> InclusionDisplay:
        """Draw; ``ax`` is one Axes per model, further arguments go to ``Axes.barh``."""
        count, p = self.inclusion.shape
        size = (3.2 + 1.2 / count, 1.2 + 0.17 * p)
        panels = np.ravel(axes_for(self, ax, count, count, size, sharex=True))
        import matplotlib as mpl  # there, since axes could be made

        shades, y = mpl.colormaps[cmap], np.arange(p)
        for k, panel in enumerate(panels):
            style = {"height": 0.75, "edgecolor": "0.2", "linewidth": 0.5}
            panel.barh(y, self.inclusion[k], color=shades(self.positive[k]), **(style | kwargs))
            panel.set(xlim=(0.0, 1.02), ylim=(p - 0.5, -0.5), xlabel="inclusion probability")
            panel.set_yticks(y, self.names if k == 0 else [], fontsize="small")
            if self.titles is not None:
                panel.set_title(self.titles[k], fontsize="medium")
        scale = mpl.cm.ScalarMappable(mpl.colors.Normalize(0.0, 1.0), shades)
        bar = panels[0].figure.colorbar(scale, ax=list(panels), shrink=0.5)
        bar.set_label(f"probability of a positive sign{self.label and f' ({self.label})'}")
        return self


@dataclass(repr=False)
class RelevanceDisplay(Display):
    """Relevance of columns for f: inverse length scales.

    Parameters
    ----------
    names, relevance : list of str, and array of the same length
        Columns, most relevant at the top, and the inverse length scale in units of the column's
        standard deviation.  All are equal if columns share a length scale; the title says so, and
        ``average_effects`` of the estimator distinguishes columns.
    local : array of the same length, optional
        Relevance in the kernel's local component, if any.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianSVC, plot
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> len(plot.RelevanceDisplay.from_estimator(model).names)
    4
    """

    names: list[str]
    relevance: Array
    local: Array | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, top: int | None = None, **kwargs: Any
    ) -> RelevanceDisplay:
        """Draw the ``top`` columns of a fitted kernel estimator, by default all."""
        inside = Inside.fitted(estimator, "kernel_")
        names, each = relevances(inside)
        order = np.argsort(-each[0], kind="stable")[:top]
        return cls([names[j] for j in order], *(part[order] for part in each)).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> RelevanceDisplay:
        """Draw bars."""
        ax, at = axes_for(self, ax), np.arange(len(self.names))
        parts = [part for part in (self.relevance, self.local) if part is not None]
        height = 0.8 / len(parts)
        for k, (part, name) in enumerate(zip(parts, ("smooth part", "local part"))):
            centre = at + (k - 0.5 * (len(parts) - 1)) * height
            ax.barh(centre, part, **({"height": height, "label": name} | kwargs))
        ax.set_yticks(at, self.names)
        ax.invert_yaxis()
        if len(parts) > 1:
            ax.legend()
        if len(self.names) > 1 and not np.any(np.ptp(parts, axis=1)):
            ax.set_title("one common length scale; see average_effects", fontsize="small")
        ax.set_xlabel("1 / length scale, per standard deviation of the column")
        return self


@dataclass(repr=False)
class LoadingHeatDisplay(Display):
    """Heat map of the columns with the largest loadings, one column of the map per factor.

    Parameters
    ----------
    loadings : array of shape (n_columns, n_factors)
        Loadings in units of their column's standard deviation.
    names : array of shape (n_columns,)
        Names of the columns.
    relevance : array of shape (n_factors,)
        Share of each factor in the slope of f.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import FactorSVC, plot
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = FactorSVC(3, "linear").fit(X, y)
    >>> display = plot.LoadingHeatDisplay.from_estimator(model, n_columns=12)
    >>> display.loadings.shape
    (12, 3)
    """

    loadings: Array
    names: np.ndarray
    relevance: Array

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, n_columns: int = 30, **kwargs: Any
    ) -> LoadingHeatDisplay:
        """Draw for a fitted :class:`~bayesvm.FactorSVC`."""
        inside = Inside.fitted(estimator, "loadings_")
        model = inside.model
        A = model.loadings_ / model.scale_[:, None]
        top = np.argsort(-np.abs(A).max(axis=1), kind="stable")[:n_columns]
        top = top[np.lexsort((-np.abs(A[top]).max(axis=1), np.abs(A[top]).argmax(axis=1)))]
        names = np.asarray(inside.names())[top]
        return cls(A[top], names, model.factor_relevance_).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> LoadingHeatDisplay:
        """Draw; further arguments go to ``Axes.imshow``."""
        n, K = self.loadings.shape
        ax = axes_for(self, ax, size=(1.5 + 0.6 * K, 1.0 + 0.2 * n))
        most = float(np.abs(self.loadings).max())
        style = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "aspect": "auto"} | kwargs
        image = ax.imshow(self.loadings, **style)
        labels = [f"{k}\n{share:.0%}" for k, share in enumerate(self.relevance)]
        ax.set(yticks=np.arange(n), yticklabels=self.names, xticks=np.arange(K), xticklabels=labels)
        ax.tick_params(axis="y", labelsize=7)
        ax.set_xlabel("factor, and its share in the slope of f")
        self.figure_.colorbar(image, ax=ax, label="loading")  # type: ignore[attr-defined]
        return self


@dataclass(repr=False)
class TopLoadingDisplay(Display):
    """The columns with the largest loadings on each factor, with intervals.

    Parameters
    ----------
    names : list of arrays
        Names of each factor's top columns.
    loadings, lower, upper : lists of arrays
        Their loadings and interval ends, on the scale of the input.
    factors : list of int
        The factors.
    level : float
        Probability of the intervals.
    """

    names: list[np.ndarray]
    loadings: list[Array]
    lower: list[Array]
    upper: list[Array]
    factors: list[int]
    level: float

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, factors: Sequence[int] | None = None, n_top: int = 10,
        level: float = 0.9, **kwargs: Any,
    ) -> TopLoadingDisplay:  # fmt: skip
        """Draw for a fitted :class:`~bayesvm.FactorSVC`; by default its three most relevant
        factors."""
        inside = Inside.fitted(estimator, "loadings_")
        model = inside.model
        chosen = np.argsort(-model.factor_relevance_)[:3] if factors is None else factors
        low, high = model.loadings_interval(level)
        A, names = model.loadings_, np.asarray(inside.names())
        tops = [np.argsort(-np.abs(A[:, k] / model.scale_), kind="stable")[:n_top] for k in chosen]
        mean, lower, upper = (
            [part[top, k] for top, k in zip(tops, chosen)] for part in (A, low, high)
        )
        shown = [names[top] for top in tops]
        return cls(shown, mean, lower, upper, [int(k) for k in chosen], level).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TopLoadingDisplay:
        """Draw; further arguments go to ``Axes.errorbar``."""
        count = len(self.factors)
        size = (3.2, 0.8 + 0.25 * len(self.names[0]))
        grid = axes_for(self, ax, count, count, size, sharex=True)
        panels = zip(np.ravel(grid), self.factors, self.names, strict=True)
        parts = zip(self.loadings, self.lower, self.upper, strict=True)
        for (panel, k, names), intervals in zip(panels, parts, strict=True):
            draw_intervals(panel, list(names), intervals, {"capsize": 2} | kwargs)
            panel.set(title=f"factor {k}", xlabel="loading")
            panel.tick_params(axis="y", labelsize=7)
        return self
