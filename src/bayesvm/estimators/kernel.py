"""The kernel support vector machine: a Gaussian process seen through the hinge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from .. import validation as check
from ..blocks import Blocks, block_rows
from ..designs import Intercept, Whitened, whiten
from ..distinct import Distinct
from ..gaussian import covariance
from ..gram import Labels, Predictor, fit_sites
from ..inference.loop import Progress, State, Watch
from ..inference.process import Sampled
from ..inference.tight import Tight
from ..inference.tune import Seen, Through, kernel_prior, tune
from ..kernels import Scaled
from ..lowrank import LowRank
from ..machine import Machine
from ..model import Model, Problem
from ..priors import Fixed
from ..progress import Reporter
from ..stats import Dense, Factored
from ..types import Array, Coef, Rows, Term
from ._base import BayesianClassifier
from ._points import find_places, inducing_points, is_precomputed
from ._sites import fit_by_chains, fit_by_sites


class BayesianSVC(BayesianClassifier):
    r"""Kernel support vector machine with a posterior: a Gaussian process under the hinge.

    .. math::

        f \sim \mathrm{GP}(b, k), \qquad L(y_i \mid f_i) = e^{-2\max(0,\, 1 - y_i f_i)} .

    One fit chooses the kernel's parameters, finds the posterior of *f* and calibrates
    probabilities; it takes the place of a grid search over ``C`` and ``gamma`` followed by Platt's
    method.  The mode is that of ``sklearn.svm.SVC`` with ``C`` twice the kernel's weight.

    Parameters
    ----------
    kernel : str, object of :mod:`bayesvm.kernels`, callable or "precomputed", default="rbf"
        ``"rbf"``, ``"matern"``, ``"linear"`` or ``"poly"``; a kernel object, from whose values
        tuning starts; a function of two arrays of rows; or ``"precomputed"``, X then being the
        square matrix of kernel values (of new rows with the training rows, in prediction).  For a
        kernel given by name tuning also decides between one length scale and one per column; of a
        function and of given values it learns the weight.
    n_inducing : int, "auto" or None, default="auto"
        Number of inducing points.  ``None`` takes every distinct row: the exact process.
        ``"auto"`` does so up to 2000 rows, and beyond takes 250, 500 or 1000: the first that leaves
        less than a tenth of the prior variance unexplained.
    inducing : {"kmeans", "random"} or array of shape (m, n_features), default="kmeans"
        Where the points are.
    approximation : {"variational", "fitc"}, default="variational"
        What becomes of the variance that inducing points leave unexplained.  ``"variational"``:
        it stays, which makes ``elbo_`` a bound on the evidence of the exact process.  ``"fitc"``:
        every row keeps some of its own and learns about it; the bound is then that of another
        process, and can be the higher.  Without effect where every row is a point.
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        How the posterior is found.
    likelihood : {"hinge", "skewed_laplace", "logistic", "probit"} or an object, default="hinge"
        What labels say of f.  ``"skewed_laplace"`` learns the scale of the loss too, at the kernel
        that tuning finds for a scale of one.
    bound : {"auto", "tight", "augmented"}, default="auto"
        ``"tight"`` does without the papers' augmentation, which makes standard deviations 20 to
        40 % too small; ``"auto"`` is tight under ``inference="vb"``.
    tune : bool or {"evidence", "cv", "bound", "sample"}, default=True
        How the kernel's parameters are learned.  ``True`` is ``"evidence"``: length scales by the
        evidence of a logistic model, the amplitude by the leave-one-out log loss of the hinge.
        ``"cv"`` uses five folds for both; ``"bound"`` is the papers' way, for comparison.
        ``"sample"``, under Gibbs, draws the parameters with f and predicts with all draws.
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
        The kernel with its learned parameters, on the standardised scale; with the means of their
        logarithms if they were drawn.
    kernel_draws_ : array of shape (chains, draws, k)
        With ``tune="sample"``: log parameters in the order of ``kernel_.names`` (a list of such
        arrays, one a class, for more than two classes).
    inducing_points_ : array of shape (m, n_features)
        On the scale of the input; numbers of training rows if precomputed.
    support_ : array of int
        Rows whose margin is more likely violated than not (under EM: rows with a positive dual).
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        return is_precomputed(self.kernel)

    def __init__(
        self,
        kernel: Any = "rbf",
        n_inducing: Any = "auto",
        inducing: Any = "kmeans",
        approximation: str = "variational",
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
        self.approximation = approximation
        self.inference = inference
        self.likelihood = likelihood
        self.bound = bound
        self.tune = tune
        self.bias = bias
        self.standardize = standardize
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

    # ----- fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesianSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, n) if precomputed
            Rows; NumPy, pandas or polars.
        y : array-like of shape (n,)
            Labels, two or more distinct.
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
        rule = check.choose_tuning(self.tune, scheme)
        fitc = check.check_approximation(self.approximation, scheme, likelihood)
        check.check_probability(self.probability)
        check.check_positive("bias", self.bias)
        X, y = self._read(X, y, reset=True)
        classes, codes = np.unique(y, return_inverse=True)
        c = check.check_weights(sample_weight, self.class_weight, codes, classes)
        check.check_two_sided(codes, c, classes)
        self.classes_ = classes
        kept, rng = np.flatnonzero(c > 0), self._generator()
        tuned = rule is not None
        places = find_places(self.kernel, self.standardize, tuned, X, codes, c, kept)
        data, inputs, kernel, named = places
        points = places.points
        machines = tuple(
            Labels(t, data.c, data.at, points.shape[0]) for t in self._targets(data.codes)
        )
        with check.blas_threads(points.shape[0], "dense"):
            sites = None
            if rule is not None:
                weighted = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
                seen = Seen(points, machines, float(self.bias) ** 2)
                through = None
                if rule == "bound":  # of the fit to come, its points included
                    first = self._points(points, weighted, inputs, rng)
                    through = None if first is points else Through(first, fitc)
                found = tune(rule, weighted, seen, likelihood, rng, named, through)
                kernel, sites = found.kernel, found.sites
            design = whiten(kernel, self._points(points, kernel, inputs, rng), inputs)
            model = self._model(design, Tight(likelihood) if bound == "tight" else likelihood)
            problem = self._problem(model, data, scheme)
        self.__dict__.pop("kernel_draws_", None)
        self.inducing_points_ = design.Z * inputs.scale + inputs.center
        if self._precomputed:
            self.inducing_points_ = design.Z[:, 0].astype(int)
        fitc = fitc and design.Z is not points
        if rule == "sample" or (fitc and check.is_sampler(scheme)):
            prior = kernel_prior(kernel, points.shape[1], likelihood) if rule == "sample" else None
            level = float(self.bias) ** 2
            what = [
                Sampled(kernel, points, design.Z, level, fitc, labels, likelihood, prior)
                for labels in machines
            ]
            self._conclude(self._fit_by_chains(what, design, model, scheme, rng))
            if rule == "sample":
                drawn = [m.extra["draws"].hyper["kernel"] for m in self.machines_]
                self.kernel_draws_ = drawn[0] if len(drawn) == 1 else drawn
                kernel = kernel.with_theta(np.mean(drawn, axis=(0, 1, 2)))
        elif fitc:
            process = LowRank.of(design, points, float(self.bias) ** 2, True)
            self._conclude(self._fit_by_sites(process, machines, model, scheme))
        else:
            starts = self._starts(problem, points, machines, scheme, sites)
            self._conclude(self._fit_machines(problem, data.codes, scheme, starts))
        self.kernel_ = kernel
        self._predictors = self._predictors_of(problem)
        self.offset_ = np.array([m.link.offset for m in self.machines_])
        self._mark_support(problem, data, kept, X.shape[0])
        return self

    def _points(self, X: Array, kernel: Any, inputs: Any, rng: np.random.Generator) -> Array:
        return inducing_points(self.inducing, self.n_inducing, X, kernel, inputs, rng)

    def _fit_by_sites(
        self, process: LowRank, machines: tuple[Labels, ...], model: Model, scheme: Any
    ) -> list[Machine]:
        with self._watched(model) as watch:
            return [
                fit_by_sites(process, labels, model, scheme, self.probability, watch)
                for labels in machines
            ]

    def _fit_by_chains(
        self,
        what: list[Sampled],
        design: Whitened,
        model: Model,
        scheme: Any,
        rng: np.random.Generator,
    ) -> list[Machine]:
        how = (design, model, scheme, self.probability, rng)
        with self._watched(model) as watch:
            return [fit_by_chains(one, *how, watch, self.n_jobs) for one in what]

    @contextmanager
    def _watched(self, model: Model) -> Iterator[Watch]:
        if self.checkpoint is not None:
            raise ValueError(
                "checkpoint= is not kept for approximation='fitc' or tune='sample'; leave it out."
            )
        threads = check.blas_threads(model.width, "dense")
        with threads, Reporter(self.callbacks, self.verbose) as report:
            yield lambda progress, state: report(progress)

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
            if dual is not None and dual.size:  # only the hinge has them
                held.append(dual > 1e-8 * data.c)
                continue
            m, v = machine.extra.get("moments", (None, None))
            if m is None:
                m, v = machine.posterior.moments(problem.blocks.X)
                v = v + problem.blocks.extra
            held.append(ndtr((1.0 - y * m) / np.sqrt(np.maximum(v, 1e-300))))
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
            Where; by default at the inducing points, which is all that is known of a precomputed
            kernel.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, rows)
            One more axis, of classes, after the first when there are more than two.
        """
        check_is_fitted(self, "machines_")
        rng = self._generator(random_state)
        if X is None:
            places = self.machines_[0].model.terms[-1].design.Z
            X = places if self._precomputed else self.inducing_points_
        else:
            X = self._new_rows(X)
        draws = []
        for machine in self.machines_:
            theta, model = machine.posterior.sample(n, rng), machine.model
            f = model.terms[-1].design.joint(X, theta[:, model.slices[-1]], rng)
            draws.append(f + theta[:, :1] if len(model.terms) > 1 else f)
        return draws[0] if len(draws) == 1 else np.stack(draws, axis=1)
