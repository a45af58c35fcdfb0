r"""The discriminative factor model: features and margin learned together.

The model uses all columns, or only the columns most related to the labels.

A factor that explains *s* columns of *d* with loadings *a* has a signal of :math:`\lVert a
\rVert^2\psi`.  The leading factors of *n* rows contain it only if it is well above
:math:`\sqrt{d/n}` and above the signals of other factors (Baik, Ben Arous & Péché, 2005); the
label of a row adds one term to *d* terms of its columns and cannot change this.  A factor model of
the columns that differ most between the classes has a lower threshold (supervised principal
components: Bair, Hastie, Paul & Tibshirani, 2006).  Cross-validation chooses their number, and
repeats the choice of columns in every fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_array
from sklearn.utils._set_output import _wrap_data_with_container

from ..core.arrays import one_against_rest
from ..core.parameters import check_parameters
from ..core.types import Array, Term
from ..data import Blocks, Serial, tables
from ..data.engines import one_blas_thread
from ..data.labels import Training, whole
from ..designs import Intercept
from ..factor_models.design import FactorScores
from ..factor_models.fitted import Fitted, LinearFit, ProjectedScores, Sample
from ..factor_models.kernel import KernelFactors
from ..factor_models.learn import choose_size, fit_kernel
from ..factor_models.loadings import FactorPrior, learn, rank
from ..factor_models.observed_data import ColumnScale, Sheet
from ..gp.sites import merge
from ..inference import VB, Gibbs
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.progress import Progress, Run
from ..inspection.arviz import arviz_tree
from ..inspection.tables import convergence, draws_table, gaussian_table, pandas_for
from ..likelihoods import Hinge
from ..predictive.diagnostics import chains_agree, r_hat
from ..predictive.fitted import Fit
from ..predictive.leave_one_out import LooMoments, effective
from ..predictive.links import CalibratedLink, plain_link
from ..priors import Fixed
from ..priors.gaussian import intercept_prior
from . import options as check
from .base import BayesianClassifier
from .fit import fit_models

CHAINS = {"linear": Gibbs(draws=600, burn_in=300, chains=2), "kernel": Gibbs(200, 100, 2)}
SCHEMES = {"linear": VB(max_iter=500, tol=1e-5), "kernel": VB(max_iter=200, tol=1e-5)}


@dataclass(eq=False, repr=False)
class FactorSVC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BayesianClassifier):  # type: ignore[misc]
    r"""Discriminative factor model: a few factors explain the columns and separate the classes.

    .. math::

        x_n = \mu + A w_n + \varepsilon_n, \quad w_n \sim N(0, I_K), \quad
        \varepsilon_n \sim N(0, \psi^{-1} I), \quad a_{ik} \sim \mathrm{Laplace}(\sqrt{2\nu}),
        \qquad L(y_n \mid f_n) = e^{-2\max(0,\, 1 - y_n f_n)},

    with :math:`f_n = \beta_0 + \beta^\top w_n` (``classifier="linear"``) or *f* a Gaussian process
    of the scores :math:`w_n` (``"kernel"``).  Scores are learned from the columns and the labels
    together; scores of new rows use only the columns.  The cost is linear in the number of columns,
    so the model suits data with many columns and few rows.

    Parameters
    ----------
    n_factors : int or "auto", default=10
        Number of factors, at most the rank of the centred data, see ``n_factors_``.  ``"auto"``
        takes the number with the largest bound on the evidence of the columns.
    classifier : {"kernel", "linear"}, default="kernel"
        The classifier on the scores.
    inference : {"vb", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        ``"vb"``: ``VB(max_iter=500, tol=1e-5)`` (linear), or variational EM with point estimates of
        the scores, ``VB(max_iter=200, tol=1e-5)`` (kernel).  ``"gibbs"``: two chains of 900 sweeps
        (linear) or 300 (kernel).
    likelihood : {"auto", "hinge", "logistic", "probit"} or an object, default="hinge"
        The density of a label given f.
    kernel : str or object of :mod:`bayesvm.kernels`, default="rbf"
        Kernel of the standardised scores.  A name starts from a length scale of :math:`\sqrt K` and
        a variance of 4.  One length scale per factor gives automatic relevance determination.
    tune : bool, default=True
        Learn the kernel's parameters, under a prior centred at the initial values (standard
        deviation 0.25 of their logarithms).
    coef_prior : str or an object of :mod:`bayesvm.priors`, default="fixed"
        Prior of the coefficients of the linear classifier.  ``"lasso"`` selects factors.
    nu : float or None, default=1.0
        Rate of the loadings' variances: larger values make loadings smaller and sparser.  ``None``
        learns it (not for the kernel classifier under VB).  With many more columns than rows it
        determines the scale of the scores.
    joint : bool, default=True
        ``False`` is the two-step procedure, for comparison: factors are fitted to the columns
        alone, then the classifier to their scores.
    columns : {"auto", "all"} or int, default="auto"
        The columns of the factor model: all, or the given number of columns that differ most
        between the classes.  ``"auto"`` is all; with more columns than rows, five-fold
        cross-validation chooses all, 10, 30, 100, 300 or 1000 (ten to twenty times as long).
    intercept_scale : float, optional
        Prior standard deviation of the intercept; 3 by default.
    categorical : {"auto", "error"} or list of names or positions, default="auto"
        Categorical columns, as in :class:`~bayesvm.BayesianLinearSVC`.
    missing : {"auto", "error"}, default="auto"
        ``"auto"``: the factor model gives missing cells a distribution; a missing category is a
        level.  ``"error"`` raises an error.
    standardize : bool, default=True
        Scale columns internally (they are always centred); loadings are reported on the scale of
        the input.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities, fitted to scores computed without the row's own label.
    class_weight : dict, "balanced" or None, default=None
        Class weights, which multiply the likelihood of the labels but not of the columns.
    max_iter, tol, random_state, n_jobs, verbose, callbacks
        As in :class:`~bayesvm.BayesianLinearSVC`.
    checkpoint : str or path, optional
        File with the chains of the kernel classifier under Gibbs, from which a later fit resumes.
        Chains then run one after another.

    Attributes
    ----------
    n_factors_ : int
        Number of factors: ``n_factors``, or the rank of the data if that is less.
    loadings_, loadings_std_ : arrays of shape (n_features, n_factors)
        Posterior mean and standard deviation on the scale of the input; zero for constant or
        excluded columns.  Factors are ordered by explained variance; the largest loading of each is
        positive.  The linear classifier of more than two classes has separate factors for each
        class.
    noise_precision_ : array of shape (n_features,)
        Noise precision of each column, on the scale of the input; infinite for constant columns,
        NaN for excluded columns.
    columns_ : array of int
        Positions of the columns in the model.
    columns_loss_ : dict
        Mean cross-validated log loss by number of columns, with the loss of the class shares under
        0; empty without cross-validation.  For more than two classes, the sum of the binary losses.
    mean_, scale_ : arrays of shape (n_features,)
        Of the columns; the scale is one for constant columns and without ``standardize``.
    factor_relevance_ : array of shape (n_factors,)
        Share of each factor in the squared slope of f; shares sum to one (for each class, if the
        classes have separate factors).
    classes_, offset_, elbo_, elbo_path_, log_likelihood_path_, n_iter_, converged_
        As for :class:`~bayesvm.BayesianLinearSVC`.

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
        return None  # the factor model gives them a distribution

    # ----- fitting

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FactorSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Observations; NumPy, pandas or polars.  NaN marks a missing cell.
        y : array-like of shape (n,) or (n, n_classes)
            Labels, two or more distinct, or probabilities of the classes.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : FactorSVC
            The fitted estimator.
        """
        tables.check_in_memory(X, "FactorSVC")
        run = self._run()
        settings = prepare(dict(run.params))
        data = self._read_training(X, y, sample_weight)
        data = data._replace(X=data.X.astype(float))
        choice = choose_columns(settings, merged(data), run)
        data = repeated(data) if settings.is_drawn else merged(data)
        found = learn_table(settings, run, data, choice.m, self._names())
        found = cross_fitted(settings, found, choice, len(data.classes))
        self.columns_loss_ = choice.losses
        self._keep_loadings(found.parts, found.columns)
        self._n_features_out = self.loadings_.shape[1]
        fit = Fit(found.machines, data.classes, data.masses, data.chosen, run.stopped)
        return self._keep(fit.with_left_out(found.moments), run)

    def _keep_loadings(self, parts: Sequence[Fitted], columns: ColumnScale) -> None:
        """Keep the factor models, one for each class or one in all, and their loadings.

        Factors are ordered by explained variance; signs make the largest loading positive.
        """
        self._parts, self._columns, self._orders = parts, columns, []
        means, sds, shares = [], [], []
        for part in parts:
            A, sd = part.loadings()
            at = np.argsort(-np.square(A).sum(axis=0), kind="stable")
            A, slopes = A[:, at], part.slopes()[at]
            sign = np.where(A[np.abs(A).argmax(axis=0), np.arange(at.size)] < 0, -1.0, 1.0)
            self._orders.append((at, sign))
            means.append(columns.widened(A * sign))
            sds.append(columns.widened(sd[:, at]))
            shares.append(slopes / max(float(slopes.sum()), 1e-300))
        self.loadings_, self.loadings_std_ = np.hstack(means), np.hstack(sds)
        self.factor_relevance_ = np.concatenate(shares)
        self.noise_precision_ = columns.precision(np.mean([part.psi for part in parts]))
        self.columns_, self.mean_, self.scale_ = columns.kept, columns.mean, columns.scale

    # ----- predictions

    def _read_new(self, X: Any, groups: Any = None) -> Array:
        X = super()._read_new(X, groups)
        return self._columns.scaled(X)

    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Factor scores of rows, computed from their columns alone.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows; scores condition on the observed cells.
        return_std : bool, default=False
            Also return posterior standard deviations.

        Returns
        -------
        scores : array of shape (n, n_factors)
            Posterior means.
        std : array of the same shape
            Only with ``return_std``.
        """
        sheet, means, sds = Sheet.of(self._read_new(X)), [], []
        for part, (at, sign) in zip(self._parts, self._orders, strict=True):
            mean, sd = part.scores(sheet)
            means.append(mean[:, at] * sign)
            sds.append(sd[:, at])
        scores, std = np.hstack(means), np.hstack(sds)
        if not return_std:
            return scores
        # set_output makes scikit-learn wrap the first of two arrays
        return scores, _wrap_data_with_container("transform", std, X, self)

    def inverse_transform(self, X: Any) -> Array:
        """Expected columns of rows with given factor scores.

        Parameters
        ----------
        X : array-like of shape (n, n_factors)
            Scores, as returned by ``transform``.

        Returns
        -------
        rows : array of shape (n, n_features)
            On the scale of the input; averaged over classes if these have separate factors.
        """
        self._fitted()
        W = check_array(tables.check_table(X), dtype=[np.float64, np.float32])
        if W.shape[1] != self.loadings_.shape[1]:
            raise ValueError(
                f"scores have {self.loadings_.shape[1]} columns, one a factor; got {W.shape[1]}."
            )
        rows: Array = self.mean_ + W @ self.loadings_.T / len(self._parts)
        return rows

    # ----- reports

    @property
    def n_factors_(self) -> int:
        """Number of factors of each binary model."""
        return int(self._n_features_out // len(self._parts))

    def loadings_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central posterior intervals of the loadings.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        lower, upper : arrays of shape (n_features, n_factors)
            Ends of the intervals, by the Gaussian approximation.
        """
        self._fitted()
        table = gaussian_table(self.loadings_, self.loadings_std_, level)
        return table["lower"], table["upper"]

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draws of the loadings, or of f at given rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws; for a sampler, a selection of the stored draws.
        X : array-like of shape (rows, n_features), optional
            If given, draw f jointly at these rows.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, n_features, n_factors), or (n, rows) with ``X``
            Loadings as in ``loadings_``, on the scale of the input.  With ``X`` and more than two
            classes, the second axis is the class.
        """
        self._fitted()
        rng = self._generator(random_state, n)
        if X is not None:
            rows = self._read_new(X)
            f = np.concatenate([part.functions(rows, n, rng) for part in self._parts], axis=2)
            return f[:, :, 0] if f.shape[2] == 1 else f.transpose(0, 2, 1)
        A = np.concatenate([found.A for found in self._draw_parts(n, rng)], axis=3)
        A = A.reshape(-1, *A.shape[2:])
        return A[rng.integers(len(A), size=n)] if self.machines_[0].draws is not None else A

    def _draw_parts(self, n: int, rng: np.random.Generator) -> list[Sample]:
        """Draws of each factor model, loadings on the scale of the input."""
        out = []
        for part, (at, sign) in zip(self._parts, self._orders, strict=True):
            found = part.sample(n, rng).turned(at, sign)
            out.append(found._replace(A=self._columns.widened(found.A)))
        return out

    def to_arviz(self, X: Any = None, y: Any = None, *, groups: Any = None, n: int = 1000) -> Any:
        """Draws of the posterior for ArviZ, as for the other classifiers; none at rows.

        Group ``posterior`` has ``loadings`` and ``noise_precision`` on the scale of the input,
        ``coef`` and ``intercept`` of a linear classifier, and ``kernel_parameters`` if sampled.
        Under variational EM scores and kernel parameters are point estimates and are left out.
        """
        self._fitted()
        if any(given is not None for given in (X, y, groups)):
            raise ValueError(
                "FactorSVC exports draws of loadings and coefficients, none at rows: leave X and "
                "y out, and give the number of draws as n=1000. sample_posterior draws f at rows."
            )
        parts = self._draw_parts(n, self._generator(None, n))
        group: dict[str, Any] = {
            "loadings": np.concatenate([found.A for found in parts], axis=3),
            "noise_precision": [self._columns.precision(found.psi) for found in parts],
        }
        dims = {"loadings": ["feature", "factor"], "noise_precision": ["feature"]}
        coords: dict[str, Any] = {"feature": self._names(), "factor": self._factor_names()}
        if parts[0].coef is not None:
            group["coef"] = np.concatenate([found.coef for found in parts], axis=2)
            group["intercept"] = [found.intercept for found in parts]
            dims |= {"coef": ["factor"], "intercept": []}
        if parts[0].theta is not None:
            group["kernel_parameters"] = np.exp(parts[0].theta)
            dims["kernel_parameters"] = ["kernel_parameter"]
            coords["kernel_parameter"] = list(parts[0].names)
        return arviz_tree({"posterior": group}, dims, coords, self.classes_)

    def _factor_names(self) -> list[str]:
        return [str(name) for name in self.get_feature_names_out()]

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients and loadings with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by parameter, factor and name: mean, sd, lower, upper; for samplers also r_hat
            and ess.  Parameters are ``intercept`` and ``coef`` of a linear classifier, then
            ``loading`` with column names, sorted by size relative to the column's standard
            deviation, largest first: ``summary().loc["loading"].groupby("factor").head(5)`` gives
            the five most important columns of each factor.  For more than two classes the name of
            an intercept or coefficient is its class.
        """
        pd, machines = pandas_for("summary"), self._fitted().machines
        factors, names, K = self._factor_names(), self._names(), self.n_factors_
        drawn = machines[0].draws is not None
        parts: Any = self._draw_parts(1, self._generator()) if drawn else [None] * len(self._parts)
        frames = []

        def add(table: dict[str, Array], index: list[tuple[str, str, str]]) -> None:
            where = pd.MultiIndex.from_tuples(index, names=["parameter", "factor", "name"])
            frames.append(pd.DataFrame(table, index=where))

        for j, machine in enumerate(machines if self.classifier == "linear" else ()):
            label, found = "" if len(machines) == 1 else str(self.classes_[j]), parts[j]
            if found is None:
                at, sign = self._orders[j]
                place, sign = np.append(0, 1 + at), np.append(1.0, sign)
                mean, sd = machine.posterior.mean[place], machine.posterior.variance()[place] ** 0.5
                table = gaussian_table(mean * sign, sd, level)
            else:
                theta = np.concatenate([found.intercept[..., None], found.coef], axis=2)
                table = draws_table(theta, level) | convergence(theta)
            own = [("coef", name, label) for name in factors[j * K : (j + 1) * K]]
            add(table, [("intercept", "", label), *own])
        for k, factor in enumerate(factors):
            mean, found = self.loadings_[:, k], parts[k // K]
            table = gaussian_table(mean, self.loadings_std_[:, k], level)
            if found is not None:
                table |= convergence(found.A[..., k % K])
            order = np.argsort(-np.abs(mean / self.scale_), kind="stable")
            table = {name: values[order] for name, values in table.items()}
            add(table, [("loading", factor, str(names[i])) for i in order])
        return pd.concat(frames)


@dataclass(frozen=True)
class Settings:
    """Checked parameters of the estimator, with objects for names and numbers."""

    params: dict[str, Any]
    scheme: Any
    likelihood: Any
    level: float  # prior precision of the intercept

    @property
    def is_drawn(self) -> bool:
        return isinstance(self.scheme, Gibbs)

    @property
    def is_linear(self) -> bool:
        return bool(self.params["classifier"] == "linear")


def prepare(params: dict[str, Any]) -> Settings:
    """The settings, after all checks that need no data."""
    classifier, kernel, nu = params["classifier"], params["kernel"], params["nu"]
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError(
            "kernel='precomputed' has no meaning for FactorSVC, whose kernel is a function of "
            "learned factors; use BayesianSVC."
        )
    check_parameters({"tune": params["tune"]}, "FactorSVC", tune=["boolean"])
    given = params["inference"]
    named = {"vb": SCHEMES[classifier], "gibbs": CHAINS[classifier]}
    scheme = named.get(given, given) if isinstance(given, str) else given
    scheme = check.choose_scheme(scheme, params["max_iter"], params["tol"])
    if not isinstance(scheme, VB | Gibbs):
        raise ValueError(f"a factor model is fitted by inference='vb' or 'gibbs'; got {given!r}.")
    check.check_full(scheme, "FactorSVC")
    if scheme.is_tight:
        raise ValueError(
            "a factor model is fitted with the augmented bound; leave bound out of VB."
        )
    drawn = isinstance(scheme, Gibbs)
    if drawn and not params["joint"]:
        raise ValueError("joint=False is a comparison by inference='vb'; use that.")
    if nu is None and classifier == "kernel" and not drawn:
        raise ValueError(
            "nu=None cannot be learned with scores at a point, which would shrink without "
            "limit; give a number, or use classifier='linear' or inference='gibbs'."
        )
    if params["checkpoint"] is not None and not (drawn and classifier == "kernel"):
        raise ValueError(
            "a checkpoint holds the chains of classifier='kernel' with inference='gibbs'; "
            "other fits are short. Leave checkpoint out."
        )
    # whether or not this classifier has them
    likelihood = check.choose_likelihood(params["likelihood"], scheme, {"auto": Hinge()})
    check.choose_prior(params["coef_prior"], scheme, "coef_prior")
    check.choose_kernel(kernel, 1.0)
    scale = params["intercept_scale"]
    if classifier == "kernel" and scale is not None:
        check.check_positive("intercept_scale", scale, 1e-6, 1e6)
    level = float(intercept_prior(scale, Fixed(1.0 / 9.0)).precision)
    if nu is not None:
        check.check_positive("nu", nu, 1e-6, 1e6)
    return Settings(params, scheme, likelihood, level)


class Learned(NamedTuple):
    """Binary models, their factor models and columns, and cross-validated moments."""

    machines: list[Any]
    parts: list[Any]
    columns: ColumnScale
    moments: LooMoments | None


def learn_table(
    settings: Settings, run: Run, data: Training, m: int | None, names: Sequence[str] = ()
) -> Learned:
    """The model of all columns, or of the m columns most related to the labels."""
    params, scheme, likelihood, c = settings.params, settings.scheme, settings.likelihood, data.c
    columns = ColumnScale.of(data.X, data.copies, params["standardize"], names)
    sheet = Sheet.of(columns.scaled(data.X), data.copies)
    if m is not None and m < sheet.d:
        share = relation(sheet, data.codes, c, len(data.classes))
        columns = columns.only(np.sort(np.argsort(-share, kind="stable")[:m]))
        sheet = Sheet.of(columns.scaled(data.X), data.copies)
    prior, K, joint = FactorPrior(params["nu"]), params["n_factors"], params["joint"]
    if isinstance(K, str):  # "auto"
        K = choose_size(prior, sheet)
    # factors must have converged when variational EM starts, or it stops too early
    rough = settings.is_drawn or (settings.is_linear and joint)
    passes, tol = (20, 1e-4) if rough else (500, 1e-6)
    q, scores, _ = learn(prior, sheet, min(int(K), rank(sheet)), passes, tol)
    if not settings.is_linear:
        Y = np.stack(list(one_against_rest(data.codes, len(data.classes))), axis=1)
        kernel, _ = check.choose_kernel(params["kernel"], q.mean.shape[1])
        level = settings.level**-0.5
        problem = KernelFactors(
            sheet, Y, c, likelihood, prior, kernel, level, params["tune"], joint
        )
        link, rng, n_jobs = params["probability"], run.generator("factors"), params["n_jobs"]
        store = run.checkpoint(lambda: [sheet.table(), sheet.c, data.codes, c])
        found = fit_kernel(problem, (q, scores), scheme, link, rng, n_jobs, run, store)
        return Learned(found, [found[0].fitted], columns, None)
    # scores are a design matrix with latent entries
    design: Any = FactorScores(prior, q) if joint else ProjectedScores(q)
    terms = (
        Term("intercept", Intercept(), Fixed(settings.level)),
        Term("factors", design, check.choose_prior(params["coef_prior"], scheme)),
    )
    blocks = Blocks(sheet.table(), sheet.n)
    model = Model(terms, likelihood).sized(float(c.sum()))
    linear = Problem(model, blocks, Serial(), np.empty(0), c, c / sheet.c)
    fit, moments = fit_models(run, linear, data, scheme)
    machines = fit.machines
    if settings.is_drawn:  # compare chains by their fit: factors can rotate without changing it
        worst = [float(r_hat(m.draws.log_prob[:, :, None])[0]) for m in machines if m.draws]
        for k, r in enumerate(worst):
            ascent = replace(machines[k].ascent, converged=chains_agree(r), change=r)
            machines[k] = replace(machines[k], ascent=ascent)
    return Learned(machines, [LinearFit(machine) for machine in machines], columns, moments)


def relation(sheet: Sheet, codes: Array, c: Array, classes: int) -> Array:
    """Share of each column's variance that is between the classes, ``(d,)``."""
    own = np.equal.outer(np.arange(classes), codes) * c
    level = (c @ sheet.X) ** 2 / c.sum()
    between = ((own @ sheet.X) ** 2 / own.sum(axis=1, keepdims=True)).sum(axis=0) - level
    return np.asarray(between / np.maximum(c @ sheet.X**2 - level, 1e-300))


def merged(data: Training) -> Training:
    """Merge equal rows of equal class, in an order that depends only on their values.

    With point-estimated scores the objective has local optima, and rounding can decide which one
    a fit finds: equal data must give equal arrays.
    """
    X, holes = data.X, np.isnan(data.X)
    values = np.hstack([np.where(holes, 0.0, X), holes]) if holes.any() else X
    found = merge(values, data.codes, data.copies)
    one = np.unique(found.back, return_index=True)[1]  # one row for each merged one
    return data.take(one)._replace(c=np.bincount(found.back, data.c))


def repeated(data: Training) -> Training:
    """One row for each copy, because each copy has its own scores in a sampler."""
    at = np.repeat(np.arange(len(data.c)), whole(data.copies))
    return data._replace(c=data.c / data.copies).take(at)


# ----- the number of columns


class Choice(NamedTuple):
    """The chosen number of columns (``None`` for all), with held-out predictions if any."""

    m: int | None
    losses: Mapping[int, float]  # mean log loss by number of columns; 0: the class shares
    moments: LooMoments | None  # of f at held-out rows, for the chosen number


def choose_columns(settings: Settings, data: Training, run: Run, fewest: int = 10) -> Choice:
    """Choose the number of columns by cross-validated variational fits.

    Columns are chosen anew in each of five folds.  Fewer columns are used if they lower the
    held-out log loss by more than one standard error of the difference.  ``"auto"`` uses all
    columns if a class has ``fewest`` rows or less.
    """
    d, c, columns = data.X.shape[1], data.c, settings.params["columns"]
    untried = Choice(None if isinstance(columns, str) else int(columns), {}, None)
    least = int(np.bincount(data.codes).min())
    if np.unique(data.rows).size < data.rows.size:  # soft labels: all copies of a row belong
        least = 0  # to the same fold
    sizes: tuple[int, ...] = ()
    if not isinstance(columns, str):
        sizes = (int(columns),) if columns < d and least > 1 else ()
    elif columns == "auto" and d > len(data.codes) and least >= fewest:
        sizes = (*(m for m in (10, 30, 100, 300, 1000) if m <= d // 2), d)
    if not sizes:
        return untried
    plain = settings.params | {"checkpoint": None, "callbacks": None, "verbose": 0}
    if settings.is_drawn:
        plain |= {"inference": "vb", "max_iter": None, "tol": None}
        plain["nu"] = 1.0 if plain["nu"] is None else plain["nu"]
    quick = prepare(plain)
    Y = np.stack(list(one_against_rest(data.codes, len(data.classes))), axis=1)
    folds = list(
        StratifiedKFold(min(5, least), shuffle=True, random_state=0).split(data.X, data.codes)
    )
    found: dict[int, tuple[LooMoments, Array]] = {}
    for number, m in enumerate(sizes):
        mean, v = np.empty(Y.shape), np.empty(Y.shape)
        for k, (train, test) in enumerate(folds, 1):
            some = data.take(train)
            known = ~np.isnan(some.X).all(axis=0)  # columns with an observed cell in these rows
            one = some._replace(X=some.X[:, known])
            fit = learn_table(quick, Run("FactorSVC", plain), one, m if m < d else None)
            new = fit.columns.scaled(data.X[test][:, known])
            for j, machine in enumerate(fit.machines):
                mean[test, j], v[test, j] = machine.moments(new)
            done, total = number * len(folds) + k, len(sizes) * len(folds)
            if run(Progress("number of columns", done, total, np.nan, np.nan)):
                return untried
        moments, loss = LooMoments(data.codes, mean, v, effective(c, data.unit)), np.zeros(len(Y))
        for j, y in enumerate(Y.T):  # of each row, summed over the binary models
            p = CalibratedLink.fit(y, mean[:, j], v[:, j], moments.c).proba(mean[:, j], v[:, j])
            loss -= np.log(np.maximum(np.where(y > 0, p, 1.0 - p), 1e-300))
        found[m] = moments, loss
    share = np.average(Y > 0, axis=0, weights=c)
    base = -float(np.sum(share * np.log(share) + (1.0 - share) * np.log1p(-share)))
    average = {m: float(np.average(loss, weights=c)) for m, (_, loss) in found.items()}
    best = min(average, key=average.__getitem__)
    if d in average:
        gap, gain = found[d][1] - found[best][1], average[d] - average[best]
        error = float(np.sqrt(np.average((gap - gain) ** 2, weights=c) / gap.size))
        best = best if gain > error else d
    return Choice(best if best < d else None, {0: base} | average, found[best][0])


def cross_fitted(settings: Settings, found: Learned, choice: Choice, classes: int) -> Learned:
    """Links fitted to rows that were held out of the choice of columns, if one was made."""
    if choice.m is None or choice.moments is None:
        return found
    codes, m, v, c = choice.moments
    machines = found.machines
    if plain_link(settings.params["probability"], settings.likelihood) is None:
        each = zip(machines, one_against_rest(codes, classes), m.T, v.T, strict=True)
        machines = [replace(k, link=CalibratedLink.fit(y, mj, vj, c)) for k, y, mj, vj in each]
    return found._replace(machines=machines, moments=choice.moments)
