"""Any sum of terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..blocks import Blocks, block_rows
from ..core.types import Array, Coef, Rows, Term
from ..inference.progress import Progress
from ..inputs import reading
from ..likelihoods.tight import Tight
from ..machines.diagnostics import ess, r_hat
from ..machines.machine import Machine
from ..model.latent import predicted
from ..model.model import Model, Problem, arranged
from ..model.passes import moments
from ..reports.effects import EffectReport, second_moments
from ..terms import Intercept, Source, read_terms
from . import choices as check
from ._base import arviz_tree, pandas_for
from ._missing import ImputedCells
from ._tables import TableReader
from .groups import random_prior


class AdditiveSVC(TableReader, EffectReport, ImputedCells):
    r"""Support vector machine whose predictor is any sum of terms.

    .. math:: f_i = \sum_t c_{t,i}^\top \theta_t, \qquad \theta_t \sim \text{prior of term } t .

    Each term is a part of the input with a prior of its own; other estimators are such sums with a
    name.  Parts know nothing of each other's priors, so that whatever can be written down can be
    fitted: smooth functions beside selected columns beside random effects.

    Parameters
    ----------
    terms : list of (name, part) or (name, part, prior), optional
        Parts are objects of :mod:`bayesvm.terms`; priors are names or objects of
        :mod:`bayesvm.priors`, by default those of the part.  Without terms the predictor is an
        intercept and all columns: ``[("intercept", Intercept()), ("columns", Columns())]``.
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        How the posterior is found.
    likelihood : {"hinge", "logistic", "probit"} or an object, default="hinge"
        What labels say of f.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, times ``sample_weight``.
    engine : {"auto", "serial", "threads"} or an object of :mod:`bayesvm.engines`, default="auto"
        Who visits the rows.
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
    checkpoint : str or path, optional
        File that holds the state of a long fit; a later fit with the same file goes on from it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels.
    terms_ : list of Term
        Terms with their parts bound to the training rows; groups come last.
    random_effects_, variance_components_, intraclass_share_ : data frames
        Of the terms that are groups, as in :class:`~bayesvm.MixedSVC`.
    inclusion_proba_ : array of shape (n_features,)
        Where a term has a selection prior: posterior probability of each column to matter.
    imputed_ : Imputed
        Where a term is ``Missing``: row, column, mean and standard deviation of each missing cell
        of the training rows, columns counted without those that name groups.
    elbo_, elbo_path_, n_iter_, converged_
        As of the other estimators.

    See Also
    --------
    BayesianLinearSVC : an intercept and all columns.
    MixedSVC : with groups.

    Examples
    --------
    A smooth function of the first two columns, a few others selected:

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

    _accept_sparse: Any = False
    _no_cells = "missing cells are modelled by terms with Missing(Columns(...)); there is none."

    def __init__(
        self,
        terms: Any = None,
        inference: Any = "vb",
        likelihood: Any = "hinge",
        *,
        probability: str = "calibrated",
        class_weight: Any = None,
        engine: Any = "auto",
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.terms = terms
        self.inference = inference
        self.likelihood = likelihood
        self.probability = probability
        self.class_weight = class_weight
        self.engine = engine
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AdditiveSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows; NumPy, pandas or polars.
        y : array-like of shape (n,)
            Labels, two or more distinct.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : AdditiveSVC
            The fitted estimator.
        """
        scheme = check.choose_scheme(self.inference, self.max_iter, self.tol)
        check.check_probability(self.probability)
        self._parts = read_terms(self.terms)
        reading.check_in_memory(X, "AdditiveSVC")
        X, y, labels = self._take(X, y)
        classes, codes = np.unique(y, return_inverse=True)
        c = reading.check_weights(sample_weight, self.class_weight, codes, classes)
        copies = reading.check_weights(sample_weight, None, codes, classes)
        reading.check_two_sided(codes, c, classes)
        self.classes_ = classes
        rows = np.flatnonzero(c > 0)
        c, copies = c[rows], copies[rows]
        self._check_cells(X[rows])
        if self._incomplete():
            check.check_missing("model", scheme, self.checkpoint)
            if check.is_sampler(scheme):
                each = reading.repeated(X[rows], copies)
                rows, (c, copies) = rows[each], reading.shared(c, copies, each)
        self._training_rows = rows
        problem = self._problem(self._coded(X[rows], labels, rows), c, copies, scheme)
        self._second = second_moments(problem)
        count = 1 if len(classes) == 2 else len(classes)
        self._conclude(self._fit_machines(problem, codes[rows], scheme, [None] * count))
        self.terms_ = list(problem.model.terms)
        self.offset_ = np.array([m.link.offset for m in self.machines_])
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        parts = self.terms if isinstance(self.terms, Sequence) else ()
        tags.input_tags.allow_nan = any(
            getattr(t[1], "incomplete", False)
            for t in parts
            if isinstance(t, Sequence) and len(t) > 1
        )
        return tags

    def _problem(self, X: Any, c: Array, copies: Array, scheme: Any) -> Problem:
        sizes = [labels.size for labels in self._levels.labels]
        level = any(isinstance(part, Intercept) for _, part, _ in self._parts)
        source = Source(self._layout(), X, c, sizes, self._fit_generator("places"), level)
        bound = []
        for name, part, prior in self._parts:
            try:
                design = part.bind(source)
                if design.is_grouped:
                    prior = random_prior(prior, design.r, name, scheme)
                else:
                    prior = check.choose_prior(prior, scheme)
            except ValueError as error:
                raise ValueError(f"term {name!r}: {error}") from error
            bound.append(Term(name, design, prior))
        likelihood = check.choose_likelihood(self.likelihood, scheme)
        likelihood = Tight(likelihood) if scheme.is_tight else likelihood
        model = Model(arranged(bound), likelihood).sized(float(c.sum()))
        n, K = X.shape[0], model.width
        widths = {model.terms[k].name: model.terms[k].design.width for k in model.grouped}
        check.check_corner(K - sum(widths.values()), widths)
        form = check.settle_form(model, n, scheme, "full")
        engine = check.choose_engine(self.engine, n, K, self.n_jobs)
        blocks = Blocks(X, np.empty(n), c, block_rows(K), copies=copies)
        return Problem.posed(model, blocks, engine, form)

    # ----- asking

    def partial(self, X: Any, return_std: bool = False) -> Any:
        """What each term adds to f at given rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Also return posterior standard deviations.

        Returns
        -------
        means : dict of arrays
            By the name of a term, shape (n,), or (n, n_classes) for more than two classes.
        std : dict of arrays
            Only with ``return_std``.
        """
        self._check_fitted()
        X = self._new_rows(X)
        mean, std = {}, {}
        model = self.machines_[0].model
        for term, where in zip(model.terms, model.slices, strict=True):
            pairs = [_alone(machine, X, where) for machine in self.machines_]
            if term.design.is_grouped:  # groups not seen in training
                k = model.terms.index(term)
                pairs = [
                    (m, v + term.design.absent(X, machine.spread(k)))
                    for (m, v), machine in zip(pairs, self.machines_, strict=True)
                ]
            both = [np.stack(part, axis=1) for part in zip(*pairs, strict=True)]
            single = len(pairs) == 1
            mean[term.name], variance = (part[:, 0] if single else part for part in both)
            std[term.name] = np.sqrt(variance)
        if return_std and not self.machines_[0].posterior.has_spread:
            self.machines_[0].posterior.variance()  # a point estimate refuses
        return (mean, std) if return_std else mean

    def _unread(self) -> Array:
        layout = self._layout()
        read = [j for _, part, _ in self._parts for j in self._reads(layout, part)]
        return np.setdiff1d(np.arange(len(self._names())), read)

    @property
    def inclusion_proba_(self) -> Array:
        """Posterior probability of each column of the input to matter, ``(n_features,)``.

        Columns matter for certain where a term without a selection prior reads them, and not at all
        where none does.
        """
        self._check_fitted()
        if self.machines_[0].inclusion is None:
            raise AttributeError(
                "inclusion_proba_ needs a term with a selection prior, such as "
                "('x', Columns(), 'laplace_zero') or 'spike_slab'."
            )
        layout, parts = self._layout(), {t.name: t.design for t in self._parts}
        plain = np.setdiff1d(np.arange(layout.count), layout.groups)
        out = np.ones(layout.count)  # probability to be in no term of any machine
        out[list(layout.groups)] = 0.0
        for machine in self.machines_:
            for term, where in zip(machine.model.terms, machine.model.slices, strict=True):
                read = plain[self._reads(layout, parts[term.name])]
                # a coefficient for each column, or a function that needs all of them
                single = term.design.has_labels and len(read) == term.design.width
                out[read] *= 1.0 - (machine.inclusion[where] if single else 1.0)
        return 1.0 - out

    def _reported(self, machine: Machine) -> tuple[list[tuple[str, str]], Array, Any]:
        """Coefficients that have a name: names, positions, and the matrix that takes theta to them.

        Columns are scaled back, and what their centres take from f is given to the intercept.
        """
        names = self._names()
        labels: list[tuple[str, str]] = []
        own, scales = [], []
        level, shift = None, np.zeros(machine.model.width)
        for term, where in zip(machine.model.terms, machine.model.slices, strict=True):
            design = term.design
            if not design.has_labels:
                continue
            mine = design.labels(names)
            if level is None and mine == ["intercept"]:
                level = len(labels)
            scale = np.ones(design.width)
            if hasattr(design, "scale"):
                scale = 1.0 / design.scale
                shift[where] = -design.center * scale
            labels += [(term.name, label) for label in mine]
            own.append(np.arange(where.start, where.stop))
            scales.append(scale)
        at = np.concatenate([*own, np.empty(0, dtype=int)]).astype(int)
        rows = np.arange(at.size)
        values = np.concatenate([*scales, np.empty(0)])
        if level is not None:
            moved = np.flatnonzero(shift)
            rows = np.concatenate([rows, np.full(moved.size, level)])
            values = np.concatenate([values, shift[moved]])
            T = sparse.coo_array(
                (values, (rows, np.concatenate([at, moved]))), (at.size, shift.size)
            )
        else:
            T = sparse.coo_array((values, (rows, at)), (at.size, shift.size))
        return labels, at, sparse.csr_array(T)

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draws of the coefficients that have a name, or of f at given rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like of shape (rows, n_features), optional
            Give draws of f at these rows instead; missing cells and effects of groups not seen are
            drawn too.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, coefficients), or (n, rows) with ``X``
            Coefficients in the order of :meth:`summary`.  One more axis, of classes, after the
            first when there are more than two.
        """
        self._check_fitted()
        rng = self._generator(random_state)
        rows, parts = None if X is None else self._new_rows(X), []
        for machine in self.machines_:
            thetas = machine.posterior.sample(n, rng)
            if rows is None:
                parts.append(np.asarray(thetas @ self._reported(machine)[2].T))
            else:
                parts.append(machine.predictors(rows, thetas, rng))
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)

    def to_arviz(self) -> Any:
        """Draws (variational ones unless sampled) as an ArviZ data tree.

        Returns
        -------
        tree : xarray.DataTree
            Group ``posterior`` with a variable for each term whose coefficients have names, and one
            for the effects of each factor of groups.
        """
        self._check_fitted()
        rng, single = self._generator(), len(self.machines_) == 1
        group: dict[str, Any] = {}
        dims: dict[str, list[str]] = {}
        coords: dict[str, Any] = {} if single else {"class": list(self.classes_)}
        labels, _, _ = self._reported(self.machines_[0])
        parts = [self._draws(m, rng) @ self._reported(m)[2].T.toarray() for m in self.machines_]
        for term in dict.fromkeys(name for name, _ in labels):
            at = [j for j, (name, _) in enumerate(labels) if name == term]
            own = [part[..., at] for part in parts]
            group[term] = own[0] if single else np.stack(own, axis=2)
            axis = f"name_of_{term}"
            dims[term] = [axis] if single else ["class", axis]
            coords[axis] = [labels[j][1] for j in at]
        effects = self._drawn_effects(rng)
        return arviz_tree(group | effects[0], dims | effects[1], coords | effects[2])

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by term and name (and class, for more than two): mean, sd, lower, upper, the
            probability to matter where a prior selects, r_hat and ess where drawn.  Coefficients of
            smooth functions have no names, see :meth:`partial`; those of groups are in
            ``random_effects_``.
        """
        self._check_fitted()
        pd = pandas_for("summary")
        tails, frames = check.tails(level), []
        for machine in self.machines_:
            labels, at, T = self._reported(machine)
            post = machine.posterior
            table = {"mean": T @ post.mean}
            if post.has_spread:
                table["sd"] = np.sqrt(post.moments(T)[1])
                table["lower"], table["upper"] = post.quantiles(T, tails)
            if machine.inclusion is not None:
                table["inclusion"] = machine.inclusion[at]
            held = machine.draws
            if held is not None:
                user = held.theta @ T.T.toarray()
                table["r_hat"], table["ess"] = r_hat(user), ess(user)
            index = pd.MultiIndex.from_tuples(labels, names=["term", "name"])
            frames.append(pd.DataFrame(table, index=index))
        return self._cautioned(self._stacked(frames, pd))


def _alone(machine: Machine, X: Any, where: slice) -> tuple[Array, Array]:
    """Mean and variance of what some coefficients add to f."""
    params = tuple(each and each.params for each in machine.state.latents)
    rows = predicted(machine.model, X, params) if params else machine.model.rows(X)
    C, V = rows.C, tuple(h for h in rows.V if h.where == where)
    if hasattr(C, "alone"):
        C = C.alone(where)
    else:
        C = np.zeros_like(C)
        C[:, where] = rows.C[:, where]
    post = machine.posterior
    if V and post.has_spread:
        coef = getattr(post, "coef", None) or Coef(post.mean, machine.state.coef.cov)
        m, v = moments(Rows(C, 0.0, V), coef)
    else:
        m, v = post.moments(C)
    return m, np.broadcast_to(v, m.shape)
