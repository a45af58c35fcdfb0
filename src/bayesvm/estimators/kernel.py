"""The kernel support vector machine: a Gaussian process seen through the hinge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from .. import namespace
from .. import validation as check
from ..blocks import Blocks, block_rows
from ..designs import Intercept, Standardised, Whitened, choose_points, fit_columns, whiten
from ..distinct import Distinct, merge
from ..gaussian import covariance
from ..gram import Labels, Predictor, fit_sites
from ..inference.loop import Progress, State
from ..inference.tight import Tight
from ..inference.tune import Seen, tune
from ..kernels import Scaled
from ..model import Model, Problem
from ..priors import Fixed
from ..stats import Dense, Factored
from ..types import Array, Coef, Rows, Term
from ._base import BayesianClassifier
from ._large import fit_large

ALL_ROWS = 2000  # up to here every distinct row is an inducing point
FIRST_INDUCING = 250
MOST_INDUCING = 1000
RESIDUAL_SHARE = 0.1  # of the prior variance that inducing points may leave unexplained


class BayesianSVC(BayesianClassifier):
    r"""Kernel support vector machine with a posterior: a Gaussian process under the hinge.

    .. math::

        f \sim \mathrm{GP}(b, k), \qquad L(y_i \mid f_i) = e^{-2\max(0,\, 1 - y_i f_i)} .

    One fit chooses the kernel's parameters, finds the posterior of *f* and calibrates
    probabilities; it takes the place of a grid search over ``C`` and ``gamma`` followed by Platt's
    method.  The mode is that of ``sklearn.svm.SVC`` with ``C`` twice the kernel's weight.

    Parameters
    ----------
    kernel : str, object of :mod:`bayesvm.kernels` or callable, default="rbf"
        ``"rbf"``, ``"matern"``, ``"linear"`` or ``"poly"``; a kernel object, from whose values
        tuning starts; or a function of two arrays of rows.  For a kernel given by name tuning also
        decides between one length scale and one per column.
    n_inducing : int, "auto" or None, default="auto"
        Number of inducing points.  ``None`` takes every distinct row: the exact process.
        ``"auto"`` does so up to 2000 rows, and beyond takes 250, 500 or 1000: the first that leaves
        less than a tenth of the prior variance unexplained.
    inducing : {"kmeans", "random"} or array of shape (m, n_features), default="kmeans"
        Where the points are.
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        How the posterior is found.
    likelihood : {"hinge", "logistic", "probit"} or an object, default="hinge"
        What labels say of f.
    bound : {"auto", "tight", "augmented"}, default="auto"
        ``"tight"`` does without the papers' augmentation, which makes standard deviations 20 to
        40 % too small; ``"auto"`` is tight under ``inference="vb"``.
    tune : bool or {"evidence", "cv", "bound"}, default=True
        How the kernel's parameters are learned.  ``True`` is ``"evidence"``: length scales by the
        evidence of a logistic model, the amplitude by the leave-one-out log loss of the hinge.
        ``"cv"`` uses five folds for both; ``"bound"`` is the papers' way, for comparison.
        ``False`` takes the kernel as it is.
    bias : float, default=3.0
        Prior standard deviation of the level of f.
    standardize : bool, default=True
        Centre and scale columns inside; length scales are then in units of a column's spread.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: three numbers fitted on leave-one-out moments, the
        pseudo-likelihood normalised over labels, or :math:`\Phi(m/\sqrt{1+v})`.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, times ``sample_weight``.
    engine : {"auto", "serial", "threads"} or an object of :mod:`bayesvm.engines`, default="auto"
        Who visits the rows.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision of the columns of fits to more than 50,000 rows; ``"auto"`` is float32, but
        float64 under EM.  Columns are computed, and sums over rows taken, in float64 always.
    memory : int, optional
        Bytes that such a fit may spend on keeping its columns, which are made again on every pass
        if they need more; by default half of what is free.
    max_iter : int, optional
        Most iterations of the scheme; its own default if not given.
    tol : float, optional
        Tolerance of the scheme; its own default if not given.
    random_state : int, RandomState, Generator or None, default=None
        Seed of subsets, inducing points and samplers.
    n_jobs : int, optional
        Threads (or processes of the sampler).
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
    kernel_ : object of :mod:`bayesvm.kernels`
        The kernel with its learned parameters, on the standardised scale.
    inducing_points_ : array of shape (m, n_features)
        On the scale of the input.
    support_ : array of int
        Rows whose margin is more likely violated than not (under EM: rows with a positive dual);
        not defined for fits to more than 50,000 rows.
    support_proba_ : array of shape (n,) or (n, n_classes)
        Posterior probability that :math:`y_i f_i < 1`; not defined under EM.
    offset_ : array of shape (1,) or (n_classes,)
        What calibration adds to f before the sign is taken.
    elbo_ : float
        Lower bound on the log evidence, complete with constants (summed over machines).
    elbo_path_ : array
        Its history (a list of them for more than two classes).
    n_iter_, converged_ : int, bool
        Passes of the last fit, and whether its stopping rule was met.

    See Also
    --------
    sklearn.svm.SVC : the mode, without probabilities.
    BayesianLinearSVC : the linear machine, for very many columns or rows.

    References
    ----------
    Wenzel et al. (2017), *Bayesian nonlinear support vector machines for big data*; Henao, Yuan &
    Carin (2014), *Bayesian nonlinear support vector machines and discriminative factor modeling*.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bayesvm import BayesianSVC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> mean, sd = model.decision_function([[0.0, 0.5], [9.0, 9.0]], return_std=True)
    >>> bool(sd[1] > sd[0])
    True
    """

    _accept_sparse: Any = False

    def __init__(
        self,
        kernel: Any = "rbf",
        n_inducing: Any = "auto",
        inducing: Any = "kmeans",
        inference: Any = "vb",
        likelihood: Any = "hinge",
        *,
        bound: str = "auto",
        tune: Any = True,
        bias: float = 3.0,
        standardize: bool = True,
        probability: str = "calibrated",
        class_weight: Any = None,
        engine: Any = "auto",
        dtype: str = "auto",
        memory: int | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.inference = inference
        self.likelihood = likelihood
        self.bound = bound
        self.tune = tune
        self.bias = bias
        self.standardize = standardize
        self.probability = probability
        self.class_weight = class_weight
        self.engine = engine
        self.dtype = dtype
        self.memory = memory
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    # ----- fitting

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source of :mod:`bayesvm.blocks`
            Rows; NumPy, pandas or polars, or files that are read in blocks.
        y : array-like of shape (n,)
            Labels, two or more distinct; not needed where the source has them.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : BayesianSVC
            The fitted estimator.
        """
        tol = 1e-5 if self.tol is None and self.inference == "vb" else self.tol
        scheme, bound = check.choose_bound(
            self.bound, check.choose_scheme(self.inference, self.max_iter, tol)
        )
        likelihood = check.choose_likelihood(self.likelihood, scheme)
        rule = check.choose_tuning(self.tune)
        check.check_probability(self.probability)
        check.check_positive("bias", self.bias)
        X, y = self._read(X, y, reset=True)
        classes, codes = check.encode(y, X)
        c = check.check_weights(sample_weight, self.class_weight, codes, classes, X)
        check.check_two_sided(codes, c, classes)
        self.classes_ = classes
        if check.is_large(X):
            check.check_positive_weights(c)
            self._forget()
            fit_large(self, X, codes, c, scheme, bound, likelihood, rule)
            self.offset_ = np.array([m.link.offset for m in self.machines_])
            return self
        X = namespace.to_numpy(X)  # on a device so few rows would wait for it
        kept = np.flatnonzero(c > 0)
        data = merge(X[kept], codes[kept], c[kept])
        rng = self._generator()
        inputs = self._inputs(data)
        points = inputs.columns(data.X)
        kernel, named = check.choose_kernel(self.kernel, points.shape[1])
        machines = tuple(
            Labels(t, data.c, data.at, points.shape[0]) for t in self._targets(data.codes)
        )
        with check.blas_threads(points.shape[0], "dense"):
            sites = None
            if rule is not None:
                weighted = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
                seen = Seen(points, machines, float(self.bias) ** 2)
                kernel, sites = tune(rule, weighted, seen, likelihood, rng, named)
            design = whiten(kernel, self._points(points, kernel, inputs, rng), inputs)
            model = self._model(design, Tight(likelihood) if bound == "tight" else likelihood)
            problem = self._problem(model, data, scheme)
            starts = self._starts(problem, points, machines, scheme, sites)
        self.kernel_ = kernel
        self.inducing_points_ = design.Z * inputs.scale + inputs.center
        self._conclude(self._fit_machines(problem, data.codes, scheme, starts))
        self._predictors: list[Predictor] | None = self._predictors_of(problem)
        self.offset_ = np.array([m.link.offset for m in self.machines_])
        self._mark_support(problem, data, kept, X.shape[0])
        return self

    def _forget(self) -> None:
        """What only fits with every row in memory know."""
        self._predictors = None
        for name in ("support_", "support_proba_"):
            self.__dict__.pop(name, None)

    def _inputs(self, data: Distinct) -> Standardised:
        """Centre and scale of the columns, rows counted by their weights."""
        blocks = Blocks(data.X[data.at], np.empty(data.c.size), data.c, block_rows(data.X.shape[1]))
        engine = check.choose_engine("serial", data.c.size, 1, None)
        return fit_columns(blocks, engine, self.standardize)

    def _points(
        self, X: Array, kernel: Any, inputs: Standardised, rng: np.random.Generator
    ) -> Array:
        """Inducing points on the standardised scale."""
        if not isinstance(self.inducing, str):
            return check.check_points(self.inducing, inputs)
        check.check_inducing(self.inducing, self.n_inducing)
        n = X.shape[0]
        if self.n_inducing is None or (self.n_inducing == "auto" and n <= ALL_ROWS):
            return X
        if self.n_inducing != "auto":
            return choose_points(X, int(self.n_inducing), self.inducing, rng)
        m, sample = FIRST_INDUCING, X[rng.choice(n, min(n, 1000), replace=False)]
        while True:
            Z = choose_points(X, m, self.inducing, rng)
            plain = Standardised(np.zeros(X.shape[1]), np.ones(X.shape[1]))
            design = whiten(kernel, Z, plain)
            left = design.residual(sample, design.columns(sample)).sum()
            if 2 * m > MOST_INDUCING or left < RESIDUAL_SHARE * kernel.diag(sample).sum():
                return Z
            m *= 2

    def _model(self, design: Whitened, likelihood: Any) -> Model:
        level = Term("bias", Intercept(), Fixed(float(self.bias) ** -2))
        return Model((level, Term("gp", design, Fixed(1.0))), likelihood)

    def _problem(self, model: Model, data: Distinct, scheme: Any) -> Problem:
        """Columns are built once: at the points themselves they are the rows of the factor."""
        design, n, K = model.terms[-1].design, data.c.size, model.width
        exact = design.width == data.X.shape[0] and isinstance(self.inducing, str)
        # as many coefficients as rows: an n-sized factor says the same for less
        form = "factored" if exact and n < K and not check.needs_matrix(scheme) else "dense"
        engine = check.choose_engine(self.engine, n, K, self.n_jobs)
        blocks = Blocks(data.X, np.empty(n), data.c, n if form == "factored" else block_rows(K))
        if exact:
            C = np.empty((n, K))
            C[:, 0] = 1.0
            C[:, 1:] = np.tril(design.L)[data.at]
            rows = Rows(C)
        else:
            rows = model.rows(data.X[data.at])
            if not check.has_spread(scheme):  # a point sees the low-rank function itself
                rows = Rows(rows.C)
        return Problem(model, blocks.assembled(rows), engine, form)

    def _starts(
        self,
        problem: Problem,
        points: Array,
        machines: tuple[Labels, ...],
        scheme: Any,
        sites: Sequence[Any] | None,
    ) -> list[State | None]:
        """With every row a point, the answer itself, by one Gram matrix and no columns."""
        model, design = problem.model, problem.model.terms[-1].design
        if design.Z is not points or not check.has_spread(scheme):
            return [None] * len(machines)
        K = design.L @ design.L.T + float(self.bias) ** 2
        P = model.precision(model.init())
        C = problem.blocks.X  # one row a point, unless a point has two labels
        if C.shape[0] > points.shape[0]:
            C = np.column_stack([np.ones(points.shape[0]), design.L])
        starts: list[State | None] = []
        for j, labels in enumerate(machines):
            first = sites[j] if sites else None
            fit = fit_sites(K, labels, model.likelihood.expected, first, tol=3e-6)
            root = np.sqrt(fit.sites.w)[:, None] * C
            S = Factored(C, fit.sites.w) if problem.form == "factored" else Dense(root.T @ root)
            starts.append(State(Coef((C.T @ fit.alpha) / P, covariance(S, P)), model.init()))
        return starts

    def _mark_support(self, problem: Problem, data: Distinct, kept: Array, n: int) -> None:
        """Rows on or inside the margin."""
        held: list[Array] = []
        for machine, y in zip(self.machines_, self._targets(data.codes), strict=True):
            dual = machine.extra.get("dual")
            if dual is not None:
                held.append(dual > 1e-8 * data.c)
                continue
            rows = Rows(problem.blocks.X, problem.blocks.extra)
            m, v = machine.posterior.moments(rows.C)
            sd = np.sqrt(np.maximum(v + rows.extra, 1e-300))
            held.append(ndtr((1.0 - y * m) / sd))
        every = np.zeros((n, len(held)))
        every[kept] = np.stack(held, axis=1)[data.back]
        self.support_ = np.flatnonzero(every.max(axis=1) > 0.5)
        self.__dict__.pop("support_proba_", None)
        if self.machines_[0].posterior.has_spread:
            self.support_proba_ = every[:, 0] if len(held) == 1 else every

    # ----- asking

    def _predictors_of(self, problem: Problem) -> list[Predictor] | None:
        """With one row a point, predictions by kernel values alone and the points that matter."""
        if problem.form != "factored" or not self.machines_[0].posterior.has_spread:
            return None
        if any("draws" in m.extra for m in self.machines_):
            return None
        L = problem.model.terms[-1].design.L
        K = L @ L.T + float(self.bias) ** 2
        out = []
        for machine in self.machines_:
            mean, cov = machine.state.coef
            alpha = solve_triangular(L, mean[1:], lower=True, trans=1, check_finite=False)
            out.append(Predictor.of(alpha, cov.w, K))  # type: ignore[attr-defined]
        return out

    def _on_device(self) -> bool:
        return self._predictors is None and super()._on_device()

    def _moments_at(self, X: Any) -> list[tuple[Array, Array]]:
        if self._predictors is None:
            return super()._moments_at(X)
        model = self.machines_[0].model
        design, level = model.terms[-1].design, 1.0 / model.terms[0].prior.precision
        rows = design.inputs.columns(X)
        cross, diag = design.kernel(rows, design.Z) + level, design.kernel.diag(rows) + level
        return [p.at(cross, diag) for p in self._predictors]

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draws of the function f, jointly over rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like of shape (rows, n_features), optional
            Where; by default at the inducing points.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, rows)
            One more axis, of classes, after the first when there are more than two.
        """
        check_is_fitted(self, "machines_")
        rng = self._generator(random_state)
        X = self.inducing_points_ if X is None else namespace.to_numpy(self._new_rows(X))
        model = self.machines_[0].model
        design = model.terms[-1].design
        C = model.rows(X).C
        rest = design.kernel(design.inputs.columns(X)) - C[:, 1:] @ C[:, 1:].T
        rest[np.diag_indices_from(rest)] += 1e-6 * float(np.mean(design.kernel.diag(design.Z)))
        try:
            root = cholesky(rest, lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # nothing but rounding is left
            root = np.diag(np.sqrt(np.maximum(np.diag(rest), 0.0)))
        draws = [
            m.posterior.sample(n, rng) @ C.T + rng.standard_normal((n, len(C))) @ root.T
            for m in self.machines_
        ]
        return draws[0] if len(draws) == 1 else np.stack(draws, axis=1)
