"""The kernel support vector machine: a Gaussian process seen through the hinge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..blocks import block_rows, cut
from ..core import arrays
from ..core.types import Array
from ..inference import SVI
from ..inference.progress import Progress
from ..inputs import reading
from ..likelihoods.tight import Tight
from ..model.model import Problem
from . import choices as check
from ._large import fit_large
from ._process import ProcessClassifier
from ._stream import Stream, Streaming


class BayesianSVC(Streaming, ProcessClassifier):
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
        ``"auto"`` does so up to 1000 rows, and beyond takes 100, 200 or 400: the first that
        leaves less than a tenth of the prior variance, and less than one, unexplained.
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
    engine : {"auto", "serial", "threads", "dask", "gpu"} or an object, default="auto"
        Who visits the rows: see :mod:`bayesvm.engines`.  ``"auto"`` follows the input.
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
        Each is called with a :class:`~bayesvm.inference.Progress` after every iteration, and after
        every kernel that is tried; returning ``True`` ends the fit there, with the best so far.
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

    def _idle(self) -> dict[str, str]:
        idle = super()._idle()
        if not isinstance(self.inducing, str):
            return idle | {"n_inducing": "where inducing gives the points themselves"}
        if self.n_inducing is None:
            why = "with n_inducing=None, for which every row is an inducing point"
            return idle | {"inducing": why, "approximation": why}
        return idle

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source of :mod:`bayesvm.blocks`
            Rows; NumPy, pandas or polars, or files that are read in blocks; of shape (n, n) if
            precomputed.
        y : array-like of shape (n,)
            Labels, two or more distinct; not needed where the source has them.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : BayesianSVC
            The fitted estimator.
        """
        scheme, bound = self._scheme_and_bound()
        likelihood = check.choose_likelihood(self.likelihood, scheme)
        rule = check.choose_tuning(self.tune, scheme)
        fitc = check.check_approximation(self.approximation, scheme, likelihood)
        check.check_probability(self.probability)
        check.check_positive("bias", self.bias, 1e-6, 1e6)
        check.choose_engine(self.engine, 0, 1, self.n_jobs, None, self.dtype, self.memory)
        if self._precomputed:
            reading.check_in_memory(X, "kernel='precomputed'")
        X, y = self._read(X, y, reset=True)
        classes, codes = reading.encode(y, X)
        c = reading.check_weights(sample_weight, self.class_weight, codes, classes, X)
        reading.check_two_sided(codes, c, classes)
        self.classes_ = classes
        self.total_weight_ = float(c.sum())
        self._stream: Stream | None = None
        self.__dict__.pop("kernel_draws_", None)
        with self._reporting():
            if reading.is_large(X) and not self._precomputed:
                check.check_large(rule, fitc)
                reading.check_positive_weights(c)
                self._forget()
                fit_large(self, X, codes, c, scheme, bound, likelihood, rule)
            else:
                self._fit_rows(X, codes, c, scheme, bound, likelihood, rule, fitc)
        self.offset_ = np.array([m.link.offset for m in self.machines_])
        return self

    def _fit_rows(
        self,
        X: Any,
        codes: Array,
        c: Array,
        scheme: Any,
        bound: str,
        likelihood: Any,
        rule: str | None,
        fitc: bool,
    ) -> None:
        """Fit to rows that are all in memory."""
        X = arrays.to_numpy(X)  # on a device so few rows would wait for it
        ready = self._prepared(X, codes, c, rule, likelihood, self.approximation)
        data, kernel, design = ready.data, ready.kernel, ready.design
        model = self._model(design, Tight(likelihood) if bound == "tight" else likelihood)
        problem = self._problem(model, data, scheme)
        fitc = fitc and design.Z is not ready.points
        drawn = rule == "sample"
        if drawn or (fitc and check.is_sampler(scheme)):
            machines = self._fit_by_chains(ready, model, scheme, likelihood, fitc, drawn)
        elif fitc:
            machines = self._fit_by_sites(ready, model, scheme)
        else:
            starts = self._starts(problem, ready, scheme)
            machines = self._fit_machines(problem, data.codes, scheme, starts)
        self._conclude(machines)
        if drawn:
            draws = [m.draws.hyper["kernel"] for m in machines if m.draws]
            self.kernel_draws_ = draws[0] if len(draws) == 1 else draws
            kernel = kernel.with_theta(np.mean(draws, axis=(0, 1, 2)))
        self.kernel_ = kernel
        self._predictors = self._predictors_of(problem)
        self._mark_support(problem, data, ready.kept, X.shape[0])

    def _scheme_and_bound(self) -> tuple[Any, str]:
        scheme = check.choose_scheme(self.inference, self.max_iter, self.tol)
        scheme = check.choose_bound(scheme, "tight", self.bound)
        return scheme, "tight" if scheme.is_tight else "augmented"

    def _scheme(self) -> Any:
        return self._scheme_and_bound()[0]

    # ----- streams

    _stream_growth = 1.05  # of the rows, before kernel and points are chosen anew

    def _check_stream(self) -> None:
        self._scheme()
        if self.approximation not in ("variational", "fitc"):
            raise ValueError(
                f"approximation={self.approximation!r} is not known; choose 'variational' or "
                "'fitc'."
            )
        if self._precomputed:
            raise ValueError("a stream has no square matrix of kernel values.")
        if self.tune == "sample":
            raise ValueError("tune='sample' needs all rows at once; use tune='evidence'.")
        check.check_streamed(check.choose_likelihood(self.likelihood, SVI()))

    def _stream_problem(self, X: Any, codes: Array, c: Array, scheme: Any) -> Problem:
        """Kernel and inducing points for the rows so far."""
        likelihood = check.choose_likelihood(self.likelihood, scheme)
        check.check_positive("bias", self.bias, 1e-6, 1e6)
        rule = check.choose_tuning(self.tune, scheme)
        ready = self._prepared(X, codes, c, rule, likelihood, "stream")
        self.kernel_ = ready.kernel
        model = self._model(ready.design, Tight(likelihood) if scheme.is_tight else likelihood)
        engine = check.choose_engine(self.engine, len(c), model.width, self.n_jobs)
        return Problem(model, cut(X, codes, c, block_rows(model.width)), engine)

    def _streamed(self, weight: float) -> None:
        self.total_weight_ = weight
        self._forget()
        self.offset_ = np.array([m.link.offset for m in self.machines_])

    def _forget(self) -> None:
        """What only fits with every row in memory know."""
        self._predictors = None
        for name in ("support_", "support_proba_"):
            self.__dict__.pop(name, None)
