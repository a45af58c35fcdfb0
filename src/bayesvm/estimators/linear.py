"""The linear support vector machine with a posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .. import validation as check
from ..blocks import Blocks, block_rows
from ..designs import Intercept, Standardised, fit_columns
from ..diagnostics import ess, r_hat
from ..inference.loop import Progress, State
from ..machine import Machine
from ..model import Model, Problem
from ..priors import Fixed
from ..types import Array, Term
from ._base import BayesianClassifier
from ._stream import Stream


class BayesianLinearSVC(BayesianClassifier):
    r"""Linear support vector machine with a posterior over its coefficients.

    .. math::

        f_i = \beta_0 + x_i^\top\beta, \qquad
        L(y_i \mid f_i) = e^{-2\max(0,\, 1 - y_i f_i)}, \qquad
        \beta_j \sim N(0, \sigma^2), \quad \sigma^2 \text{ learned.}

    One fit gives coefficients with intervals, a penalty chosen without a grid, and probabilities
    that agree with ``predict`` without cross-validation.

    Parameters
    ----------
    prior : {"ridge", "fixed"} or an object of :mod:`bayesvm.priors`, default="ridge"
        ``"ridge"`` learns the penalty; ``"fixed"`` is :class:`~bayesvm.priors.Fixed` with precision
        1.  ``"ridge"`` stands for ``Ridge()``, and for ``Ridge(a=2, b=1)`` with Gibbs, whose chain
        would wander off along the other's flat tail when the classes separate.
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        How the posterior is found.
    likelihood : {"hinge", "logistic", "probit"} or an object, default="hinge"
        What labels say of f.
    fit_intercept : bool, default=True
        Add an intercept, with a wide prior of its own.
    missing : {"error"}, default="error"
        What to do with NaN in X: refuse it.
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
    engine : {"auto", "serial", "threads"} or an object of :mod:`bayesvm.engines`, default="auto"
        Who visits the rows.
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
        fit_intercept: bool = True,
        missing: str = "error",
        standardize: bool = True,
        probability: str = "calibrated",
        class_weight: Any = None,
        covariance: str = "auto",
        intercept_precision: float = 1e-4,
        engine: Any = "auto",
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
        self.fit_intercept = fit_intercept
        self.missing = missing
        self.standardize = standardize
        self.probability = probability
        self.class_weight = class_weight
        self.covariance = covariance
        self.intercept_precision = intercept_precision
        self.engine = engine
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.checkpoint = checkpoint

    # ----- fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BayesianLinearSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows; NumPy, SciPy sparse, pandas or polars.
        y : array-like of shape (n,)
            Labels, two or more distinct.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : BayesianLinearSVC
            The fitted estimator.
        """
        scheme = check.choose_scheme(self.inference, self.max_iter, self.tol)
        check.check_probability(self.probability)
        check.check_missing(self.missing)
        X, y = self._read(X, y, reset=True)
        classes, codes = np.unique(y, return_inverse=True)
        c = check.check_weights(sample_weight, self.class_weight, codes, classes)
        check.check_two_sided(codes, c, classes)
        self.classes_ = classes
        if not np.all(c > 0):
            keep = c > 0
            X, codes, c = X[keep], codes[keep], c[keep]
        problem = self._problem(X, c, scheme)
        starts = self._starts(problem)
        self._conclude(self._fit_machines(problem, codes, scheme, starts))
        self._stream: Stream | None = None
        self._report(float(c.sum()))
        return self

    def _problem(self, X: Any, c: Array, scheme: Any) -> Problem:
        n, p = X.shape
        K = p + bool(self.fit_intercept)
        form = check.choose_form(self.covariance, n, K, scheme, check.is_sparse(X))
        engine = check.choose_engine(self.engine, n, K, self.n_jobs)
        size = n if form == "factored" else block_rows(K)
        blocks = Blocks(X, np.empty(n), c, size)
        columns = fit_columns(blocks, engine, self.standardize)
        model = self._model(columns, scheme)
        if form == "factored" and np.any(model.precision(model.init()) == 0):
            form = "dense"  # the dual form divides by prior precisions
        problem = Problem(model, blocks, engine, form)
        # sparse columns are joined once; the dual solve keeps its rows anyway
        return problem.assembled() if check.is_sparse(X) or form == "factored" else problem

    def _model(self, columns: Standardised, scheme: Any) -> Model:
        terms = [Term("coef", columns, check.choose_prior(self.prior, scheme))]
        if self.fit_intercept:
            terms.insert(0, Term("intercept", Intercept(), Fixed(self.intercept_precision)))
        return Model(tuple(terms), check.choose_likelihood(self.likelihood, scheme))

    def _starts(self, problem: Problem) -> list[State | None]:
        count = 1 if len(self.classes_) == 2 else len(self.classes_)
        old = getattr(self, "machines_", None) if self.warm_start else None
        if not old or len(old) != count:
            return [None] * count
        return [m.state if _same_shape(m, problem) else None for m in old]

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> BayesianLinearSVC:
        """Learn from the next rows of a stream.

        Rows are visited once, in minibatches, by stochastic variational inference; the sums leak,
        so that what early rows said of a poor early posterior is forgotten.  Scaling of columns is
        fixed by the first call.  Probabilities are calibrated on rows predicted before they were
        learned from.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            New rows.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like, optional
            All labels that will ever occur; needed in the first call.
        sample_weight : array-like of shape (n,), optional
            Weights.

        Returns
        -------
        self : BayesianLinearSVC
            The updated estimator.
        """
        fitted = hasattr(self, "machines_")
        X, y = self._read(X, y, reset=not fitted)
        stream = getattr(self, "_stream", None)
        if stream is None:
            stream = (
                Stream.resume(self) if fitted else Stream.begin(self, X, y, classes, sample_weight)
            )
        stream = stream.learn(self, X, y, classes, sample_weight)
        self._conclude(stream.machines(self))
        self._report(stream.n_seen)
        self._stream = stream
        return self

    # ----- reporting on the user's scale

    def _to_user(self, theta: Array, model: Model) -> tuple[Array, Array]:
        """Coefficients ``(..., p)`` and intercept ``(...)`` from standardised ones ``(..., K)``."""
        where = model.slices[-1]
        beta, shift = model.terms[-1].design.to_user(theta[..., where])
        return beta, shift + (theta[..., 0] if self.fit_intercept else 0.0)

    def _report(self, weight: float) -> None:
        pairs = [self._to_user(m.posterior.mean, m.model) for m in self.machines_]
        self.coef_ = np.stack([beta for beta, _ in pairs])
        self.intercept_ = np.array([float(b) if self.fit_intercept else 0.0 for _, b in pairs])
        self.offset_ = np.array([m.link.offset for m in self.machines_])
        self.total_weight_ = weight
        for name in ("kkt_residual_", "duality_gap_"):
            if hasattr(self, name):
                delattr(self, name)
        certificates = [k for m in self.machines_ if (k := m.extra.get("certificate")) is not None]
        if certificates:
            self.kkt_residual_ = max(k.kkt for k in certificates)
            self.duality_gap_ = max(k.gap for k in certificates)

    def _rows_to_user(self, machine: Machine) -> Any:
        """Sparse matrix that takes theta to the user's (intercept, coefficients)."""
        design, K = machine.model.terms[-1].design, machine.model.width
        first = K - design.width
        rows = np.concatenate([np.zeros(K, dtype=int), 1 + np.arange(design.width)])
        columns = np.concatenate([np.arange(K), first + np.arange(design.width)])
        shift = np.concatenate([np.ones(first), -design.center / design.scale])
        values = np.concatenate([shift, 1.0 / design.scale])
        shape = (1 + design.width, K)
        return sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))

    @property
    def coef_cov_(self) -> Array:
        """Posterior covariance of ``coef_``: (p, p), or (n_classes, p, p)."""
        self._check_fitted()
        covs = []
        for machine in self.machines_:
            where = machine.model.slices[-1]
            scale = machine.model.terms[-1].design.scale
            cov = machine.posterior.covariance()[where, where]
            covs.append(cov / np.outer(scale, scale))
        return covs[0] if len(covs) == 1 else np.stack(covs)

    @property
    def coef_std_(self) -> Array:
        """Posterior standard deviations of ``coef_``, of the same shape."""
        self._check_fitted()
        return np.stack(
            [
                np.sqrt(m.posterior.variance()[m.model.slices[-1]]) / m.model.terms[-1].design.scale
                for m in self.machines_
            ]
        )

    def coef_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central posterior interval of each coefficient.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass inside, in (0, 1).

        Returns
        -------
        lower, upper : arrays of the shape of ``coef_``
            Ends of the interval.
        """
        self._check_fitted()
        tails = check.tails(level)
        ends = [self._ends(m, tails)[:, 1:] for m in self.machines_]
        return np.stack([e[0] for e in ends]), np.stack([e[1] for e in ends])

    def _ends(self, machine: Machine, tails: tuple[float, float]) -> Array:
        """Quantiles of (intercept, coefficients) on the user's scale, ``(2, 1 + p)``."""
        return machine.posterior.quantiles(self._rows_to_user(machine), tails)

    def sample_posterior(
        self, n: int = 1000, X: Any = None, random_state: Any = None, return_intercept: bool = False
    ) -> Any:
        """Draws of the coefficients, or of f at given rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like or sparse of shape (rows, n_features), optional
            Give draws of f at these rows instead.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.
        return_intercept : bool, default=False
            Also return draws of the intercept.

        Returns
        -------
        draws : array of shape (n, n_features), or (n, rows) with ``X``
            One more axis, of classes, after the first when there are more than two.
        intercept : array of shape (n,) or (n, n_classes)
            Only with ``return_intercept``.
        """
        self._check_fitted()
        seeded = self if random_state is None else _Seed(random_state)
        rng = BayesianClassifier._generator(seeded)  # type: ignore[arg-type]
        thetas = [m.posterior.sample(n, rng) for m in self.machines_]
        if X is not None:
            C = self.machines_[0].model.rows(self._new_rows(X)).C
            f = np.stack([np.asarray(C @ t.T).T for t in thetas], axis=1)
            return f[:, 0] if len(thetas) == 1 else f
        pairs = [self._to_user(t, m.model) for t, m in zip(thetas, self.machines_, strict=True)]
        coef = np.stack([b for b, _ in pairs], axis=1)
        intercept = np.stack([np.broadcast_to(i, (n,)) for _, i in pairs], axis=1)
        if len(thetas) == 1:
            coef, intercept = coef[:, 0], intercept[:, 0]
        return (coef, intercept) if return_intercept else coef

    def _draws(self, machine: Machine, rng: np.random.Generator) -> Array:
        """Draws shaped (chains, draws, K): the sampler's own, or variational ones."""
        held = machine.extra.get("draws")
        return held.theta if held is not None else machine.posterior.sample(1000, rng)[None]

    def to_arviz(self) -> Any:
        """Draws (variational ones unless sampled) as an ArviZ data tree.

        Returns
        -------
        tree : xarray.DataTree
            Group ``posterior`` with ``coef`` and ``intercept`` (and the prior's scale if sampled).
        """
        self._check_fitted()
        try:
            from arviz_base import from_dict
        except ImportError as error:
            raise ImportError(
                "to_arviz needs the package arviz-base: pip install 'bayesvm[arviz]'"
            ) from error
        rng = self._generator()
        draws = [self._to_user(self._draws(m, rng), m.model) for m in self.machines_]
        single = len(draws) == 1
        coef = draws[0][0] if single else np.stack([b for b, _ in draws], axis=2)
        group: dict[str, Any] = {"coef": coef}
        if self.fit_intercept:
            group["intercept"] = draws[0][1] if single else np.stack([i for _, i in draws], axis=2)
        dims = {"coef": ["feature"] if single else ["class", "feature"]}
        coords: dict[str, Any] = {"feature": self._names()}
        if not single:
            dims["intercept"], coords["class"] = ["class"], list(self.classes_)
        held = self.machines_[0].extra.get("draws")
        if single and held is not None and "coef" in held.hyper:
            group["coef_variance"] = held.hyper["coef"][..., 0]
        return from_dict({"posterior": group}, dims=dims, coords=coords)

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by name (class and name for more than two classes): mean, sd, lower, upper, and
            r_hat and ess where drawn.  Under EM only the estimate.
        """
        self._check_fitted()
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("summary needs pandas: pip install 'bayesvm[cli]'") from error
        names = ["intercept", *self._names()] if self.fit_intercept else self._names()
        skip = 0 if self.fit_intercept else 1
        frames = []
        for j, machine in enumerate(self.machines_):
            mean = np.concatenate([[self.intercept_[j]], self.coef_[j]])
            table = {"mean": mean[skip:]}
            if machine.posterior.has_spread:
                T = self._rows_to_user(machine)
                low, high = machine.posterior.quantiles(T, check.tails(level))
                table["sd"] = np.sqrt(machine.posterior.moments(T)[1])[skip:]
                table["lower"], table["upper"] = low[skip:], high[skip:]
            held = machine.extra.get("draws")
            if held is not None:
                user = held.theta @ T.T.toarray()
                table["r_hat"], table["ess"] = r_hat(user)[skip:], ess(user)[skip:]
            frames.append(pd.DataFrame(table, index=pd.Index(names, name="name")))
        if len(frames) == 1:
            return frames[0]
        return pd.concat(frames, keys=list(self.classes_), names=["class"])

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return list(names) if names is not None else [f"x{j}" for j in range(self.n_features_in_)]

    def _check_fitted(self) -> None:
        check_is_fitted(self, "machines_")


def _same_shape(machine: Machine, problem: Problem) -> bool:
    """Whether a fitted state can be the start of another problem."""
    old, new = machine.model, problem.model
    same = [
        a.name == b.name and a.design.width == b.design.width and type(a.prior) is type(b.prior)
        for a, b in zip(old.terms, new.terms, strict=False)
    ]
    same.append(len(old.terms) == len(new.terms))
    return all(same) and machine.extra.get("shape") == problem.shape


class _Seed:
    def __init__(self, random_state: Any) -> None:
        self.random_state = random_state
