"""Linear support vector regression with a posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from ..core.parameters import is_among, warn
from ..core.types import Array, Term
from ..data import Serial, cut
from ..data.engines import one_blas_thread
from ..data.labels import Training, check_weights, read_numbers
from ..designs import Intercept, fit_columns
from ..inference import SVI, Gibbs
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.progress import Monitor, Progress
from ..inspection.tables import tails
from ..likelihoods import EpsilonInsensitive
from ..predictive.fitting import find_posterior
from ..predictive.regression import Regression, Unit, choose_epsilon, with_residuals
from ..priors.gaussian import intercept_prior
from .base import BayesianEstimator
from .fit import build_problem, content, in_blocks, warm_starts
from .linear import LinearReports
from .options import choose_prior, choose_scheme
from .predictions import moments


@dataclass(eq=False, repr=False)
class BayesianSVR(RegressorMixin, LinearReports, BayesianEstimator):  # type: ignore[misc]
    r"""Linear support vector regression with a posterior over its coefficients.

    .. math::

        f_i = \beta_0 + x_i^\top\beta, \qquad
        p(y_i \mid f_i) \propto e^{-\max(|y_i - f_i| - \varepsilon,\, 0) / s}, \qquad
        \beta_j \sim N(0, \sigma^2).

    The loss is the epsilon-insensitive loss of :class:`sklearn.svm.LinearSVR`.  One fit learns the
    width of the tube, the scale *s* and the penalty, and gives coefficients with intervals and
    prediction intervals with their nominal coverage.

    Parameters
    ----------
    epsilon : "auto" or float, default="auto"
        Half the width of the tube, in the unit of y.  ``"auto"`` maximises the likelihood of the
        leave-one-out residuals of a first fit without a tube.
    prior : str or an object of :mod:`bayesvm.priors`, default="auto"
        ``"auto"`` and ``"ridge"`` are :class:`~bayesvm.priors.Ridge`, whose variance is learned by
        maximising the bound; with Gibbs ``Ridge(a=2, b=1)``.  Other priors are as in
        :class:`~bayesvm.BayesianLinearSVC`.
    inference : {"vb", "em", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        Inference scheme.  ``"vb"`` maximises the tight bound, with selection priors the augmented
        bound.  ``"em"`` is the point estimate of a support vector machine.
    scale : float, optional
        The scale *s*, in the unit of y: the mean distance from the tube of targets outside of it.
        Learned by default.
    fit_intercept, categorical, missing
        As in :class:`~bayesvm.BayesianLinearSVC`, without ``missing="model"``.
    standardize : bool, default=True
        Centre and scale columns and y internally, so that units do not matter; without an intercept
        they are only scaled.
    covariance : {"robust", "model"}, default="robust"
        As in :class:`~bayesvm.BayesianLinearSVC`.
    intercept_scale : float, optional
        Prior standard deviation of the intercept, on the scale of the fit; 100 by default, ``inf``
        for a flat prior.
    engine, max_iter, tol, random_state, n_jobs, verbose, callbacks, warm_start, checkpoint
        As in :class:`~bayesvm.BayesianLinearSVC`.

    Attributes
    ----------
    coef_, intercept_ : array of shape (n_features,) and float
        Posterior means (the point estimate under EM), in the units of the input.
    epsilon_, scale_ : floats
        Half the width of the tube and the scale outside of it, in the unit of y.
    elbo_, elbo_path_ : float and array
        Lower bound on the log evidence of y under VB, on the scale of the fit, and its history.
    log_posterior_, log_posterior_path_, log_likelihood_path_, kkt_residual_, duality_gap_
        Under EM and Gibbs, as for :class:`~bayesvm.BayesianLinearSVC`.
    n_iter_, converged_ : int, bool
        Number of iterations, and whether the stopping rule was met.

    See Also
    --------
    sklearn.svm.LinearSVR : the point estimate.
    sklearn.linear_model.BayesianRidge : Gaussian noise.

    References
    ----------
    Polson & Scott (2011), *Data augmentation for support vector machines*: Theorem 1, once for
    each side of the tube.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesvm import BayesianSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesianSVR().fit(X, y)
    >>> low, high = model.predict_interval(X)
    >>> bool(0.88 < ((low < y) & (y < high)).mean() < 0.94)
    True
    """

    epsilon: Any = "auto"
    prior: Any = "auto"
    inference: Any = "vb"
    _: KW_ONLY
    scale: float | None = None
    fit_intercept: bool = True
    categorical: Any = "auto"
    missing: Any = "auto"
    standardize: bool = True
    covariance: str = "robust"
    intercept_scale: float | None = None
    engine: Any = "auto"
    max_iter: int | None = None
    tol: float | None = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    callbacks: Sequence[Callable[[Progress], Any]] | None = None
    warm_start: bool = False
    checkpoint: Any = None

    fit_: Regression = field(init=False)

    # ----- fitting

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesianSVR:
        """Fit to rows ``X`` with targets ``y``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Observations in memory; NumPy, SciPy sparse, pandas or polars.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : BayesianSVR
            The fitted estimator.
        """
        if is_among(self.inference, ("svi",)) or isinstance(self.inference, SVI):
            raise ValueError(
                f"regression is fitted by inference='vb', 'em' or 'gibbs'; got {self.inference!r}."
            )
        run = self._run()
        scheme = choose_scheme(self.inference, self.max_iter, self.tol)
        prior = choose_prior(self.prior, scheme)
        if not prior.has_gates:  # these need the augmented bound
            scheme = choose_scheme(self.inference, self.max_iter, self.tol, "tight")
        self._known_names, self._given_names = self._given_names, None
        X = self._read(X, True, sample_weight)
        y, c = read_numbers(y, X), check_weights(sample_weight, X)
        data = Training(X, np.empty(0), y, c)
        data = data if np.all(c > 0) else data.take(np.flatnonzero(c > 0))
        problem, unit = self._problem(data, scheme, prior)
        if isinstance(self.epsilon, str):  # "auto"
            noise: Any = problem.model.likelihood
            noise = replace(noise, epsilon=choose_epsilon(problem, run.generator("tube")))
            problem = problem.with_likelihood(noise)
        starts = warm_starts(self, problem, 1) if self.warm_start else []
        start = starts[0] if starts else None
        store = run.checkpoint(lambda: content(problem, problem.y, [start]))
        watch = Monitor(run, store and store.part("machine0"))
        options: Any = {"n_jobs": self.n_jobs} if isinstance(scheme, Gibbs) else {}
        rng = run.generator("machines")
        found = find_posterior(problem, scheme, rng, start, watch, **options)
        machine, residuals = with_residuals(found, self.covariance)
        self.fit_ = Regression(
            [machine],
            classes=data.classes,
            masses=np.array([data.c.sum()]),
            rows=data.chosen,
            stopped=run.stopped,
            unit=unit,
            residuals=residuals,
        )
        if text := self.fit_.unfinished(type(self).__name__):
            warn(text, ConvergenceWarning)
        if self.verbose:
            run.print_times()
        return self

    def _problem(self, data: Training, scheme: Any, prior: Any) -> tuple[Problem, Unit]:
        """The problem of training rows, and the unit of y; without a tube if it is to be chosen."""
        # mean and scale of y, as for a column
        target, centred = cut(data.codes[:, None], data.codes.size), self.fit_intercept
        own = fit_columns(target, data.c, Serial(), self.standardize, centred)
        unit = Unit(float(own.center[0]), float(own.scale[0]))
        gamma = None if self.scale is None else 0.5 * unit.scale / float(self.scale)
        epsilon = 0.0 if isinstance(self.epsilon, str) else float(self.epsilon) / unit.scale
        K = data.X.shape[1] + bool(self.fit_intercept)
        engine, blocks = in_blocks(self.engine, data.X, K, self.n_jobs, scheme)
        columns = fit_columns(blocks, data.c, engine, self.standardize, centred)
        level = intercept_prior(self.intercept_scale)
        terms = (Term("intercept", Intercept(), level), Term("coef", columns, prior))
        noise = EpsilonInsensitive(gamma, epsilon)
        model = Model(terms if self.fit_intercept else terms[1:], noise)
        problem = build_problem(model, blocks, engine, scheme, data.c)
        return replace(problem, y=unit.into(data.codes)), unit

    # ----- predictions

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted targets: the posterior mean of f.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Also return standard deviations of new targets.

        Returns
        -------
        y : array of shape (n,)
            Predictions.
        std : array of shape (n,)
            Only with ``return_std``.  Square root of the posterior variance of f (zero under EM)
            plus the variance of the noise under the likelihood.
        """
        m, v = (x[:, 0] for x in moments(self, X))
        mean = self.fit_.unit.back(m)
        return (mean, self.fit_.std(v)) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Prediction intervals for new targets, from leave-one-out residuals.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        level : float, default=0.9
            Coverage, in (0, 1), with equal probability below and above.

        Returns
        -------
        lower, upper : arrays of shape (n,)
            Ends of the intervals: the prediction plus its standard deviation times quantiles of the
            standardised leave-one-out residuals of the training rows.
        """
        ends = tails(level)
        m, v = (x[:, 0] for x in moments(self, X))
        return self.fit_.interval(m, v, ends)

    # ----- reports

    @property
    def epsilon_(self) -> float:
        """Half the width of the tube, in the unit of y."""
        return float(self.fit_.noise.epsilon * self.fit_.unit.scale)

    @property
    def scale_(self) -> float:
        """Mean distance from the tube of targets outside of it, in the unit of y."""
        return float(0.5 * self.fit_.unit.scale / self.fit_.noise.scale)

    @property
    def _unit(self) -> Unit:  # type: ignore[override]
        return self.fit_.unit

    def _as_reported(self, values: Array) -> Any:
        return values[0]

    def sample_posterior(
        self, n: int = 1000, X: Any = None, random_state: Any = None, return_intercept: bool = False
    ) -> Any:
        """Draws of the coefficients, or of f at given rows, in the unit of y and without noise.

        As :meth:`BayesianLinearSVC.sample_posterior`.
        """
        draws = super().sample_posterior(n, X, random_state, return_intercept)
        return draws if X is None else self.fit_.unit.back(draws)
