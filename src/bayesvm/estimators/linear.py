"""The linear support vector machine with a posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..blocks import cut
from ..core.types import Array, Term
from ..designs import Intercept, fit_columns
from ..inference import SVI
from ..inference.progress import Progress
from ..inputs import reading
from ..likelihoods.tight import Tight
from ..model.model import Model, Problem
from ..priors import Fixed
from ..reports.coefficients import CoefficientReport
from . import choices as check
from ._missing import MissingCells
from ._stream import Stream, Streaming
from ._warm import starts_of


class BayesianLinearSVC(Streaming, MissingCells, CoefficientReport):
    r"""Linear support vector machine with a posterior over its coefficients.

    .. math::

        f_i = \beta_0 + x_i^\top\beta, \qquad
        L(y_i \mid f_i) = e^{-2\max(0,\, 1 - y_i f_i)}, \qquad
        \beta_j \sim N(0, \sigma^2), \quad \sigma^2 \text{ learned.}

    One fit gives coefficients with intervals, a penalty chosen without a grid, and probabilities
    that agree with ``predict`` without cross-validation.

    Parameters
    ----------
    prior : str or an object of :mod:`bayesvm.priors`, default="ridge"
        ``"ridge"`` learns the penalty; ``"fixed"`` is :class:`~bayesvm.priors.Fixed` with precision
        1.  ``"ridge"`` stands for ``Ridge()``, and for ``Ridge(a=2, b=1)`` with Gibbs, whose chain
        would wander off along the other's flat tail when the classes separate.  ``"lasso"`` and
        ``"bridge"`` set coefficients to zero under EM; ``"spike_slab"`` and ``"laplace_zero"`` give
        each column a probability to matter (``inclusion_proba_``).
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        How the posterior is found.
    likelihood : {"hinge", "skewed_laplace", "logistic", "probit"} or an object, default="hinge"
        What labels say of f.
    bound : {"auto", "augmented", "tight"}, default="auto"
        ``"augmented"`` is the papers', and ``"auto"``: every update is in closed form and few
        passes are made.  ``"tight"``, under ``inference="vb"``, does without the augmentation,
        which makes standard deviations too small, with many rows by half; it takes somewhat more
        passes.
    fit_intercept : bool, default=True
        Add an intercept, with a wide prior of its own.  Without one f is ``X @ coef_``: columns are
        scaled and not centred.
    missing : {"error", "model"} or an object, default="error"
        What to do with NaN in X: refuse it, or give missing cells a distribution that is learned
        together with the coefficients.  ``"model"`` is :class:`~bayesvm.designs.Unstructured`, a
        Gaussian of any covariance, and :class:`~bayesvm.designs.Factors` beyond 100 columns (10 if
        there are fewer than three rows a column).  Right where the chance to be missing depends
        only on what was observed, labels included.  Beyond 300 columns the factors are learned
        first, without the labels, and missing cells replaced by their expectation; with no cell
        missing in training nothing is learned of them, and those of new rows are filled in by the
        mean of their column.
    standardize : bool, default=True
        Centre and scale columns inside (sparse ones are only scaled).  The margin is 1, so the
        scale of the columns matters; results are reported on the scale of the input.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: three numbers fitted on leave-one-out moments, the
        pseudo-likelihood normalised over labels, or :math:`\Phi(m/\sqrt{1+v})`.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, times ``sample_weight``.
    covariance : {"auto", "full", "diagonal"}, default="auto"
        Family of the variational posterior.  ``"auto"`` is full, except for models with more than
        5000 columns (1000 if sparse) and more rows than a dual solve can hold, whose coefficients
        are taken as independent and whose mean is found by conjugate gradients.
    intercept_precision : float, default=1e-4
        Prior precision of the intercept.
    engine : {"auto", "serial", "threads", "dask", "gpu"} or an object, default="auto"
        Who visits the rows: see :mod:`bayesvm.engines`.  ``"auto"`` follows the input.
    dtype : {"float64", "float32"}, default="float64"
        Precision in which dense columns meet coefficients and weights; sums over rows are always
        float64.  float32 is worth having on a GPU.
    max_iter, tol : optional
        Override those of the inference scheme.
    random_state : int, RandomState, Generator or None
        Seed of everything drawn.
    n_jobs : int, optional
        Threads over rows, and chains run in parallel under Gibbs.  Without it rows use all cores
        and chains run one after another.
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
    coef_, intercept_ : arrays of shape (1, n_features) and (1,), or one row per class
        Posterior means (the estimate itself under EM), on the scale of the input.
    feature_importances_ : array of shape (n_features,)
        ``inclusion_proba_`` under a selection prior, else sizes of standardised coefficients.
        ``SelectFromModel`` reads ``coef_``, which depends on units, unless it is given
        ``importance_getter="feature_importances_"``.
    inclusion_proba_ : array of shape (n_features,)
        Selection priors: posterior probability that a column matters (to any class, if there are
        more than two; ``summary()`` has each).  Coefficients are averaged over models.
    offset_ : array of shape (1,) or (n_classes,)
        What calibration adds to f before the sign is taken.
    elbo_ : float
        Lower bound on the log evidence, complete with constants (summed over machines); the log
        posterior density under EM; not defined under Gibbs.
    elbo_path_ : array
        Its history (a list of them for more than two classes); log pseudo-likelihood under Gibbs.
    n_iter_, converged_ : int, bool
        Passes made, and whether the stopping rule was met.
    kkt_residual_, duality_gap_ : float
        EM with the hinge: how far from optimal, relative.

    See Also
    --------
    sklearn.svm.LinearSVC : the point estimate without probabilities.

    References
    ----------
    Luts & Ormerod (2014), *Mean field variational Bayesian inference for support vector machine
    classification*; Polson & Scott (2011), *Data augmentation for support vector machines*.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLinearSVC().fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    >>> bool((model.predict(X) == y).mean() > 0.97)
    True
    """

    def __init__(
        self,
        prior: Any = "ridge",
        inference: Any = "vb",
        likelihood: Any = "hinge",
        *,
        bound: str = "auto",
        fit_intercept: bool = True,
        missing: str = "error",
        standardize: bool = True,
        probability: str = "calibrated",
        class_weight: Any = None,
        covariance: str = "auto",
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
        self.bound = bound
        self.fit_intercept = fit_intercept
        self.missing = missing
        self.standardize = standardize
        self.probability = probability
        self.class_weight = class_weight
        self.covariance = covariance
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianLinearSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features), or a source of :mod:`bayesvm.blocks`
            Rows; NumPy, SciPy sparse, pandas or polars, or files that are read in blocks.
        y : array-like of shape (n,)
            Labels, two or more distinct; not needed where the source has them.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : BayesianLinearSVC
            The fitted estimator.
        """
        scheme = self._scheme()
        check.check_probability(self.probability)
        check.check_missing(self.missing, scheme, self.checkpoint)
        X, y = self._read(X, y, reset=True)
        classes, codes = reading.encode(y, X)
        c = reading.check_weights(sample_weight, self.class_weight, codes, classes, X)
        copies = reading.check_weights(sample_weight, None, codes, classes, X)
        reading.check_two_sided(codes, c, classes)
        self.classes_ = classes
        rows = np.arange(0 if reading.is_source(X) else codes.shape[0])
        if reading.is_source(X):
            reading.check_positive_weights(c)
        elif not np.all(c > 0):
            rows = np.flatnonzero(c > 0)
            X, codes, c, copies = X[rows], codes[rows], c[rows], copies[rows]
        if check.models_missing(self.missing):
            reading.check_in_memory(X, "missing='model'")
            self._check_cells(X)
            if check.is_sampler(scheme):
                each = reading.repeated(X, copies)
                rows, X, codes = rows[each], X[each], codes[each]
                c, copies = reading.shared(c, copies, each)
        self._training_rows = rows
        problem = self._problem(X, c, scheme, copies)
        starts = starts_of(self, problem)
        machines = self._fit_machines(problem, codes, scheme, starts)
        self._conclude(self._attached(machines, problem, X))
        self._stream: Stream | None = None
        self._report(float(c.sum()))
        return self

    def _scheme(self) -> Any:
        scheme = check.choose_scheme(self.inference, self.max_iter, self.tol)
        return check.choose_bound(scheme, "augmented", self.bound, self.covariance)

    def _problem(self, X: Any, c: Array, scheme: Any, copies: Array | float = 1.0) -> Problem:
        n, p = X.shape
        K = p + bool(self.fit_intercept)
        engine = check.choose_engine(self.engine, n, K, self.n_jobs, X, self.dtype)
        check.check_engine(engine, scheme, X)
        X, c = check.placed(engine, X, c)
        blocks = cut(X, np.broadcast_to(0.0, (n,)), c, check.choose_size(engine, K))
        columns: Any = fit_columns(blocks, engine, self.standardize, self.fit_intercept)
        if check.models_missing(self.missing):
            blocks = replace(blocks, copies=copies)
            columns = self._with_cells(columns, blocks, engine)
        model = self._model(columns, scheme).sized(blocks.weight)
        form = check.settle_form(model, n, scheme, self.covariance, reading.is_sparse(X))
        dtype = check.choose_precision(engine, form, model.is_latent)
        problem = Problem.posed(replace(model, dtype=dtype), blocks, engine, form)
        join = reading.is_sparse(X) and not problem.blocks.ready  # columns with the intercept, once
        return problem.assembled() if join else problem

    def _model(self, columns: Any, scheme: Any) -> Model:
        terms = [Term("coef", columns, check.choose_prior(self.prior, scheme))]
        if self.fit_intercept:
            terms.insert(0, Term("intercept", Intercept(), Fixed(self.intercept_precision)))
        likelihood = check.choose_likelihood(self.likelihood, scheme)
        return Model(tuple(terms), Tight(likelihood) if scheme.is_tight else likelihood)

    # ----- streams

    def _check_stream(self) -> None:
        check.choose_prior(self.prior, SVI())
        check.check_missing(self.missing, SVI())
        check.check_streamed(check.choose_likelihood(self.likelihood, SVI()))

    def _stream_problem(self, X: Any, codes: Array, c: Array, scheme: Any) -> Problem:
        return self._problem(X, c, scheme)

    _streamed = CoefficientReport._report
