"""The linear mixed classifier, and reports of the random effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import _num_samples

from ..core.arrays import inner, kind_of
from ..core.parameters import is_among, warn
from ..core.types import Array, Term
from ..data import tables
from ..data.engines import one_blas_thread
from ..data.levels import Levels, some_of
from ..designs.groups import Effects, Grouped, Layout, beside, learn_groups
from ..inference import SVI
from ..inspection.arviz import Draws
from ..inspection.effects import GroupReports
from ..priors import Fixed, InverseWishart, Ridge
from . import average, predictions
from . import options as check
from .fit import fit_models, warm_starts
from .linear import LinearClassifier

# Prior of the fixed effects, which are few: a learned variance would shrink coefficients of
# unequal size by a third.  Normal(0, 2.5) on standardised columns, as in rstanarm.
WEAK = Fixed(2.5**-2)


class GroupPart(NamedTuple):
    """The groups of one factor: its position, name, number of groups, random effects and prior."""

    factor: int
    name: str
    size: int
    effects: Effects
    prior: Any

    def term(self, columns: Any) -> Term:
        """The term of the random effects; slopes are in ``columns``, on their scale."""
        j = np.array(self.effects.slopes, dtype=int)
        design = Grouped(
            self.factor, self.size, j, columns.center[j], columns.scale[j], self.effects.intercept
        )
        return Term(f"groups of {self.name}", design, self.prior)


def parts_of(
    levels: Levels, random: Any, random_prior: Any, layout: Layout, scheme: Any
) -> list[GroupPart]:
    """Random effects of each factor, from ``random`` and ``random_prior``: values or dicts."""
    for argument, given in (("random", random), ("random_prior", random_prior)):
        unknown = set(given).difference(levels.names) if isinstance(given, Mapping) else ()
        if unknown:
            raise ValueError(
                f"{argument} names factors {sorted(unknown)} that are not in groups; groups has "
                f"{list(levels.names)}."
            )
    parts = []
    for k, (name, labels) in enumerate(zip(levels.names, levels.labels, strict=True)):
        effects = effects_of(layout, by_factor(random, name, "intercept"))
        prior = by_factor(random_prior, name, "auto")
        prior = choose_group_prior(prior, effects.r, name, scheme)
        parts.append(GroupPart(k, name, labels.size, effects, prior))
    if not parts and not isinstance(random, Mapping):  # invalid values are refused in any case
        effects = effects_of(layout, random)
        if not isinstance(random_prior, Mapping):
            choose_group_prior(random_prior, effects.r, "group", scheme)
    return parts


def by_factor(value: Any, factor: str, default: str) -> Any:
    """The value for a factor; ``value`` may be a dict by factor."""
    return value.get(factor, default) if isinstance(value, Mapping) else value


def effects_of(layout: Layout, random: Any) -> Effects:
    """The random effects of each group, from ``random``; ``layout`` has the columns."""
    if isinstance(random, Effects):
        return random
    if is_among(random, ("intercept",)):
        return Effects()
    if is_among(random, ("slope",)):
        return Effects(slopes=tuple(layout.find(None).tolist()))
    if isinstance(random, str) or not isinstance(random, Sequence | np.ndarray):
        raise ValueError(
            f"random={random!r} is not known; choose 'intercept', 'slope' (all columns), a "
            "list of columns that have slopes, or a dict of these by factor."
        )
    try:
        slopes = layout.find(random) if len(random) else ()
    except ValueError as error:
        raise ValueError(f"random={random!r}: {error}") from error
    return Effects(slopes=tuple(int(j) for j in slopes))


def choose_group_prior(value: Any, r: int, factor: str, scheme: Any) -> Any:
    """The prior of a factor's random effects, r for each group."""
    if is_among(value, ("auto",)):
        return Ridge(half_cauchy=1.0) if r == 1 else InverseWishart(r)
    prior = check.choose_prior(value, scheme, "random_prior")
    refused = f"cannot be the prior of the effects of {factor!r}"
    if not prior.implements("spread"):
        raise ValueError(
            f"{type(prior).__name__} {refused}: it has no variance of new groups. Use Ridge, Fixed "
            "or InverseWishart."
        )
    precision = np.asarray(getattr(prior, "precision", 1.0), dtype=float)
    if not prior.is_blocked and not np.all(precision > 0):
        raise ValueError(
            f"{prior!r} {refused}: with a precision of 0 groups not seen would vary without bound. "
            "Give a precision above 0, such as Fixed(0.01), or use Ridge, which learns it."
        )
    if prior.is_blocked and prior.size != r:
        raise ValueError(
            f"{type(prior).__name__} of size {prior.size} {refused}, which are {r} to a group; use "
            f"InverseWishart({r})."
        )
    return prior


