"""The additive classifier: the predictor is any sum of terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from ..core.arrays import one_against_rest
from ..core.parameters import is_among, warn
from ..core.types import Array, Term
from ..data import Blocks, Serial, block_rows, rows_of_all_classes, tables
from ..data.engines import one_blas_thread
from ..data.labels import Training, check_weights
from ..data.levels import Levels
from ..data.tables import Encoding, cells_of, check_no_cell_missing, find_categories
from ..designs.groups import Layout, beside, learn_groups
from ..inference import VB, Gibbs
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.progress import Progress
from ..inspection.arviz import Draws
from ..inspection.effects import GroupReports
from ..inspection.tables import coefficient_table, contrasts, pandas_for, stacked, tails
from ..inspection.terms import degrees_of_freedom, partial, term_rows
from ..predictive.fitted import BinaryModel
from ..terms import Part, TrainingRows, read_terms
from . import options as check
from .base import BayesianClassifier
from .fit import build_problem, choose_engine, fit_models
from .formula import terms_of
from .linear import LinearClassifier
from .mixed import choose_group_prior
from .predictions import draw_f


@dataclass(frozen=True)
class TermTable:
    """The columns of a table that each term reads: numbers, or labels of groups."""

    terms: Sequence[Term]  # their parts build the design matrices, see bayesvm.terms
    names: Sequence[str]  # of all columns
    layout: Layout  # positions of columns, and which columns name groups
    reads: Sequence[Array]  # numeric columns of each term, numbered without group columns
    numbers: Sequence[str]  # names of the numeric columns

    @classmethod
    def of(
        cls,
        terms: Sequence[Term],
        names: Sequence[str],
        named: bool,
        encoding: Encoding | None = None,
    ) -> TermTable:
        """The table of the terms' columns; without ``named`` the names are generated.

        If an ``encoding`` of the other columns is given, numeric columns are the encoded ones.
        """
        layout, groups, reads = Layout(tuple(names) if named else None, len(names)), [], []
        for name, part, _ in terms:
            if part.factor is not None:
                with of_term(name):
                    groups.append(layout.position(part.factor))
        numbers, made = [name for j, name in enumerate(names) if j not in groups], None
        if encoding is not None:
            numbers, made = encoding.names(numbers), encoding.made
        layout = replace(layout, groups=tuple(dict.fromkeys(groups)), made=made)
        for name, part, _ in terms:
            with of_term(name):
                reads.append(part.reads(layout))
        return cls(terms, names, layout, reads, numbers)

    @property
    def plain(self) -> Array:
        """Positions of the columns that do not name groups."""
        return np.setdiff1d(np.arange(self.layout.count), self.layout.groups)

    @property
    def read(self) -> Array:
        """The numeric columns that at least one term reads."""
        return np.unique(np.concatenate([np.empty(0, dtype=int), *self.reads]))

    @property
    def incomplete(self) -> list[int]:
        """The numeric columns whose missing cells have a distribution."""
        pairs = zip(self.terms, self.reads, strict=True)
        return [int(j) for (_, part, _), where in pairs if part.incomplete for j in where]

    def labels(self, X: Any) -> dict[str, Array]:
        """Labels of groups, by the name of their column."""
        groups = self.layout.groups
        return {self.names[j]: np.asarray(tables.column_of(_rows(X), j)) for j in groups}

    def values(
        self, X: Any, reset: bool, categories: Sequence[int]
    ) -> tuple[Array, dict[int, Array]]:
        """Columns without ``categories`` as numbers, zero where no term reads them; and the others.

        Group columns are not counted.
        """
        rows, plain = _rows(X), self.plain
        tables.check_numbers(rows, reset, [int(j) for j in plain[self.read]])
        others = [k for k in range(plain.size) if k not in categories]
        out = np.zeros((np.shape(rows)[0], len(others)))
        for k in np.intersect1d(self.read, others):
            try:
                column = tables.column_of(rows, int(plain[k]))
                out[:, others.index(k)] = np.asarray(column, dtype=float)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"column {self.names[plain[k]]!r} cannot be read as numbers ({error}). Encode "
                    "it, or leave it out of the terms."
                ) from error
        return out, {k: cells_of(tables.column_of(rows, int(plain[k]))) for k in categories}

    def check_complete(self, X: Array) -> None:
        """Refuse missing cells in columns without a distribution of missing cells."""
        for (name, part, _), where in zip(self.terms, self.reads, strict=True):
            if not part.incomplete:
                with of_term(name, " Or write Missing(Columns(...))."):
                    tables.check_complete(X, where.tolist(), self.numbers)

    def check_training(self, X: Array) -> None:
        """Refuse missing training cells of columns in two terms, and columns never observed."""
        self.check_complete(X)
        is_missing, taken = np.isnan(X), set[int]()
        for (name, *_), where in zip(self.terms, self.reads, strict=True):
            some = where[is_missing[:, where].any(axis=0)]
            for j in some:
                if int(j) in taken:
                    raise ValueError(
                        f"term {name!r}: column {self.numbers[j]!r} has missing cells and is in "
                        "two terms, each of which would fill them in its own way; put it in one."
                    )
                if is_missing[:, j].all():
                    raise ValueError(
                        f"term {name!r}: column {self.numbers[j]!r} has no observed value at "
                        "all, so nothing can be learned of it. Drop it."
                    )
            if some.size and (empty := int(is_missing[:, where].all(axis=1).sum())):
                warn(f"term {name!r}: {empty} row(s) have every cell missing.")
            taken |= set(some.tolist())


@contextmanager
def of_term(name: str, hint: str = "") -> Iterator[None]:
    """Name the term in error messages."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"term {name!r}: {error}{hint}") from error


