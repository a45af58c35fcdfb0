"""The discriminative factor model: features and margin learned together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _wrap_data_with_container

from ..core.types import Array
from ..data import tables
from ..data.labels import whole
from ..inference.progress import Progress
from ..inspection.factors import FactorReport
from ..predictive.fitted import Fit
from .base import BayesianClassifier
from .factor_fit import choose_columns, cross_fitted, learn_table, merged, prepare


@dataclass(eq=False, repr=False)
class FactorSVC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BayesianClassifier):  # type: ignore[misc]
    r"""Discriminative factor model: few factors that explain the columns and separate the classes.

    .. math::

        x_n = \mu + A w_n + \varepsilon_n, \quad w_n \sim N(0, I_K), \quad
        \varepsilon_n \sim N(0, \psi^{-1} I), \quad a_{ik} \sim \mathrm{Laplace}(\sqrt{2\nu}),
        \qquad L(y_n \mid f_n) = e^{-2\max(0,\, 1 - y_n f_n)},

    with :math:`f_n = \beta_0 + \beta^\top w_n` (``classifier="linear"``) or *f* a Gaussian process
    of the scores :math:`w_n` (``"kernel"``).  Scores are learned from the columns and the labels
    together; new rows are given scores from their columns alone.  For many columns and few rows:
    the cost grows linearly with the number of columns.

    Parameters
    ----------
    n_factors : int or "auto", default=10
        Number of factors.  A table has no more than its rank, once columns are centred: fewer than
        its rows, at most its columns; a larger number is lowered to that, see ``n_factors_``.
        ``"auto"`` takes the number with the largest bound on the evidence of the columns.
    classifier : {"kernel", "linear"}, default="kernel"
        The machine on the scores.
    inference : {"vb", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        ``"vb"``: ``VB(max_iter=500, tol=1e-5)`` (linear), or variational EM with scores at a point,
        ``VB(max_iter=200, tol=1e-5)`` (kernel).  ``"gibbs"`` draws everything, in two chains of 900
        sweeps (linear) or 300 (kernel, of which about a hundred draws are kept).
    likelihood : {"auto", "hinge", "logistic", "probit"} or an object, default="hinge"
        The density of a label given f.
    kernel : str or object of :mod:`bayesvm.kernels`, default="rbf"
        Of scores in units of their spread; a name starts from a length scale of
        :math:`\sqrt K` and a variance of 4.  One length scale per factor gives a relevance to each.
    tune : bool, default=True
        Learn the kernel's parameters, under a prior around where they start (a quarter of a unit of
        the logarithm).
    coef_prior : str or an object of :mod:`bayesvm.priors`, default="fixed"
        Prior of the linear machine's coefficients.  ``"lasso"`` selects factors.
    nu : float or None, default=1.0
        Rate of the loadings' variances: larger values make loadings smaller and sparser.  ``None``
        learns it (not for the kernel machine by VB, whose scores are a point).  With many more
        columns than rows it sets the scale of the scores: learned, they have about unit spread.
    joint : bool, default=True
        ``False`` is the two-step procedure, for comparison: factors from the columns alone, then
        the machine on their scores.
    columns : {"auto", "all"} or int, default="auto"
        The columns of the factor model: all, or this number that differ most between the classes.
        ``"auto"``: all, unless there are more columns than rows and five folds predict better, by
        more than a standard error, with 10, 30, 100, 300 or 1000.  With this choice a fit takes ten
        to twenty times as long.
    intercept_scale : float, optional
        Prior standard deviation of the intercept, the level of f; 3 if not given.
    categorical : {"auto", "error"} or list of names or positions, default="auto"
        Columns of categories, as in :class:`~bayesvm.BayesianLinearSVC`.
    missing : {"auto", "error"}, default="auto"
        ``"auto"`` takes missing cells for unknown entries of the table, which factors and noise
        give a distribution; of categories they are a level.  ``"error"`` refuses them.
    standardize : bool, default=True
        Scale columns inside (they are always centred); loadings are reported on the scale of the
        input.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities, fitted at the scores that rows would have without label.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes: how often their labels count, not their columns.
    max_iter, tol, random_state, n_jobs, verbose, callbacks
        As in :class:`~bayesvm.BayesianLinearSVC`.
    checkpoint : str or path, optional
        File that holds the chains of the kernel machine under Gibbs, the one fit that is long; a
        later fit with the same file resumes from it.  Chains then run one after another.

    Attributes
    ----------
    n_factors_ : int
        Number of factors of each machine: ``n_factors``, or the rank of the table if that is less.
    loadings_, loadings_std_ : arrays of shape (n_features, n_factors)
        Posterior mean and standard deviation on the scale of the input; zero for columns that were
        constant in training or not chosen.  Factors are ordered by the variance they explain;
        the largest loading of each is positive.  The linear machine of more than two classes has
        separate factors for each class, one after another.
    noise_precision_ : array of shape (n_features,)
        Of each column, on the scale of the input; infinite for constant columns, NaN for columns
        that the model does not have.
    columns_ : array of int
        Numbers of the columns of the model.
    columns_loss_ : dict
        Mean log loss of rows left out by number of columns tried, 0 for the shares of the classes;
        empty if none was tried.  With more than two classes summed over them, each against the
        rest.
    mean_, scale_ : arrays of shape (n_features,)
        Of the columns; the scale is one for constant columns and if columns are not standardised.
    factor_relevance_ : array of shape (n_factors,)
        Share of each factor in the squared slope of f; they sum to one (for each class, if classes
        have their own).
    classes_, offset_, elbo_, elbo_path_, log_likelihood_path_, n_iter_, converged_
        As of :class:`~bayesvm.BayesianLinearSVC`.

    See Also
    --------
    sklearn.decomposition.FactorAnalysis : factors without labels.
    sklearn.cross_decomposition.PLSRegression : directions that explain labels, without a margin.

    References
    ----------
    Henao, Yuan & Carin (2014), *Bayesian nonlinear support vector machines and discriminative
    factor modeling*, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm import FactorSVC
    >>> rng = np.random.default_rng(0)
    >>> W = rng.standard_normal((80, 2))
    >>> X = W @ rng.standard_normal((2, 300)) + rng.standard_normal((80, 300))
    >>> y = W[:, 0] > 0
    >>> model = FactorSVC(n_factors=2).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> scores, sd = model.transform(X[:3], return_std=True)
    >>> scores.shape, model.inverse_transform(scores).shape
    ((3, 2), (3, 300))
    """

    n_factors: Any = 10
    classifier: str = "kernel"
    inference: Any = "vb"
    likelihood: Any = "hinge"
    _: KW_ONLY
    kernel: Any = "rbf"
    tune: bool = True
    coef_prior: Any = "fixed"
    nu: float | None = 1.0
    joint: bool = True
    columns: Any = "auto"
    intercept_scale: float | None = None
    categorical: Any = "auto"
    missing: Any = "auto"
    standardize: bool = True
    probability: str = "calibrated"
    class_weight: Any = None
    max_iter: int | None = None
    tol: float | None = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    callbacks: Sequence[Callable[[Progress], Any]] | None = None
    checkpoint: Any = None

    _accept_sparse = False
    _draws_f_itself = True
    engine = "serial"  # few rows: nothing to share

    _knows_novelty = False

    def _kept_missing(self) -> None:
        return None  # factors give them a distribution

    # ----- fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FactorSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows; NumPy, pandas or polars.  NaN marks a missing cell.
        y : array-like of shape (n,) or (n, n_classes)
            Labels, two or more distinct, or probabilities of the classes.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : FactorSVC
            The fitted estimator.
        """
        settings = prepare(self.get_params(deep=False))
        tables.check_in_memory(X, "FactorSVC")
        with self._run() as run:
            data = self._read_training(X, y, sample_weight).weighted()
            data = data._replace(X=data.X.astype(float))
            distinct = merged(data)
            choice = choose_columns(settings, distinct, run)
            if settings.is_drawn:  # the scores of each copy of a row are drawn
                at = np.repeat(np.arange(len(data.c)), whole(data.copies))
                data = data._replace(c=data.c / data.copies, copies=np.ones_like(data.copies))
                data = data.take(at)
            else:
                data = distinct
            given = None if isinstance(self.columns, str) else int(self.columns)
            m = given if choice is None else choice.m
            found = learn_table(settings, run, data, m, self._names())
        if choice is not None:
            found = cross_fitted(settings, found, choice, data.n_classes)
        self.columns_loss_ = {} if choice is None else choice.losses
        self._report = FactorReport(found.parts, found.columns)
        self._n_features_out = sum(part.loadings()[0].shape[1] for part in found.parts)
        fit = Fit(found.machines, data.classes, data.masses, data.chosen, run.stopped)
        return self._keep(fit.judged(found.moments), data)

    # ----- predictions

    def _read_new(self, X: Any, groups: Any = None) -> Array:
        X = super()._read_new(X, groups)
        return self._report.columns.scaled(X)

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Scores of rows, from their columns alone.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows; scores condition on the cells that are not NaN.
        return_std : bool, default=False
            Also return posterior standard deviations.

        Returns
        -------
        scores : array of shape (n, n_factors)
            Posterior means.
        std : array of the same shape
            Only with ``return_std``.
        """
        rows = self._read_new(X)
        scores, std = self._report.scores(rows)
        if not return_std:
            return scores
        # of two arrays scikit-learn wraps the first as set_output demands
        return scores, _wrap_data_with_container("transform", std, X, self)

    def inverse_transform(self, X: Any) -> Array:
        """Expected rows given scores.

        Parameters
        ----------
        X : array-like of shape (n, n_factors)
            Scores, as ``transform`` gives them.

        Returns
        -------
        rows : array of shape (n, n_features)
            On the scale of the input; where classes have their own factors, averaged over classes.
        """
        self._fitted()
        W = check_array(tables.check_table(X), dtype=[np.float64, np.float32])
        if W.shape[1] != self.loadings_.shape[1]:
            raise ValueError(
                f"scores have {self.loadings_.shape[1]} columns, one a factor; got {W.shape[1]}."
            )
        rows: Array = self.mean_ + W @ self.loadings_.T / len(self._report.parts)
        return rows

    # ----- reports

    loadings_ = property(attrgetter("_report.loadings"), doc="Posterior means of the loadings.")
    loadings_std_ = property(attrgetter("_report.std"), doc="Their standard deviations.")
    factor_relevance_ = property(
        attrgetter("_report.relevance"), doc="Share of each factor in the squared slope of f."
    )
    noise_precision_ = property(
        attrgetter("_report.noise_precision"), doc="Noise precision of each column."
    )
    columns_ = property(
        attrgetter("_report.columns.kept"), doc="Numbers of the columns of the model."
    )
    mean_ = property(attrgetter("_report.columns.mean"), doc="Means of the columns.")
    scale_ = property(attrgetter("_report.columns.scale"), doc="Scales of the columns.")

    @property
    def n_factors_(self) -> int:
        """Number of factors of each machine."""
        return int(self._n_features_out // len(self._report.parts))

    def loadings_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central posterior intervals of the loadings.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of each, in (0, 1).

        Returns
        -------
        lower, upper : arrays of shape (n_features, n_factors)
            Ends, as of Gaussians.
        """
        self._fitted()
        return self._report.interval(level)

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draws of the loadings, or of f at given rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.  Those of a sampler are picked from the ones it kept.
        X : array-like of shape (rows, n_features), optional
            Give draws of f at these rows instead, jointly over rows.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, n_features, n_factors), or (n, rows) with ``X``
            Loadings as in ``loadings_``, on the scale of the input.  With ``X`` and more than two
            classes one more axis, of classes, after the first.
        """
        self._fitted()
        rng = self._generator(random_state, n)
        if X is not None:
            return self._report.functions(self._read_new(X), n, rng)
        A = np.concatenate([found.A for found in self._report.sample(n, rng)], axis=3)
        A = A.reshape(-1, *A.shape[2:])
        return A[rng.integers(len(A), size=n)] if self.machines_[0].draws is not None else A

    def to_arviz(self, X: Any = None, y: Any = None, *, groups: Any = None, n: int = 1000) -> Any:
        """Draws (variational ones unless sampled) as an ArviZ data tree.

        Parameters
        ----------
        X, y, groups : None
            Nothing is exported at rows; :meth:`sample_posterior` draws f there.
        n : int, default=1000
            Number of variational draws; of a sampler all that were kept.

        Returns
        -------
        tree : xarray.DataTree, or arviz.InferenceData where the installed ArviZ is older than 1
            Group ``posterior`` with ``loadings`` and ``noise_precision`` on the scale of the input;
            ``coef`` and ``intercept`` of a linear machine; ``kernel_parameters`` where they were
            drawn.  Scores and kernel are points under variational EM and left out.
        """
        self._fitted()
        if any(given is not None for given in (X, y, groups)):
            raise ValueError(
                "FactorSVC exports draws of loadings and coefficients, none at rows: leave X and "
                "y out, and give the number of draws as n=1000. sample_posterior draws f at rows."
            )
        factors = [str(name) for name in self.get_feature_names_out()]
        return self._report.arviz(
            n, self._generator(None, n), self._names(), factors, self.classes_
        )

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients and loadings with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by parameter, factor and name: mean, sd, lower, upper, and r_hat and ess where
            drawn.  Parameters are ``intercept`` and ``coef`` of a linear machine, then
            ``loading``, whose names are those of the columns, largest (over the column's standard
            deviation) first: ``summary().loc["loading"].groupby("factor").head(5)`` are the five
            columns that make each factor.  Where each class has a machine the name of an
            intercept or coefficient is its class.
        """
        self._fitted()
        machines = self.machines_
        posteriors = [m.posterior for m in machines] if self.classifier == "linear" else []
        factors = [str(name) for name in self.get_feature_names_out()]
        drawn, names = machines[0].draws is not None, self._names()
        rng = self._generator()
        return self._report.summary(level, posteriors, drawn, rng, names, factors, self.classes_)
