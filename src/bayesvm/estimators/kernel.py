"""Kernel support vector machine: Gaussian process classification with a soft hinge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from ..core.arrays import kind_of
from ..core.types import Array
from ..data import block_rows, cut, tables
from ..data.engines import one_blas_thread
from ..data.labels import Training
from ..gp.kernel_search import KernelSearch
from ..gp.models import ExactBinaryModel, KernelFit, far_variance, joint_draws
from ..gp.sites import merge
from ..inference import SVI, VB
from ..inference.problem import Problem
from ..inference.progress import Progress, Run
from ..inspection.arviz import Draws
from ..inspection.kernels import kernel_importances
from ..inspection.tables import convergence, draws_table, pandas_for, stacked
from ..likelihoods import Logistic, SoftHinge
from . import options as check
from .base import BayesianClassifier
from .fit import choose_engine
from .kernel_fit import Settings, fit_blocks, fit_rows, input_columns, learn_design, training_data
from .predictions import draw_f
from .streaming import Setup, advance, streamable, variational


@dataclass(eq=False, repr=False)
class BayesianSVC(BayesianClassifier):
    r"""Kernel support vector machine with a posterior: a Gaussian process under a soft hinge.

    .. math::

        f \sim \mathrm{GP}(b, k), \qquad
        L(y_i \mid f_i) = e^{-(u_i + \sqrt{u_i^2 + 1})}, \quad u_i = 1 - y_i f_i .

    One fit learns the kernel's parameters, the posterior of *f* and calibrated probabilities; it
    replaces a grid search over ``C`` and ``gamma`` followed by Platt scaling.  With
    ``likelihood="hinge"``, :math:`e^{-2\max(0,\, u_i)}`, the mode is ``sklearn.svm.SVC`` with ``C``
    equal to twice the variance of the kernel.

    Parameters
    ----------
    kernel : str, object of :mod:`bayesvm.kernels`, callable or "precomputed", default="auto"
        ``"auto"``: a Gaussian kernel, plus a local one if this adds evidence; ``"rbf"``,
        ``"matern"``, ``"linear"``, ``"poly"``; a kernel object, where the search starts; a function
        of two arrays of rows; or ``"precomputed"``: X is the kernel matrix with the training rows.
    n_inducing : int, "auto" or None, default="auto"
        Number of inducing points.  ``None`` uses every distinct row: the exact process.  ``"auto"``
        does so up to 1,000 rows; beyond, it doubles 128 points until they cost the bound at most
        0.01 nats a row; if this needs more than a quarter of the rows, every row is a point, up to
        5,000.
    inducing : {"kmeans", "optimise", "random"} or array of shape (m, n_features), default="kmeans"
        Location of the points.  ``"optimise"`` starts at k-means and maximises the bound of at most
        10,000 rows by its gradient, jointly with the kernel if it is tuned.
    approximation : {"variational", "fitc"}, default="variational"
        ``"variational"``: ``elbo_`` is a bound on the evidence of the exact process.  ``"fitc"``:
        the variance that inducing points do not explain is independent noise of each row, and the
        bound is for this modified process.
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        Inference scheme.  ``"vb"`` is ``VB(bound="tight")``; the augmented bound of the papers
        makes standard deviations 20 to 40 % too small.
    likelihood : str or an object of :mod:`bayesvm.likelihoods`, default="auto"
        The likelihood of a label given f: ``"soft_hinge"``, ``"hinge"`` (as in the papers),
        ``"logistic"``, ``"probit"`` or ``"skewed_laplace"``.  ``"auto"`` is the soft hinge, and the
        logistic beyond 50,000 rows and for sources read in blocks.
    tune : bool, {"evidence", "cv", "bound", "sample"} or KernelSearch, default=True
        How the kernel is learned: by the evidence (``True``), see
        :class:`~bayesvm.gp.kernel_search.KernelSearch`; by cross-validation; by the bound, as in
        the papers; or sampled jointly with f under Gibbs.  ``False`` keeps the kernel unchanged.
    intercept_scale : float, optional
        Prior standard deviation of the intercept, the level of f; 3 by default.
    categorical : {"auto", "error"} or list of names or positions, default="auto"
        Categorical columns: text, categories or booleans, and the listed columns.  ``"error"``
        refuses columns that are not numeric.  All pairs of levels have the same distance; an unseen
        level lies between the levels.
    missing : {"auto", "error"}, default="auto"
        ``"auto"`` replaces missing cells by the column mean, and adds an indicator if 1 % or more
        of the training rows miss it; a missing category is a level.  ``"error"`` raises an error.
    standardize : bool, default=True
        Centre and scale columns internally.  For a kernel given by name and rows in memory,
        strongly non-Gaussian columns are transformed towards their ranks, and columns of 3 to 10
        distinct values also get indicators.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: fitted to leave-one-out moments (three parameters; for
        more than two classes a softmax), the pseudo-likelihood normalised over labels, or
        :math:`\Phi(m/\sqrt{1+v})`.
    covariance : {"robust", "model"}, default="robust"
        Covariance of standard deviations, intervals and draws: robust (sandwich), corrected for
        shrinkage and calibration (:doc:`/intervals`), or the posterior covariance.  Predictions are
        the same.
    class_weight : dict, "balanced" or None, default=None
        Class weights, multiplied by ``sample_weight``.
    engine : {"auto", "serial", "threads", "dask", "gpu"} or an object, default="auto"
        Backend of the sums over rows: see :mod:`bayesvm.data`.  ``"auto"`` follows the input.
        Beyond 50,000 rows, columns are float32 (float64 under EM) unless the engine has a
        ``dtype``, and are stored if its ``memory`` allows.
    max_iter, tol : int and float, optional
        Override the settings of the inference scheme.
    random_state : int, RandomState, Generator or None, default=None
        Seed of samplers, stochastic steps and ``inducing="random"``.  The kernel search and k-means
        are deterministic.
    n_jobs : int, optional
        Threads (or processes of the sampler).
    verbose : int, default=0
        1 shows progress.
    callbacks : list of callables, optional
        Called with a :class:`~bayesvm.inference.Progress` after every iteration and every kernel
        tried; a return value of ``True`` ends the fit with the best result so far.
    checkpoint : str or path, optional
        File with the state of a long fit, from which a later fit resumes.

    Attributes
    ----------
    kernel_ : object of :mod:`bayesvm.kernels`
        The kernel with its learned parameters, on the standardised scale; if they were sampled,
        with the means of their logarithms.
    kernel_draws_ : array of shape (chains, draws, k), or a list of them by class
        With ``tune="sample"``: log parameters in the order of ``kernel_.names``.
    feature_importances_ : array of shape (n_features,)
        Root mean square slope of f along each column, per standard deviation of the column, as
        shares of the sum; for a categorical column the largest of its indicators.
    inducing_points_ : array of shape (m, n_features)
        On the scale of the input; positions of training rows if precomputed.
    support_ : array of int
        Rows that violate the margin with probability above one half (under EM: rows with a positive
        dual); not defined for fits to more than 50,000 rows.
    support_proba_ : array of shape (n,) or (n, n_classes)
        Posterior probability that :math:`y_i f_i < 1`; not defined under EM.
    elbo_, elbo_path_ : float and array
        Lower bound on the log evidence under VB and SVI, summed over binary models, and its history
        (a list for more than two classes).
    log_posterior_, log_posterior_path_, log_likelihood_path_
        The log posterior density under EM; the log pseudo-likelihood of the draws under Gibbs.
    classes_ : array of shape (n_classes,)
        Labels.
    offset_ : array of shape (1,) or (n_classes,)
        Shift of f by the calibration, applied before the sign is taken.
    n_iter_, converged_ : int, bool
        Number of iterations, and whether the stopping rule was met.

    See Also
    --------
    sklearn.svm.SVC : the posterior mode, without probabilities.
    BayesianLinearSVC : the linear classifier, for large numbers of columns or rows.

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

    kernel: Any = "auto"
    n_inducing: Any = "auto"
    inducing: Any = "kmeans"
    approximation: str = "variational"
    inference: Any = "vb"
    likelihood: Any = "auto"
    _: KW_ONLY
    tune: Any = True
    intercept_scale: float | None = None
    categorical: Any = "auto"
    missing: Any = "auto"
    standardize: bool = True
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.allow_nan &= not tags.input_tags.pairwise
        return tags

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _idle(self) -> dict[str, str]:
        idle = super()._idle()
        if not isinstance(self.inducing, str):
            return idle | {"n_inducing": "where inducing gives the points themselves"}
        if self.n_inducing is None:
            why = "with n_inducing=None, for which every row is an inducing point"
            return idle | {"inducing": why, "approximation": why}
        return idle

    # ----- fitting

    @one_blas_thread
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source of :mod:`bayesvm.data`
            Observations; NumPy, pandas or polars, or files that are read in blocks; of shape (n, n)
            if precomputed.
        y : array-like of shape (n,) or (n, n_classes), optional
            Labels, two or more distinct, or probabilities of the classes; not needed if the source
            has them.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : BayesianSVC
            The fitted estimator.
        """
        if self._precomputed:
            tables.check_in_memory(X, "kernel='precomputed'")
            if isinstance(self.inducing, str) and self.inducing == "optimise":
                raise ValueError(
                    "inducing='optimise' needs rows that can be moved, and kernel='precomputed' "
                    "has none; choose inducing='kmeans'."
                )
        run = self._run()
        data = self._read_training(X, y, sample_weight)
        large = kind_of(data.X) == "source" or data.X.shape[0] > tables.MERGED_ROWS
        large = large and not self._precomputed  # else equal rows are merged
        settings = self._settings(self._scheme(), Logistic() if large else SoftHinge())
        fit = (fit_blocks if large else fit_rows)(data, settings, run)
        self._stream = None
        return self._keep(fit, run)

    def _scheme(self) -> Any:
        scheme = check.choose_scheme(self.inference, self.max_iter, self.tol, "tight")
        check.check_full(scheme, type(self).__name__)
        return scheme

    def _settings(self, scheme: Any, likelihood: Any) -> Settings:
        """Objects for the parameters; ``likelihood`` is the default for ``"auto"``."""
        likelihood = check.choose_likelihood(self.likelihood, scheme, {"auto": likelihood})
        rule = check.choose_tuning(self.tune, scheme)
        scale = 3.0 if self.intercept_scale is None else self.intercept_scale
        check.check_positive("intercept_scale", scale, 1e-6, 1e6)
        fitc = check.check_approximation(self.approximation, scheme, likelihood)
        return Settings(
            params=BaseEstimator.get_params(self, deep=False),
            scheme=scheme,
            likelihood=likelihood,
            rule=rule,
            search=self.tune if isinstance(self.tune, KernelSearch) else KernelSearch(),
            fitc=fitc,
            intercept_variance=float(scale) ** 2,
            groups=self.encoding_.groups,
            units=self.encoding_.scales if self.standardize else None,
        )

    # ----- streams

    def _check_stream(self) -> None:
        self._scheme()
        if self._precomputed:
            raise ValueError("a stream has no square matrix of kernel values.")
        if self.tune == "sample":
            raise ValueError("tune='sample' needs all rows at once; use tune='evidence'.")
        likelihood = check.choose_likelihood(self.likelihood, SVI(), {"auto": SoftHinge()})
        check.check_streamed(likelihood)
        check.check_approximation(self.approximation, VB(), likelihood)

    @available_if(streamable)
    @one_blas_thread
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, buffer: int = 2000
    ) -> BayesianSVC:
        """Learn from the next rows of a stream, as :meth:`BayesianLinearSVC.partial_fit`.

        Up to ``buffer`` rows, a call refits all rows so far (with more than two classes, each class
        has its own covariance) and chooses the kernel and inducing points anew.  Later, or from the
        first call after ``fit``, they stay fixed.

        Parameters and the returned estimator are as for that method.
        """
        scheme = variational(self._scheme(), "tight")
        softmax = self.probability == "calibrated"
        setup = Setup(scheme, partial(self._problem, scheme), softmax, far_variance)
        return advance(self, setup, X, y, classes, sample_weight, buffer)

    def _problem(self, scheme: VB, data: Training) -> Problem:
        """The problem of rows of a stream."""
        settings = replace(self._settings(scheme, SoftHinge()), fitc=False)
        rows = merge(data.X, data.codes, data.c, data.unit)
        inputs = input_columns(settings, rows)
        seen = training_data(settings, rows, inputs, np.asarray(inputs.columns(rows.X)))
        rng = Run(type(self).__name__, settings.params).generator("places")
        model = settings.model(learn_design(settings, seen, inputs, rng, every=128))
        engine = choose_engine(self.engine, data.X, model.width, self.n_jobs)
        blocks = cut(data.X, block_rows(model.width))
        return Problem(model, blocks, engine, data.codes, data.c, data.unit)

    # ----- predictions

    def _on_device(self) -> bool:
        exact = any(isinstance(m, ExactBinaryModel) for m in self.machines_)
        return not exact and super()._on_device()

    def _draws_at(self, X: Any, thetas: list[Array], rng: np.random.Generator) -> list[Array]:
        pairs = zip(self.machines_, thetas, strict=True)
        return [joint_draws(m, X, theta, rng) for m, theta in pairs]

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draws of the function f, jointly over rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like of shape (rows, n_features), optional
            Rows; by default the inducing points, the only choice for a precomputed kernel.  For a
            source or (lazily) a Dask collection, the part of f beyond the inducing points is drawn
            jointly for a thousand neighbouring rows, but independently between them.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, rows)
            With more than two classes, the second axis is the class.
        """
        if X is not None:
            return draw_f(self, n, X, random_state)
        rng = self._generator(random_state, n)
        thetas = [m.reported.sample(n, rng) for m in self._fitted().machines]
        points = self._process.Z if self._precomputed else self.inducing_points_
        f = np.stack(self._draws_at(points, thetas, rng), axis=1)
        return f[:, 0] if len(thetas) == 1 else f

    # ----- reports

    @property
    def _process(self) -> Any:
        """The design of the process."""
        return self._fitted().machines[0].model.terms[-1].design

    def _log_draws(self) -> list[Array]:
        """Draws of the kernel's log parameters for each binary model; empty if not sampled."""
        machines = self._fitted().machines
        if len(machines[0].model.terms) > 1:  # a mixture of draws has one term
            return []
        return [m.draws.hyper["kernel"] for m in machines if m.draws is not None]

    @property
    def kernel_(self) -> Any:
        """The kernel with its learned parameters, on the standardised scale."""
        kernel, drawn = self._process.kernel, self._log_draws()
        return kernel.with_theta(np.mean(drawn, axis=(0, 1, 2))) if drawn else kernel

    @property
    def feature_importances_(self) -> Array:
        """Importance of each column of the input, independent of its unit, ``(n_features_in_,)``.

        Root mean square of the slope of f at the points, times the standard deviation of the
        column, averaged over classes.  Not for precomputed or sampled kernels, or functions.
        """
        return kernel_importances(self._fitted().machines, self.encoding_.made)

    @property
    def kernel_draws_(self) -> Any:
        """Draws of the kernel's log parameters, with ``tune="sample"``."""
        draws = self._log_draws()
        if not draws:
            raise AttributeError("kernel_draws_ exists with tune='sample' only.")
        return draws[0] if len(draws) == 1 else draws

    @property
    def inducing_points_(self) -> Array:
        """Inducing points on the scale of the input; positions of training rows if precomputed."""
        design = self._process
        if self._precomputed:
            return np.asarray(design.Z[:, 0], dtype=int)
        return np.asarray(design.inputs.to_input(design.Z))

    def _support(self) -> Array:
        fit = self._fitted()
        if not isinstance(fit, KernelFit) or fit.support is None:
            raise AttributeError(
                "support_ and support_proba_ exist for fits to at most 50,000 rows in memory only."
            )
        return fit.support

    @property
    def support_(self) -> Array:
        """Rows that violate the margin with probability above one half."""
        return np.flatnonzero(self._support().max(axis=1) > 0.5)

    @property
    def support_proba_(self) -> Array:
        """Posterior probability of each row to violate the margin."""
        if not self.machines_[0].posterior.has_spread:
            raise AttributeError("support_proba_ does not exist for a point estimate.")
        support = self._support()
        return support[:, 0] if support.shape[1] == 1 else support

    def summary(self, level: float = 0.9) -> Any:
        """Kernel parameters, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the credible interval, if parameters were sampled.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by name (class and name, for more than two classes): the value; with
            ``tune="sample"`` mean, sd, lower, upper, r_hat and ess of the draws.
        """
        pd, drawn = pandas_for("summary"), self._log_draws()
        kernel = self.kernel_
        names, frames = pd.Index(kernel.names, name="name"), []
        for logs in drawn:
            table = draws_table(np.exp(logs), level, ddof=1) | convergence(logs)
            frames.append(pd.DataFrame(table, index=names))
        if not frames:
            return pd.DataFrame({"mean": np.exp(kernel.theta)}, index=names)
        return stacked(frames, self.classes_, pd)

    def _drawn(self, thetas: Sequence[Array], X: Any) -> Draws:
        """Draws for ArviZ: of the kernel if it was sampled, else of f at the points.

        With rows ``X``, only the kernels of the draws that predict there.
        """
        if drawn := self._log_draws():
            each = [m.terms[0].design for m in self.machines_]
            logs = drawn if X is None else [design.thetas[None] for design in each]
            values, names = [np.exp(x) for x in logs], list(self.kernel_.names)
            return {"kernel": values}, {"kernel": ["parameter"]}, {"parameter": names}
        L = np.tril(self._process.L)
        f = [theta[..., :1] + theta[..., 1:] @ L.T for theta in thetas]
        return {"f": f}, {"f": ["point"]}, {"point": list(range(f[0].shape[-1]))}
