"""The linear machine with effects of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..blocks import cut
from ..core import arrays
from ..core.types import Array, Term
from ..designs import Grouped, Intercept, fit_columns
from ..designs.groups import Effects
from ..designs.table import has_groups, learn_groups, numbers
from ..inference.progress import Progress
from ..inputs import reading
from ..inputs.levels import Levels, some_of
from ..model.model import Model, Problem, arranged
from ..priors import Fixed
from ..reports.effects import second_moments
from . import choices as check
from ._answers import GroupAnswers
from ._missing import MissingCells
from ._warm import starts_of
from .formula import Formula
from .groups import effects, random_priors


class MixedSVC(GroupAnswers, MissingCells):
    r"""Linear support vector machine with effects of groups, and a posterior over all of it.

    .. math::

        f_i = \beta_0 + x_i^\top\beta + \sum_b z_{bi}^\top u_{b\,g_b(i)}, \qquad
        u_{bg} \sim N(0, \Sigma_b), \quad \Sigma_b \text{ learned,}

    where :math:`g_b(i)` is the group of row *i* under factor *b*, and :math:`z_{bi}` is 1 (a random
    intercept), or 1 and some columns of the row (random slopes).  Groups seen in training are
    predicted by their own effects; groups not seen, or not given, are averaged over: mean zero,
    variance :math:`z^\top E[\Sigma_b] z` added.

    Groups are codes, never columns of zeros and ones, and cost is linear in their number: a million
    rows in a hundred thousand groups take seconds.  Of several factors (crossed, or nested: give
    inner groups labels that are unique over all) the widest is eliminated, the others are solved
    for densely.

    Parameters
    ----------
    prior : str or an object of :mod:`bayesvm.priors`, default="ridge"
        Prior of the columns' coefficients, as in :class:`~bayesvm.BayesianLinearSVC`.
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        How the posterior is found.
    likelihood : {"hinge", "logistic", "probit"} or an object, default="hinge"
        What labels say of f.
    random : {"intercept", "slope"}, list or dict, default="intercept"
        What each group has of its own: an intercept; an intercept and a slope in every column; an
        intercept and slopes in the columns listed (names or numbers); or a dict of these by factor.
    random_prior : "auto", an object of :mod:`bayesvm.priors`, or dict, default="auto"
        Prior of the groups' effects, for all factors or by factor.  ``"auto"`` is
        ``Ridge(half_cauchy=1)`` for one effect to a group and
        :class:`~bayesvm.priors.InverseWishart` for several, on the scale of standardised columns.
    formula : str, optional
        Such as ``"y ~ visit * treat + (1 + visit | patient)"``: X is a data frame then, from which
        columns, groups and their effects are read, see :meth:`from_formula`.  ``random`` is left
        out, and ``fit_intercept`` must be False where the formula has no intercept.
    fit_intercept : bool, default=True
        Add an intercept, with a wide prior of its own.
    missing : {"error", "model"} or an object, default="error"
        ``"error"`` refuses NaN in X; ``"model"`` takes such cells for latent variables, as in
        :class:`~bayesvm.BayesianLinearSVC`.  Columns with slopes must be complete.
    standardize : bool, default=True
        Centre and scale columns inside; results are reported on the scale of the input.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities.  The calibrated one is fitted on rows left out one at a
        time, while the rest of a row's group stays: it is calibrated for new rows of known groups.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, times ``sample_weight``.
    intercept_precision : float, default=1e-4
        Prior precision of the intercept.
    engine : {"auto", "serial", "threads", "dask", "gpu"} or an object, default="auto"
        Who visits the rows: see :mod:`bayesvm.engines`.  ``"auto"`` follows the input.
    dtype : {"float64", "float32"}, default="float64"
        Precision in which columns meet coefficients and weights; sums over rows are always float64.
        float32 is worth having on a GPU.
    max_iter, tol : optional
        Override those of the inference scheme.
    random_state : int, RandomState, Generator or None
        Seed of everything drawn.
    n_jobs : int, optional
        Threads over rows, and chains run in parallel under Gibbs.
    verbose : int, default=0
        1 shows progress.
    callbacks : list of callables, optional
        Each is called with a :class:`~bayesvm.inference.Progress` after every iteration; returning
        ``True`` ends the fit there.
    warm_start : bool, default=False
        Start from the previous fit when the shape allows.
    checkpoint : str or path, optional
        File that holds the state of a long fit; a later fit with the same file goes on from it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels.
    factors_ : list of str
        Names of the grouping factors; empty if ``fit`` was given no groups.
    levels_ : dict
        Labels of the groups of each factor.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,), or one row per class
        Posterior means of the part that all groups share, on the scale of the input.
    random_effects_, variance_components_, intraclass_share_ : pandas.DataFrame
        Effects of groups, their variances, and the groups' share, with intervals.
    elbo_, elbo_path_, n_iter_, converged_, offset_
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
    >>> model.random_effects_.shape
    (50, 4)
    """

    _accept_sparse: Any = False

    def __init__(
        self,
        prior: Any = "ridge",
        inference: Any = "vb",
        likelihood: Any = "hinge",
        *,
        random: Any = "intercept",
        random_prior: Any = "auto",
        formula: str | None = None,
        fit_intercept: bool = True,
        missing: Any = "error",
        standardize: bool = True,
        probability: str = "calibrated",
        class_weight: Any = None,
        intercept_precision: float = 1e-4,
        engine: Any = "auto",
        dtype: str = "float64",
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.prior = prior
        self.inference = inference
        self.likelihood = likelihood
        self.random = random
        self.random_prior = random_prior
        self.formula = formula
        self.fit_intercept = fit_intercept
        self.missing = missing
        self.standardize = standardize
        self.probability = probability
        self.class_weight = class_weight
        self.intercept_precision = intercept_precision
        self.engine = engine
        self.dtype = dtype
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.checkpoint = checkpoint

    # ----- fitting

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> MixedSVC:
        """Fit to rows ``X`` with labels ``y`` in ``groups``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source of :mod:`bayesvm.blocks`
            Rows: NumPy, pandas or polars, a Dask array or data frame, a tensor, or files that are
            read in blocks.  With ``formula``, a pandas data frame that it is applied to.
        y : array-like of shape (n,)
            Labels, two or more distinct; not needed where the source has them, nor where the
            formula's left side is a column of the frame.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.
        groups : array-like of shape (n,) or (n, n_factors), or data frame, optional
            Labels of groups, of any kind; a column for each factor; Dask's where X is.  Without it
            groups are those of the source; if it has none there are no effects of groups.

        Returns
        -------
        self : MixedSVC
            The fitted estimator.
        """
        if self.formula is None:
            self._formula: Formula | None = None
            return self._fit(X, y, groups, sample_weight, self.random)
        if groups is not None:
            raise ValueError("a model with a formula reads groups from the data frame alone.")
        return self._fit_formula(Formula.learn(self.formula, X, y, depth=1), X, y, sample_weight)

    @classmethod
    def from_formula(
        cls, formula: str, data: Any, *, sample_weight: Any = None, **params: Any
    ) -> MixedSVC:
        """Fit a formula such as ``"y ~ visit * treat + (1 + visit | patient)"`` to a data frame.

        The model is ``MixedSVC(formula=formula)`` fitted to the frame, so that it can be cloned and
        cross-validated on data frames.  Names in the formula that are no columns are looked up
        where ``from_formula`` or ``fit`` is called; in cross-validation that leaves ``np`` and the
        functions of the package formulae.

        Parameters
        ----------
        formula : str
            As the package formulae reads it: ``(1 | g)`` a random intercept, ``(1 + x | g)`` with a
            slope, ``(1 | a) + (1 | b)`` crossed and ``(1 | a/b)`` nested factors.
        data : pandas.DataFrame
            Holds the columns that the formula names, without missing values.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.
        **params
            Parameters of the estimator, other than ``random`` and ``fit_intercept``.

        Returns
        -------
        model : MixedSVC
            Fitted; ``predict`` and the others take a data frame with the same columns.
        """
        for name in ("random", "fit_intercept"):
            if name in params:
                raise ValueError(f"from_formula reads {name} from the formula; do not give it.")
        read = Formula.learn(formula, data, depth=1)
        model = cls(formula=formula, fit_intercept=read.fit_intercept, **params)
        return model._fit_formula(read, data, None, sample_weight)

    def _fit_formula(self, read: Formula, data: Any, y: Any, sample_weight: Any) -> MixedSVC:
        """Fit the columns and groups of a frame, as a formula has read them."""
        if not (isinstance(self.random, str) and self.random == "intercept"):
            raise ValueError(
                f"the formula says which effects groups have; got random={self.random!r} beside "
                "it. Leave random out, or give groups to fit instead of a formula."
            )
        if bool(self.fit_intercept) != read.fit_intercept:
            raise ValueError(
                f"the formula {read.text!r} has {'an' if read.fit_intercept else 'no'} intercept; "
                f"set fit_intercept={read.fit_intercept}."
            )
        X, groups = read.rows(data)
        self._formula = read
        y = data[read.response] if y is None else y
        return self._fit(X, y, groups, sample_weight, read.random or "intercept")

    def _fit(self, X: Any, y: Any, groups: Any, sample_weight: Any, random: Any) -> MixedSVC:
        scheme = check.choose_scheme(self.inference, self.max_iter, self.tol)
        check.check_probability(self.probability)
        check.check_missing(self.missing, scheme, self.checkpoint)
        X, y = self._read(X, y, reset=True)
        classes, codes = reading.encode(y, X)
        c = reading.check_weights(sample_weight, self.class_weight, codes, classes, X)
        copies = reading.check_weights(sample_weight, None, codes, classes, X)
        reading.check_two_sided(codes, c, classes)
        if check.models_missing(self.missing):
            reading.check_in_memory(X, "missing='model'")
        if reading.is_source(X):
            reading.check_positive_weights(c)
        else:
            X, codes, c, copies, groups = self._weighted(X, codes, c, copies, groups, scheme)
        levels, table = Levels(), X
        if has_groups(X, groups):
            check.check_grouped(scheme, X)
            levels, table = learn_groups(X, groups)
        self.classes_, self._levels = classes, levels
        self.factors_ = list(levels.names)
        self.levels_ = dict(zip(levels.names, levels.labels, strict=True))
        own = effects(random, self.factors_, self._names())
        problem = self._problem(table, c, copies, scheme, own)
        self._second = second_moments(problem)
        starts = starts_of(self, problem)
        machines = self._fit_machines(problem, codes, scheme, starts)
        self._conclude(self._attached(machines, problem, table))
        self._report(problem.blocks.weight)
        return self

    def _weighted(
        self, X: Any, codes: Array, c: Array, copies: Array, groups: Any, scheme: Any
    ) -> tuple[Any, Array, Array, Array, Any]:
        """Rows that have weight, and their groups; each copy by itself if its cells are drawn."""
        rows = np.flatnonzero(c > 0)
        c, copies = c[rows], copies[rows]
        if check.models_missing(self.missing):
            self._check_cells(X[rows])
            if check.is_sampler(scheme):
                each = reading.repeated(X[rows], copies)
                rows, (c, copies) = rows[each], reading.shared(c, copies, each)
        self._training_rows = rows
        n = codes.shape[0]
        if rows.size == n and np.array_equal(rows, np.arange(n)):
            return X, codes, c, copies, groups
        some = None if groups is None else some_of(groups, rows, n)
        return arrays.pick(X, rows), codes[rows], c, copies, some

    def _problem(self, X: Any, c: Any, copies: Any, scheme: Any, own: list[Effects]) -> Problem:
        n, p = X.shape
        K = p + bool(self.fit_intercept)
        widths = [e.count * labels.size for e, labels in zip(own, self._levels.labels, strict=True)]
        check.check_corner(K, dict(zip(self.factors_, widths, strict=True)))
        total = K + sum(widths)
        check.check_draws(scheme, total)
        engine = check.choose_engine(self.engine, n, total, self.n_jobs, X, self.dtype)
        check.check_engine(engine, scheme, X)
        X, c = check.placed(engine, X, c)
        blocks = cut(X, np.broadcast_to(0.0, (n,)), c, check.choose_size(engine, K, total))
        if blocks.in_memory:
            blocks = replace(blocks, copies=copies)
        columns: Any = fit_columns(blocks, engine, self.standardize, self.fit_intercept)
        if check.models_missing(self.missing):
            reading.check_slopes(numbers(X), own, self._names())
            columns = self._with_cells(columns, blocks, engine)
        model = self._model(columns, scheme, own).sized(blocks.weight)
        form = check.settle_form(model, n, scheme)
        dtype = check.choose_precision(engine, form, model.is_latent)
        return Problem.posed(replace(model, dtype=dtype), blocks, engine, form)

    def _model(self, columns: Any, scheme: Any, own: list[Effects]) -> Model:
        terms = [Term("coef", columns, check.choose_prior(self.prior, scheme))]
        if self.fit_intercept:
            terms.insert(0, Term("intercept", Intercept(), Fixed(self.intercept_precision)))
        sizes = {name: e.count for name, e in zip(self.factors_, own, strict=True)}
        priors = random_priors(self.random_prior, sizes, scheme)
        for k, (name, e, prior) in enumerate(zip(self.factors_, own, priors, strict=True)):
            slopes = np.array(e.slopes, dtype=int)
            design = Grouped(
                k,
                self._levels.labels[k].size,
                slopes,
                columns.center[slopes],
                columns.scale[slopes],
                e.intercept,
            )
            terms.append(Term(f"groups of {name}", design, prior))
        return Model(arranged(terms), check.choose_likelihood(self.likelihood, scheme))