def _rows(X: Any) -> Any:
    """X in a format whose columns can be read one by one."""
    rows = tables.as_table(X)
    if rows is None:
        raise ValueError(
            "rows with groups must be a data frame or a dense array of two dimensions; got "
            f"{type(X).__name__}."
        )
    return rows


def learn_length_scales(
    model: Model,
    names: Sequence[str],
    X: Any,
    data: Training,
    rng: np.random.Generator,
    scales: Sequence[float] = (4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625),
    most_rows: int = 2000,
) -> Model:
    """The model with the length scales of the smooth terms ``names`` that maximise the evidence.

    Coordinate ascent: for each term the factor from ``scales`` with the largest bound, the others
    fixed, until none changes.  The bound, which learns the variances too, is summed over classes
    (each against the rest if there are more than two).
    """
    codes, scheme = np.asarray(data.codes), VB()
    some = rows_of_all_classes(codes, min(codes.size, most_rows), rng)
    labels = list(one_against_rest(codes[some], len(data.classes)))
    rows, c = Blocks(X[some], block_rows(model.width)), data.c[some]
    bounds = dict[tuple[float, ...], float]()
    best: tuple[float, ...] = (1.0,) * len(names)
    before: tuple[float, ...] = ()
    while best != before:
        before = best
        for j in range(len(names)):
            trials = [(*best[:j], factor, *best[j + 1 :]) for factor in scales]
            for trial in trials:
                if trial in bounds:
                    continue
                one = with_length_scales(model, names, trial).closed()
                problem = build_problem(one, rows, Serial(), scheme, c, covariance="full")
                fits = [scheme.fit(replace(problem, y=y), rng) for y in labels]
                bounds[trial] = sum(float(fit.bound) for fit in fits)
            best = max(trials, key=bounds.__getitem__)
    return with_length_scales(model, names, best)


def with_length_scales(model: Model, names: Sequence[str], factors: Sequence[float]) -> Model:
    """The model with the length scales of some terms multiplied by factors."""
    by, terms = dict(zip(names, factors, strict=True)), []
    for term in model.terms:
        if term.name in by:
            kernel = term.design.kernel
            kernel = replace(kernel, length_scale=by[term.name] * kernel.length_scale)
            term = term._replace(design=replace(term.design, kernel=kernel))
        terms.append(term)
    return replace(model, terms=tuple(terms))