@dataclass(eq=False, repr=False)
class MixedSVC(GroupReports, LinearClassifier):
    r"""Linear mixed classifier: fixed effects of columns and random effects of groups.

    .. math::

        f_i = \beta_0 + x_i^\top\beta + \sum_b z_{bi}^\top u_{b\,g_b(i)}, \qquad
        u_{bg} \sim N(0, \Sigma_b), \quad \Sigma_b \text{ learned,}

    where :math:`g_b(i)` is the group of row *i* under factor *b*, and :math:`z_{bi}` is 1 (a random
    intercept), or 1 and some columns of the row (random slopes).  Predictions for groups seen in
    training use their effects; for other groups the variance :math:`z^\top E[\Sigma_b] z` is added.

    The cost is linear in the number of groups: a million rows in a hundred thousand groups take
    seconds.  With several factors (crossed, or nested with labels unique across groups), the
    effects of the largest factor are eliminated, and a dense system is solved for the others.

    Parameters
    ----------
    prior : str or an object of :mod:`bayesvm.priors`, default="auto"
        Prior of the fixed effects, as in :class:`~bayesvm.BayesianLinearSVC`.  ``"auto"`` is weak:
        normal with standard deviation 2.5 for standardised columns, ``Fixed(0.16)``.  Use
        ``"ridge"`` for many columns.
    inference, likelihood
        As in :class:`~bayesvm.BayesianLinearSVC`.  ``"vb"`` maximises the tight bound of a
        normalised likelihood; the augmented bound underestimates variances of groups.
    formula : str, optional
        Such as ``"y ~ visit * treat + (1 + visit | patient)"``, for a data frame X with the columns
        and groups; see :meth:`from_formula`.
    fit_intercept, categorical, missing, standardize
        As in :class:`~bayesvm.BayesianLinearSVC`.  With ``missing="model"`` columns with random
        slopes must be complete.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities.  For a normalised likelihood ``"calibrated"`` is
        ``"normalised"``; else the link is fitted to leave-one-out moments, with half of the weight
        on rows treated as rows of new groups.
    covariance, class_weight, intercept_scale, engine, max_iter, tol, random_state, n_jobs, verbose
        As in :class:`~bayesvm.BayesianLinearSVC`.
    callbacks, warm_start, checkpoint
        As in :class:`~bayesvm.BayesianLinearSVC`.
    random : {"intercept", "slope"}, list or dict, default="intercept"
        Random effects of each group: an intercept; an intercept and a slope in every column; an
        intercept and slopes in the listed columns (names or positions); or a dict by factor.
    random_prior : "auto", an object of :mod:`bayesvm.priors`, or dict, default="auto"
        Prior of the random effects, for all factors or by factor.  ``"auto"`` is
        ``Ridge(half_cauchy=1)`` for one effect per group and
        :class:`~bayesvm.priors.InverseWishart` for several.

    Attributes
    ----------
    factors_, levels_ : list of str, dict
        Names of the grouping factors, and labels of the groups of each.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,), or one row per class
        Posterior means of the fixed effects, on the scale of the input.
    random_effects_, variance_components_, intraclass_share_ : pandas.DataFrame
        Random effects, their variances, and the intraclass correlation, with intervals.
    classes_, elbo_, elbo_path_, n_iter_, converged_, offset_
        As in :class:`~bayesvm.BayesianLinearSVC`.

    References
    ----------
    Luts & Ormerod (2014), section 3.1 and Appendix A.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm import MixedSVC
    >>> rng = np.random.default_rng(0)
    >>> patient = np.repeat(np.arange(50), 8)
    >>> X = rng.standard_normal((400, 2))
    >>> f = X[:, 0] + 2 * rng.standard_normal(50)[patient]
    >>> y = f + 0.5 * rng.standard_normal(400) > 0
    >>> model = MixedSVC().fit(X, y, groups=patient)
    >>> bool(model.score(X, y, groups=patient) > model.score(X, y))
    True
    """

    _: KW_ONLY
    random: Any = "intercept"
    random_prior: Any = "auto"

    _accept_sparse = False
    _has_effects = True

    # ----- reading

    def _layout(self) -> Layout:
        """Columns of the input, with the encoded columns of each."""
        names = tuple(self._input_names() if self._formula is None else self._formula.names)
        made = self.encoding_.made if self._formula is None else None
        return Layout(names, len(names), (), made)

    def _read_new(self, X: Any, groups: Any = None) -> Any:
        self._fitted()
        levels = self._group_levels
        if self._formula is not None:
            X, groups = self._formula.new_rows(X, groups)
        X = super()._read_new(X)
        if self._models_missing and isinstance(X, np.ndarray):  # other formats are complete
            model = self.machines_[0].model
            for k in model.grouped:
                tables.check_complete(X, model.terms[k].design.slopes, self._names())
        return beside(X, groups, levels)

    # ----- fitting

    @one_blas_thread
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> MixedSVC:
        """Fit to rows ``X`` with labels ``y`` in ``groups``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source of :mod:`bayesvm.data`
            Observations: NumPy, pandas or polars, a Dask array or data frame, a tensor, or files
            that are read in blocks.  With ``formula``, a pandas data frame with its columns.
        y : array-like of shape (n,) or (n, n_classes)
            Labels, two or more distinct, or probabilities of the classes; not needed if the source
            has them, or if the formula's left side is a column of the frame.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.
        groups : array-like of shape (n,) or (n, n_factors), or data frame, optional
            Labels of groups, of any type, with one column for each factor; a Dask collection if X
            is one.  Default: the groups of the source; if it has none, there are no random effects.

        Returns
        -------
        self : MixedSVC
            The fitted estimator.
        """
        random, self._formula = self.random, None
        if self.formula is not None:
            if groups is not None:
                raise ValueError("a model with a formula reads groups from the data frame alone.")
            X, y, groups, effects = self._read_formula(X, y, random)
            random = effects or "intercept"
        run = self._run()
        parts = check.choose_parts(self)
        check.check_full(parts.scheme, "MixedSVC")
        data = self._read_training(X, y, sample_weight)
        if self._models_missing:
            data = self._with_latent_cells(data, parts.scheme)
        if groups is not None and data.chosen is not None:
            groups = some_of(groups, data.rows, _num_samples(X))
        levels, table = learn_groups(data.X, groups)
        data = data._replace(X=table)
        if not levels.names:
            what = "the formula has none" if self.formula else "fit was given none"
            warn(
                f"MixedSVC has effects of groups, and {what}: it is fitted without any, as "
                "BayesianLinearSVC would be. Name groups, or use that."
            )
        elif is_among(self.prior, ("auto",)):
            parts = parts._replace(prior=WEAK)
        effects = parts_of(levels, random, self.random_prior, self._layout(), parts.scheme)
        if effects and isinstance(parts.scheme, SVI) and kind_of(data.X) == "source":
            raise ValueError(
                "groups of rows that are read in blocks are fitted by inference='vb', 'gibbs' "
                "or 'em'; SVI needs all rows of a group at once. Load the rows for that."
            )
        if self._models_missing:
            slopes = sorted({j for part in effects for j in part.effects.slopes})
            tables.check_complete(inner(data.X), slopes, self._names())
        problem = self._problem(data, parts, effects)
        starts = warm_starts(self, problem, len(data.classes)) if self.warm_start else []
        fit, moments = fit_models(run, problem, data, parts.scheme, starts, joint=True)
        fit = fit.with_left_out(moments)
        if self._models_missing:
            fit = self._with_cells(fit, problem, data.X)
        self._keep_groups(problem, levels, parts.scheme)
        return self._keep(fit, run)

    # ----- predictions

    def decision_function(self, X: Any, return_std: bool = False, groups: Any = None) -> Any:
        """Decision values of rows in ``groups``: :meth:`BayesianLinearSVC.decision_function`.

        Groups that were not seen in training, are missing (NaN, ``None``) or are not given are
        averaged over.
        """
        if return_std:
            return predictions.at_rows(self, predictions.moments_of_f, X, groups, is_pair=True)
        return predictions.at_rows(self, predictions.decision, X, groups)

    def predict_proba(self, X: Any, groups: Any = None, *, prevalence: Any = None) -> Array:
        """Class probabilities of rows in ``groups``, or averaged over unknown groups."""
        P: Array = predictions.at_rows(self, predictions.proba, X, groups, prevalence=prevalence)
        return P

    def predict(
        self,
        X: Any,
        groups: Any = None,
        *,
        costs: Any = None,
        abstain: Any = None,
        prevalence: Any = None,
    ) -> Any:
        """The most probable class of each row in ``groups``; unknown groups are averaged over."""
        return predictions.at_rows(
            self, predictions.labels, X, groups, costs=costs, abstain=abstain, prevalence=prevalence
        )

    def predict_interval(
        self, X: Any, level: float = 0.9, groups: Any = None
    ) -> tuple[Array, Array]:
        """Lower and upper class probabilities; wider for unseen or unknown groups."""
        low, high = predictions.at_rows(
            self, predictions.interval, X, groups, is_pair=True, level=level
        )
        return low, high

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> float:
        """Accuracy of ``predict``; labels ``y`` are not needed if a source has them."""
        return predictions.accuracy(self, X, y, sample_weight, groups)

    def sample_posterior(
        self,
        n: int = 1000,
        X: Any = None,
        random_state: Any = None,
        return_intercept: bool = False,
        groups: Any = None,
    ) -> Any:
        """Draws of the fixed effects, or of f at rows ``X`` in ``groups``.

        Shapes are as in :meth:`BayesianLinearSVC.sample_posterior`.  Random effects of
        unseen or unknown groups are drawn too, separately for each row.
        """
        if X is not None:
            return predictions.draw_f(self, n, X, random_state, groups)
        return super().sample_posterior(n, None, random_state, return_intercept)

    def average_effects(
        self,
        X: Any,
        columns: Any = None,
        change: Any = "sd",
        level: float = 0.9,
        groups: Any = None,
    ) -> Any:
        """Average change of a probability when one column changes, of rows in ``groups``.

        As :meth:`BayesianLinearSVC.average_effects`; unseen or unknown groups are averaged over.
        """
        return average.average_effects(self, X, columns, change, level, groups)

    # ----- reports

    def summary(self, level: float = 0.9) -> Any:
        """Fixed effects, as in :meth:`BayesianLinearSVC.summary`.

        ``frame.attrs["prior"]`` is the prior of the coefficients.  If variances in
        ``variance_components_`` are known to be biased, ``frame.attrs["note"]`` contains a note.
        """
        frame = self._cautioned(self._coefficient_frame(level))
        frame.attrs["prior"] = repr(self.machines_[0].model.find("coef")[0].prior)
        return self._with_note(frame)

    def _drawn(self, thetas: Sequence[Array], X: Any) -> Draws:
        return self._with_effects(super()._drawn(thetas, X), thetas)
