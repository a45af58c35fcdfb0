"""Linear predictors: their reports, the base of their classifiers, and the linear classifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from ..core import arrays
from ..core.types import Array, Term
from ..data import Serial, tables
from ..data.encoding import Encoding
from ..data.labels import Training
from ..designs import Intercept, fit_columns
from ..designs.missing import incomplete
from ..inference import SVI, Gibbs
from ..inference.draws import PAIRS, Pair
from ..inference.latent import fit_params
from ..inference.model import Model, arranged
from ..inference.problem import Latent, Problem
from ..inference.progress import Progress
from ..inspection.arviz import Draws
from ..inspection.cells import NO_CELLS, Imputed, ImputedCells
from ..inspection.coefficients import Coefficients
from ..predictive.fitted import Fit
from . import options as check
from .base import BayesianClassifier
from .fit import build_problem, fit_terms, in_blocks, warm_starts
from .formula import Formula, described
from .predictions import draw_f
from .streaming import Setup, advance, streamable, variational


class LinearReports:
    """Reports of a linear predictor, as methods and properties of the estimators that have one."""

    _fitted: Callable[[], Fit]
    _names: Callable[[], list[str]]
    _generator: Callable[..., np.random.Generator]
    _with_note: Callable[[Any], Any]
    encoding_: Encoding

    @property
    def _coefficients(self) -> Coefficients:
        fit = self._fitted()
        return Coefficients(fit.machines, self._names(), fit.classes, levels=self.encoding_.levels)

    def _as_reported(self, values: Array) -> Any:
        """Values by machine in the shape that users are given; a regression has one machine."""
        return values

    @property
    def coef_(self) -> Any:
        """Posterior means (the estimate itself under EM), on the scale of the input.

        They depend on the units of the columns.  ``SelectFromModel`` and ``RFE`` of scikit-learn
        should be given ``importance_getter="feature_importances_"``.
        """
        return self._as_reported(self._coefficients.coef)

    @property
    def intercept_(self) -> Any:
        """Posterior means of the intercept; zero without one."""
        return self._as_reported(self._coefficients.intercept)

    @property
    def coef_cov_(self) -> Array:
        """Posterior covariance of ``coef_``: (p, p), or (n_classes, p, p)."""
        return self._coefficients.cov

    @property
    def coef_std_(self) -> Array:
        """Posterior standard deviations of ``coef_``, of the same shape."""
        return self._as_reported(self._coefficients.std)

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
        lower, upper = self._coefficients.interval(level)
        return self._as_reported(lower), self._as_reported(upper)

    @property
    def inclusion_proba_(self) -> Array:
        """Posterior inclusion probability of each column, ``(p,)``: selection priors only."""
        return self._coefficients.inclusion

    @property
    def kkt_residual_(self) -> float:
        """EM with a hinge: largest violation of the optimality conditions, relative."""
        return self._certified("kkt")

    @property
    def duality_gap_(self) -> float:
        """EM with a hinge: gap between primal and dual objective, relative."""
        return self._certified("gap")

    def _certified(self, name: str) -> float:
        found = [m.certificate for m in self._fitted().machines if m.certificate is not None]
        if not found:
            raise AttributeError("only inference='em' with a hinge loss has a certificate.")
        return max(float(getattr(certificate, name)) for certificate in found)

    def sample_posterior(
        self, n: int = 1000, X: Any = None, random_state: Any = None, return_intercept: bool = False
    ) -> Any:
        """Draws of the coefficients, or of f at given rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like or sparse of shape (rows, n_features), optional
            Give draws of f at these rows instead, lazily for those of a Dask collection.
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
        if X is not None:
            return draw_f(self, n, X, random_state)
        draws = self._coefficients.draws(n, self._generator(random_state, n))
        return draws if return_intercept else draws[0]

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
            r_hat and ess where drawn; under EM the estimate alone.  A selection prior adds
            ``inclusion``, the probability to matter, and ``positive``, of a positive sign then;
            intervals are given inclusion.  Levels of a category are differences to its first level.
            ``frame.attrs["note"]`` may hold a note on the standard deviations.
        """
        return self._with_note(self._coefficients.summary(level))


@dataclass(eq=False, repr=False)
class LinearClassifier(LinearReports, BayesianClassifier):
    """Base of the classifiers with a linear predictor: formulas, missing cells and importances."""

    prior: Any = "auto"
    inference: Any = "vb"
    likelihood: Any = "logistic"
    _: KW_ONLY
    formula: str | None = None
    fit_intercept: bool = True
    categorical: Any = "auto"
    missing: Any = "auto"
    standardize: bool = True
    probability: str = "calibrated"
    covariance: str = "robust"
    class_weight: Any = None
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

    _has_imputer = True
    _no_cells = NO_CELLS  # the error where no cells have a distribution
    _unread = ()  # columns of numbers of which nothing is known

    # ----- formulas

    def _names(self) -> list[str]:
        return super()._names() if self._formula is None else list(self._formula.names)

    def _levels_of(self, names: Sequence[str]) -> dict[int, tuple[Any, ...] | None]:
        if self._formula is None:
            return super()._levels_of(names)
        reads = self._formula.design.reads
        found = {j: reads[name] for j, name in enumerate(names) if name in reads}
        return found or dict.fromkeys(range(len(names)))  # an array has the columns of the formula

    def _read_formula(self, X: Any, y: Any, random: Any = "intercept") -> tuple[Any, ...]:
        """Rows, labels, groups and effects of groups that the formula reads from a data frame."""
        self._formula = formula = Formula.learn(str(self.formula), X, y)
        formula.check(random, self.fit_intercept)
        rows, groups = formula.rows(X)
        return rows, X[formula.response] if y is None else y, groups, formula.random

    @classmethod
    def from_formula(
        cls: Any, formula: str, data: Any, *, sample_weight: Any = None, **params: Any
    ) -> Any:
        """Fit a formula such as ``"y ~ visit * treat"`` to a data frame.

        The model is the estimator with this ``formula``, fitted to the frame, so that it can be
        cloned and cross-validated on data frames.

        Parameters
        ----------
        formula : str
            As the package formulae reads it: columns (in backquotes where the name is no
            identifier), operators, and functions such as ``C(x)``, ``scale(x)``, ``bs(x, df=4)``
            and ``np.log(x)``.  Of :class:`~bayesvm.MixedSVC` also effects of groups: ``(1 | g)``,
            ``(1 + x | g)``, crossed ``(1 | a) + (1 | b)`` and nested ``(1 | a/b)``.
        data : pandas.DataFrame
            Holds the columns that the formula names, without missing values.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.
        **params
            Parameters of the estimator, other than ``random`` and ``fit_intercept``.

        Returns
        -------
        model : estimator
            Fitted; ``predict`` and the others take a data frame with the same columns.
        """
        for name in ("random", "fit_intercept"):
            if name in params:
                raise ValueError(f"from_formula reads {name} from the formula; do not give it.")
        terms = described(formula, data).common_terms
        params["fit_intercept"] = any(not getattr(term, "components", ()) for term in terms)
        return cls(formula=formula, **params).fit(data, sample_weight=sample_weight)

    # ----- fitting

    def _fitting_rows(self, X: Any, y: Any, sample_weight: Any, scheme: Any) -> Training:
        """Training rows of positive weight.

        Where missing cells have a distribution, a sampler draws the cells of each copy of a row.
        """
        data = self._read_training(X, y, sample_weight).weighted()
        if not self._models_missing:
            return data
        tables.check_in_memory(data.X, "missing='model'")
        if sparse.issparse(data.X):
            raise ValueError(
                "missing='model' needs dense rows: the distribution of the columns would fill "
                "sparse ones in. Give X.toarray(), or use missing='error'."
            )
        gone = np.isnan(data.X)
        never = np.flatnonzero(gone.all(axis=0))
        if never.size:
            raise ValueError(
                f"{never.size} column(s) have no observed value at all (first: "
                f"{', '.join(str(self._names()[j]) for j in never[:5])}), so nothing can be "
                "learned of them. Drop them."
            )
        if empty := int(gone.all(axis=1).sum()):
            text = f"{empty} row(s) have every cell missing; they inform the intercept only."
            warnings.warn(text, UserWarning, stacklevel=3)
        return data.repeated() if isinstance(scheme, Gibbs) else data

    def _problem(self, data: Training, parts: check.Parts, effects: Sequence[Any] = ()) -> Problem:
        """The problem of training rows, with ``effects`` of groups."""
        K = total = data.X.shape[1] + bool(self.fit_intercept)
        for part in effects:
            total += part.size * part.effects.r
        engine, blocks = in_blocks(self.engine, data.X, K, self.n_jobs, parts.scheme, total)
        columns: Any = fit_columns(blocks, data.c, engine, self.standardize, self.fit_intercept)
        if self._models_missing:
            design = self._latent(columns, blocks, engine, data.c, data.c / data.unit)
            complete = not np.isnan(arrays.inner(blocks.X)).any()
            columns = columns if complete and design.is_latent else design
        terms = [Term("intercept", Intercept(), parts.level)] if self.fit_intercept else []
        terms.append(Term("coef", columns, parts.prior))
        for part in effects:
            terms.append(part.term(columns))
        model = Model(arranged(terms), parts.likelihood)
        return build_problem(model, blocks, engine, parts.scheme, data.c, data.unit)

    # ----- missing cells

    def _latent(self, columns: Any, blocks: Any, engine: Any, c: Array, copies: Array) -> Any:
        """Columns with a distribution for cells that are missing."""
        seen = fit_columns(blocks, c, engine, standardize=True, distances=True)
        imputer = check.choose_imputer(self.missing, blocks.n, columns.width)
        return incomplete(columns, seen, imputer, blocks.X, copies)

    def _with_cells(self, fit: Fit, problem: Problem, X: Any) -> Fit:
        """The fit to complete rows ``X`` with the distribution of their cells.

        With no cell missing in training, neither depends on the other.
        """
        columns = problem.model.find("coef")[0].design
        if columns.is_incomplete:
            return fit
        blocks: Any = replace(problem.blocks, X=X, ready=False)
        copies = problem.copies
        design: Any = self._latent(columns, blocks, problem.engine, problem.c, copies)
        total = Serial().sum(
            lambda b, copies: design.sums(b.X, design.columns(b.X), copies, ()), blocks, copies
        )
        latent = Latent(fit_params(design, total), (), total, total)
        machines = []
        for machine in fit.machines:
            terms = tuple(
                t._replace(design=design) if t.design is columns else t for t in machine.model.terms
            )
            latents = tuple(latent if t.design is design else None for t in terms)
            post: Any = machine.posterior
            if machine.draws is not None:
                flat = post.flat[:: -(-len(post.flat) // PAIRS)]
                params = tuple(each and each.params for each in latents)
                post = replace(post, pairs=tuple(Pair(theta, params) for theta in flat))
            model = replace(machine.model, terms=terms)
            state = machine.state._replace(latents=latents)
            machines.append(replace(machine, model=model, posterior=post, state=state))
        return replace(fit, machines=machines)

    def impute(self, X: Any) -> tuple[Array, Array]:
        """Missing cells of rows without labels, from the other cells of each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows, with NaN where cells are missing.

        Returns
        -------
        mean, std : arrays of shape (n, n_features)
            Expected value and standard deviation of each cell; 0 for observed ones.  Training
            cells, given the labels too, are in ``imputed_``.  Of :class:`~bayesvm.AdditiveSVC`
            columns that name groups are left out, and those that no term reads are NaN.
        """
        report = ImputedCells(self._fitted().machines, self._no_cells)
        return report.at(self._read_new(X), self._unread)

    @property
    def imputed_(self) -> Imputed:
        """Missing cells of the training rows, given the other cells and the labels."""
        fit = self._fitted()
        return ImputedCells(fit.machines, self._no_cells).training(fit.rows)

    # ----- reports

    @property
    def feature_importances_(self) -> Array:
        """Importance of each column of the input, independent of its unit, ``(n_features_in_,)``.

        Under a selection prior its posterior probability to matter, else the size of its
        coefficient on the scale of the fit, averaged over classes; of a category the largest.
        """
        each = self._coefficients.importances
        return np.array([each[list(made)].max() for made in self.encoding_.made])

    def _drawn(self, thetas: Sequence[Array], X: Any) -> Draws:
        return self._coefficients.group(thetas)


class BayesianLinearSVC(LinearClassifier):
    r"""Linear support vector machine with a posterior over its coefficients.

    .. math::

        f_i = \beta_0 + x_i^\top\beta, \qquad
        L(y_i \mid f_i) = \frac{1}{1 + e^{-y_i f_i}}, \qquad
        \beta_j \sim N(0, \sigma^2), \quad \sigma^2 \text{ chosen by leave-one-out.}

    One fit gives coefficients with intervals, a penalty, and calibrated probabilities without
    cross-validation.  ``likelihood="hinge"`` is the loss of a support vector machine; its log loss
    is higher, and its intervals are too narrow.

    Parameters
    ----------
    prior : str or an object of :mod:`bayesvm.priors`, default="auto"
        ``"auto"`` chooses the ridge penalty by evidence and leave-one-out log loss; ``"ridge"``
        learns it in the fit, as Gibbs does; ``"fixed"`` has precision 1.  ``"lasso"`` and
        ``"bridge"`` set coefficients to zero under EM; ``"spike_slab"`` and ``"laplace_zero"`` give
        each column a probability of inclusion.
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        How the posterior is found.  ``"vb"`` maximises the tight bound if the prior is ``"auto"``,
        else the augmented one, whose standard deviations are too small.
    likelihood : str or an object of :mod:`bayesvm.likelihoods`, default="logistic"
        Distribution (or pseudo-likelihood) of a label given f: ``"logistic"`` (and ``"auto"``),
        ``"probit"``, ``"hinge"``, ``"soft_hinge"`` or ``"skewed_laplace"``.  More than two classes
        have the multinomial likelihood under ``"logistic"``, else a binary model each against the
        rest.
    formula : str, optional
        Such as ``"y ~ age * sex + np.log(dose)"``: X is a data frame then, from which columns are
        read, see :meth:`from_formula`.  ``fit_intercept`` must be False where it has no intercept.
    fit_intercept : bool, default=True
        Add an intercept, with a wide prior.  Without one f is ``X @ coef_``: columns are
        scaled and not centred.
    categorical : {"auto", "error"} or list of names or positions, default="auto"
        Columns of categories, each level of which becomes an indicator: columns of text, categories
        or booleans, and the listed ones.  ``"error"`` refuses columns that are not numeric.
    missing : {"auto", "error", "model"} or an object, default="auto"
        Missing cells are replaced by the mean of the column, with an indicator where 1 % or more
        are missing; refused; or given a distribution that is learned with the coefficients,
        ``"model"`` or an object of :mod:`bayesvm.designs` (:doc:`/missing`).
    standardize : bool, default=True
        Centre and scale columns inside; sparse ones are only scaled, by the standard deviation over
        the square root of the share of entries that are not zero.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: fitted to leave-one-out moments, the pseudo-likelihood
        normalised over labels, or :math:`\Phi(m/\sqrt{1+v})`.
    covariance : {"robust", "model"}, default="robust"
        Standard deviations and intervals by the robust covariance, corrected for shrinkage and
        calibration (:doc:`/intervals`), or by the posterior.  Predictions are the same.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, multiplied by ``sample_weight``.
    intercept_scale : float, optional
        Prior standard deviation of the intercept; 100 by default, ``inf`` for a flat prior.
    engine : {"auto", "serial", "threads", "dask", "gpu"} or an object, default="auto"
        What computes the sums over rows, and in which precision: see :mod:`bayesvm.data`.
        ``"auto"`` follows the input.
    max_iter, tol : int and float, optional
        Override the values of the inference scheme.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random numbers.
    n_jobs : int, optional
        Threads over rows, and chains run in parallel under Gibbs.
    verbose : int, default=0
        1 shows progress.
    callbacks : list of callables, optional
        Called with a :class:`~bayesvm.inference.Progress` after every iteration; ``True`` ends the
        fit.
    warm_start : bool, default=False
        Start from the previous fit if the shapes agree.
    checkpoint : str or path, optional
        File with the state of a long fit, from which a later fit resumes.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (1, n_features) and (1,), or one row per class
        Posterior means (the estimate itself under EM), on the scale of the input; under the
        multinomial likelihood differences to the mean of the classes.
    feature_importances_ : array of shape (n_features,)
        ``inclusion_proba_`` under a selection prior, else sizes of standardised coefficients; of
        a column of categories the largest of its indicators.
    inclusion_proba_ : array of shape (n_features,)
        Selection priors: posterior probability that a column matters (to any class).
    elbo_, elbo_path_ : float and array
        Lower bound on the log evidence under VB and SVI, summed over binary models, and its history
        (a list where classes were fitted one by one).
    log_posterior_, log_posterior_path_, log_likelihood_path_
        The log posterior density under EM; the log pseudo-likelihood of the draws under Gibbs.
    kkt_residual_, duality_gap_ : float
        EM with the hinge: how far from optimal, relative.
    classes_ : array of shape (n_classes,)
        Labels.
    offset_ : array of shape (1,) or (n_classes,)
        Shift of f by the calibration, before the sign is taken.
    n_iter_, converged_ : int, bool
        Number of iterations, and whether the stopping rule was met.

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

    # ----- reading

    def _read_new(self, X: Any, groups: Any = None) -> Any:
        if self._fitted() and self._formula is not None:
            X, groups = self._formula.new_rows(X, groups)
        return super()._read_new(X, groups)

    # ----- fitting

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianLinearSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features), or a source of :mod:`bayesvm.data`
            Rows; NumPy, SciPy sparse, pandas or polars, or files that are read in blocks.  With
            ``formula``, a pandas data frame that it is applied to.
        y : array-like of shape (n,) or (n, n_classes)
            Labels, two or more distinct, or probabilities of the classes; not needed where the
            source has them, nor where the formula's left side is a column of the frame.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : BayesianLinearSVC
            The fitted estimator.
        """
        self._formula = None
        if self.formula is not None:
            X, y, groups, _ = self._read_formula(X, y)
            if groups:
                raise ValueError(f"{self.formula!r} has groups, which MixedSVC takes.")
        parts = check.choose_parts(self)
        with self._run() as run:
            data = self._fitting_rows(X, y, sample_weight, parts.scheme)
            problem = self._problem(data, parts)
            starts = warm_starts(self, problem, data.n_classes)
            limit = None if self._models_missing else np.inf
            fit = fit_terms(run, problem, data, parts.scheme, starts, limit)
        if self._models_missing:
            fit = self._with_cells(fit, problem, data.X)
        self._stream = None
        return self._keep(fit, data)

    # ----- streams

    def _check_stream(self) -> None:
        if self.formula is not None:
            raise ValueError("partial_fit takes no formula; give it the columns themselves.")
        check.check_streamed(check.choose_parts(self, SVI()).likelihood)

    @available_if(streamable)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, buffer: int = 2000
    ) -> BayesianLinearSVC:
        """Learn from the next rows of a stream.

        Up to ``buffer`` rows a call is a fit to all rows so far.  Then, or after ``fit`` from the
        first call, the posterior of the coefficients becomes the prior of the next rows (streaming
        variational Bayes); the penalty and the scaling of columns stay as they are.
        Probabilities are calibrated by leave-one-out predictions of the most recent rows.

        More than two classes have a binary model each against the rest, and one link.  Callbacks
        are called once a call and class.  There is no ``checkpoint``: save the model.

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
        buffer : int, default=2000
            Number of rows up to which all are held; of longer streams the most recent rows of
            each class are, equally many.

        Returns
        -------
        self : BayesianLinearSVC
            The updated estimator.

        References
        ----------
        Broderick et al. (2013), *Streaming variational Bayes*.
        """
        parts = check.choose_parts(self)
        parts = parts._replace(scheme=variational(parts.scheme))

        # f of other likelihoods differ in scale between classes
        softmax = parts.likelihood.is_logit and self.probability == "calibrated"
        setup = Setup(parts.scheme, partial(self._problem, parts=parts), softmax)
        return advance(self, setup, X, y, classes, sample_weight, buffer)