@dataclass(eq=False, repr=False)
class AdditiveSVC(GroupReports, BayesianClassifier):
    r"""Support vector machine whose predictor is any sum of terms.

    .. math:: f_i = \sum_t c_{t,i}^\top \theta_t, \qquad \theta_t \sim \text{prior of term } t .

    Each term is a part of the input with a prior.  Smooth functions, variable selection and random
    effects can be added in any combination.

    Parameters
    ----------
    terms : list of (name, part) or (name, part, prior), optional
        Parts are objects of :mod:`bayesvm.terms`; priors are names or objects of
        :mod:`bayesvm.priors`, by default those of the part.  Without terms: an intercept and all
        columns.
    inference, likelihood, categorical
        As in :class:`~bayesvm.BayesianLinearSVC`.
    missing : {"auto", "error"}, default="auto"
        As in :class:`~bayesvm.BayesianLinearSVC`.  Missing cells of a term
        ``Missing(Columns(...))`` have a distribution either way.
    probability, covariance, class_weight, engine, max_iter, tol, random_state, n_jobs, verbose
        As in :class:`~bayesvm.BayesianLinearSVC`.
    callbacks, checkpoint
        As in :class:`~bayesvm.BayesianLinearSVC`.

    Attributes
    ----------
    terms_ : list of Term
        Terms with their parts bound to the training rows; groups come last.
    random_effects_, variance_components_, intraclass_share_ : data frames
        For terms with groups, as in :class:`~bayesvm.MixedSVC`.
    inclusion_proba_ : array of shape (n_features,)
        For terms with a selection prior: posterior inclusion probability of each column.
    imputed_ : Imputed
        For ``Missing`` terms: row, column, mean and standard deviation of each missing cell of the
        training rows; column numbers do not count group columns.
    classes_, offset_, elbo_, elbo_path_, n_iter_, converged_
        As for the other estimators.

    See Also
    --------
    BayesianLinearSVC : an intercept and all columns.
    MixedSVC : with groups.

    Examples
    --------
    A smooth function of the first two columns, and selection among the others:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import AdditiveSVC
    >>> from bayesvm.terms import Columns, Intercept, Process
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = AdditiveSVC(
    ...     [
    ...         ("level", Intercept()),
    ...         ("size", Process(["mean radius", "mean texture"], n_inducing=20)),
    ...         (
    ...             "rest",
    ...             Columns(["mean smoothness", "worst area", "worst texture"]),
    ...             "laplace_zero",
    ...         ),
    ...     ]
    ... ).fit(X, y)
    >>> model.summary().loc["rest", "inclusion"].shape
    (3,)
    >>> sorted(model.partial(X))
    ['level', 'rest', 'size']
    """

    terms: Any = None
    inference: Any = "vb"
    likelihood: Any = "logistic"
    _: KW_ONLY
    categorical: Any = "auto"
    missing: Any = "auto"
    probability: str = "calibrated"
    covariance: str = "robust"
    class_weight: Any = None
    engine: Any = "auto"
    max_iter: int | None = None
    tol: float | None = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    callbacks: Sequence[Callable[[Progress], Any]] | None = None
    checkpoint: Any = None

    _accept_sparse = False
    _no_cells = "missing cells are modelled by terms with Missing(Columns(...)); there is none."
    _used: list[str] | None = field(init=False, default=None)  # columns of a formula
    _table: TermTable = field(init=False)

    # ----- reading

    @property
    def _models_missing(self) -> bool:
        terms = self.terms if isinstance(self.terms, Sequence) else ()
        parts = [t[1] for t in terms if isinstance(t, Sequence) and len(t) > 1]
        return any(isinstance(part, Part) and part.incomplete for part in parts)

    @property
    def _allows_nan(self) -> bool:
        return super()._allows_nan or self._models_missing

    def _of_missing_cells(self) -> str:
        return (
            "AdditiveSVC(missing='auto') puts the mean of the column there, and a term "
            "Missing(Columns(...)) learns a distribution of the missing cells of its columns; else "
            "fill them in, or leave such rows out."
        )

    def _kept_missing(self) -> Sequence[int] | None:
        if is_among(self.missing, ("error",)):
            return None
        return self._table_of(read_terms(self.terms)).incomplete

    def _table_of(self, terms: Sequence[Term], encoding: Encoding | None = None) -> TermTable:
        """The columns that the terms read; named if X is a data frame or comes from a pipeline."""
        named = hasattr(self, "feature_names_in_") or self._known_names is not None
        return TermTable.of(terms, self._input_names(), named, encoding)

    def _names(self) -> list[str]:
        if not hasattr(self, "_table"):
            self._fitted()  # which raises
        return list(self._table.numbers)

    def _read(self, X: Any, reset: bool, weights: Any = None) -> Any:
        """Checked numbers; a table is read column by column, as the terms need."""
        tables.check_in_memory(X, "AdditiveSVC")
        terms = read_terms(self.terms) if reset else self._table.terms
        if hasattr(X, "columns") or any(t.design.factor is not None for t in terms):
            X = self._read_columns(X, terms, reset, weights)
        else:
            X = super()._read(X, reset, weights)
        if reset:
            self._table = self._table_of(terms, self.encoding_)
        return X

    def _read_columns(self, X: Any, terms: Sequence[Term], reset: bool, weights: Any) -> Array:
        """Numeric columns after encoding, without the group columns."""
        X = tables.check_kind(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        table = self._table_of(terms)
        names = table.numbers
        if reset:
            read = table.plain[table.read].tolist()
            found = find_categories(X, self.categorical, read)
            which = np.searchsorted(table.plain, found).tolist()
        else:
            which = [category.column for category in self.encoding_.categories]
        numbers, cells = table.values(X, reset, which)
        if rest := [name for k, name in enumerate(names) if k not in which]:
            finite = "allow-nan" if self._allows_nan else True
            with tables.explained(self, numbers, rest):
                numbers = check_array(numbers, ensure_all_finite=finite, input_name="X")
        if not self._allows_nan:
            check_no_cell_missing(cells, names, self._of_missing_cells())
        if reset:
            kept = None if is_among(self.missing, ("error",)) else table.incomplete
            masses = check_weights(weights, numbers)
            self.encoding_ = Encoding.learn(numbers, cells, masses, names, kept)
        out: Array = self.encoding_.codes(numbers, cells, names)
        return out

    def _levels_of(self, names: Sequence[str]) -> dict[int, tuple[Any, ...] | None]:
        table, made = self._table, self.encoding_.made
        known = super()._levels_of([str(j) for j in table.plain])
        pairs = enumerate(table.plain.tolist())
        return {j: known[k] for k, j in pairs if np.isin(made[k], table.read).any()}

    def _own_columns(self, X: Any) -> Any:
        found = self._used is not None and set(self._used) <= set(getattr(X, "columns", ()))
        return X[self._used] if found else X

    def _read_new(self, X: Any, groups: Any = None) -> Any:
        X = self._own_columns(X)
        rows = super()._read_new(X, groups)
        self._table.check_complete(rows)
        return beside(rows, self._table.labels(X) or None, self._group_levels)

    # ----- fitting

    @classmethod
    def from_formula(
        cls, formula: str, data: Any, *, sample_weight: Any = None, **params: Any
    ) -> AdditiveSVC:
        """Fit a formula such as ``"y ~ s(age) + s(x, z) + dose + (1 | clinic)"`` to a data frame.

        The formula is translated into ``terms``, so that the model can be cloned and fitted again.

        Parameters
        ----------
        formula : str
            ``s(x)`` and ``s(x, z)`` are smooth functions, :class:`~bayesvm.terms.Process`; columns
            have coefficients; ``(1 + x | g)`` are effects of groups.
        data : pandas.DataFrame
            Data frame with the columns that the formula names.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.
        **params
            Parameters of the estimator, other than ``terms``.

        Returns
        -------
        model : AdditiveSVC
            The fitted model; its methods take a data frame with these columns.
        """
        response, terms, used = terms_of(formula, data)
        model = cls(terms, **params).fit(data[used], data[response], sample_weight)
        model._used = used
        return model

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AdditiveSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Observations; NumPy, pandas or polars.
        y : array-like of shape (n,) or (n, n_classes)
            Labels, two or more distinct, or probabilities of the classes.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : AdditiveSVC
            The fitted estimator.
        """
        self._used = None
        run = self._run()
        scheme = check.choose_scheme(self.inference, self.max_iter, self.tol)
        check.check_full(scheme, type(self).__name__)
        likelihood = check.choose_likelihood(self.likelihood, scheme)
        data = self._read_training(X, y, sample_weight)
        self._table.check_training(data.X)
        if self._models_missing:
            check.check_missing("model", scheme, self.checkpoint)
            data = data.repeated() if isinstance(scheme, Gibbs) else data
        groups = {name: x[data.rows] for name, x in self._table.labels(X).items()}
        levels, table = learn_groups(data.X, groups or None)
        data = data._replace(X=table)
        problem = self._problem(data, levels, scheme, likelihood, run.generator("places"))
        fit, moments = fit_models(run, problem, data, scheme, joint=True)
        fit = fit.with_left_out(moments)
        self._keep_groups(problem, levels, scheme)
        return self._keep(fit, run)

    def _problem(
        self,
        data: Training,
        levels: Levels,
        scheme: Any,
        likelihood: Any,
        rng: np.random.Generator,
    ) -> Problem:
        X, table = data.X, self._table
        rows = TrainingRows(
            layout=table.layout,
            X=X,
            c=data.c,
            levels=[x.size for x in levels.labels],
            rng=rng,
            choose_imputer=check.choose_imputer,
            choose_kernel=check.choose_kernel,
            centred=any(t.design.is_intercept for t in table.terms),
            groups=self.encoding_.groups,
            units=self.encoding_.scales,
        )
        bound = []
        for name, part, prior in table.terms:
            with of_term(name):
                design = part.bind(rows)
                if design.is_grouped:
                    prior = choose_group_prior(prior, design.r, name, scheme)
                else:
                    prior = check.choose_prior(prior, scheme)
            bound.append(Term(name, design, prior))
        model = Model(tuple(bound), likelihood)
        if learned := [t.name for t in table.terms if t.design.learns_length_scale]:
            model = learn_length_scales(model, learned, X, data, rng)
        engine = choose_engine(self.engine, X, model.width, self.n_jobs)
        blocks = Blocks(X, block_rows(model.width))
        return build_problem(model, blocks, engine, scheme, data.c, data.unit, "full")

    # ----- reports

    @property
    def terms_(self) -> list[Term]:
        """Terms with their parts bound to the training rows; groups come last."""
        return list(self._fitted().machines[0].model.terms)

    def _coefficients_of(self, machine: BinaryModel) -> tuple[list[tuple[str, str]], Array, Any]:
        """Names of coefficients, their positions, and the matrix from theta to the user's scale.

        The scaling of columns is undone; their centres go to the intercept.
        """
        names = self._names()
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
            labels += [(term.name, label) for label in design.labels(names)]
            at += range(where.start, where.stop)
            scales += list(scale)
        moved = np.flatnonzero(shift) if level is not None else np.empty(0, dtype=int)
        rows = np.append(np.arange(len(at)), np.full(moved.size, level or 0))
        columns, values = np.append(np.array(at, dtype=int), moved), np.append(scales, shift[moved])
        T = sparse.coo_array((values, (rows, columns)), (len(at), shift.size))
        return labels, np.array(at, dtype=int), sparse.csr_array(T)

    def _compared(self, labels: Sequence[tuple[str, str]]) -> tuple[list[Any], Array, Any]:
        """Coefficients with levels compared to the first level, see :func:`.contrasts`.

        There is no comparison without an intercept, or under a selection prior.
        """
        machine, at = self.machines_[0], {label: k for k, label in enumerate(labels)}
        names = self._names()
        level = [t.name for t in machine.model.terms if t.design.is_intercept]
        every: list[list[int]] = []
        if level and machine.inclusion is None:
            for term in dict.fromkeys(name for name, _ in labels):
                named = ([(term, names[j]) for j in each] for each in self.encoding_.levels)
                every += [[at[k] for k in each] for each in named if all(k in at for k in each)]
        shown, rows, T = contrasts(
            [name for _, name in labels], every, at[level[0], "intercept"] if level else 0
        )
        return [(labels[k][0], name) for k, name in zip(rows, shown, strict=True)], rows, T

    @property
    def inclusion_proba_(self) -> Array:
        """Posterior inclusion probability of each column of the input, ``(n_features,)``.

        A column that a term without a selection prior reads has probability 1; a column that no
        term reads has probability 0.
        """
        machines, table = self._fitted().machines, self._table
        chances = [m.inclusion for m in machines if m.inclusion is not None]
        if not chances:
            raise AttributeError(
                "inclusion_proba_ needs a term with a selection prior, such as "
                "('x', Columns(), 'laplace_zero') or 'spike_slab'."
            )
        reads = {t.name: where for t, where in zip(table.terms, table.reads, strict=True)}
        excluded = np.ones(len(table.numbers))  # probability, from all terms of all models
        model = machines[0].model
        for term, where in zip(model.terms, model.slices, strict=True):
            read = reads[term.name]
            # a term without a coefficient for each column needs all of its columns
            single = term.design.has_labels and len(read) == term.design.width
            for chance in chances:
                excluded[read] *= 1.0 - (chance[where] if single else 1.0)
        out = np.ones(self.n_features_in_)
        out[table.plain] = [1.0 - excluded[list(made)].min() for made in self.encoding_.made]
        return out

    imputed_, impute = LinearClassifier.imputed_, LinearClassifier.impute

    @property
    def _unread(self) -> Array:
        return np.setdiff1d(np.arange(len(self._table.numbers)), self._table.read)

    def partial(self, X: Any, return_std: bool = False, *, centred: bool = False) -> Any:
        """Contribution of each term to f at given rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Also return posterior standard deviations.
        centred : bool, default=False
            Subtract from each smooth function its average over the rows and add it to the first
            intercept.  Standard deviations then exclude the uncertainty of this level, which the
            data hardly separate from the intercept.

        Returns
        -------
        means : dict of arrays
            Keys are names of terms; shape (n,), or (n, n_classes) for more than two classes.
        std : dict of arrays
            Only with ``return_std``.
        """
        mean, std = partial(self._fitted().machines, self._read_new(X), not centred)
        if return_std:
            self._need_spread()
        return (mean, std) if return_std else mean

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by term and name (and class, for more than two): mean, sd, lower, upper, the
            inclusion probability under selection priors, r_hat and ess for samplers.  Levels of a
            category are differences to its first level.  A smooth function has one row ``smooth``
            with its effective degrees of freedom, ``edf``; see :meth:`partial` for the curve and
            ``random_effects_`` for groups.
        """
        pd, ends, frames = pandas_for("summary"), tails(level), []
        for machine in self._fitted().machines:
            labels, at, T = self._coefficients_of(machine)
            labels, rows, compared = self._compared(labels)
            at, T = at[rows], compared @ T
            chance = machine.inclusion
            more = {} if chance is None else {"inclusion": chance[at]}
            table = coefficient_table(machine, T, ends, more)
            index = pd.MultiIndex.from_tuples(labels, names=["term", "name"])
            frame = pd.DataFrame(table, index=index)
            for name, edf in degrees_of_freedom(machine).items():
                frame.loc[(name, "smooth"), "edf"] = edf
            frames.append(frame)
        return self._with_note(self._cautioned(stacked(frames, self.classes_, pd)))

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """``n`` draws of the named coefficients, or of f at rows ``X``.

        Coefficients are in the order of the terms and their columns; the shapes are those of
        :meth:`BayesianLinearSVC.sample_posterior`.  With ``X``, missing cells and the effects of
        unseen groups are drawn too.
        """
        if X is not None:
            return draw_f(self, n, X, random_state)
        rng, parts = self._generator(random_state, n), []
        for machine in self._fitted().machines:
            T = self._coefficients_of(machine)[2]
            parts.append(np.asarray(machine.coefficients.sample(n, rng) @ T.T))
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)

    def _drawn(self, thetas: Sequence[Array], X: Any) -> Draws:
        """Draws by name, names of their axes, and labels of the coordinates, for ArviZ.

        With rows ``X`` also the contributions of smooth functions to f there.
        """
        group: dict[str, Any] = {}
        dims: dict[str, list[str]] = {}
        coords: dict[str, Any] = {}
        labels = self._coefficients_of(self.machines_[0])[0]
        pairs = list(zip(self.machines_, thetas, strict=True))
        parts = [theta @ self._coefficients_of(m)[2].T.toarray() for m, theta in pairs]
        for term in dict.fromkeys(name for name, _ in labels):
            at = [j for j, (name, _) in enumerate(labels) if name == term]
            axis = f"name_of_{term}"
            group[term], dims[term] = [part[..., at] for part in parts], [axis]
            coords[axis] = [labels[j][1] for j in at]
        model = self.machines_[0].model
        for k, each in enumerate(model.terms if X is not None else ()):
            if not (each.design.has_labels or each.design.is_grouped):
                f = []
                for m, theta in pairs:
                    drawn = np.asarray(term_rows(m, X, k)[0] @ theta.reshape(-1, theta.shape[-1]).T)
                    f.append(drawn.T.reshape(*theta.shape[:2], -1))
                group[f"smooth_{each.name}"], dims[f"smooth_{each.name}"] = f, ["obs"]
        return self._with_effects((group, dims, coords), thetas)
