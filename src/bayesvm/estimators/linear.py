"""Linear predictors: their reports, the base class of their classifiers, the linear classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtr
from sklearn.utils.metaestimators import available_if

from ..core import arrays
from ..core.parameters import warn
from ..core.types import Array, Term
from ..data import Serial, tables
from ..data.engines import one_blas_thread
from ..data.labels import Training
from ..data.tables import Encoding
from ..designs import Intercept, fit_columns
from ..designs.missing import incomplete
from ..inference import SVI, Gibbs
from ..inference.draws import PAIRS, Pair
from ..inference.em import Mode
from ..inference.latent import fit_params
from ..inference.model import Model
from ..inference.problem import Problem, TermLatents
from ..inference.progress import Progress
from ..inspection.arviz import Draws
from ..inspection.cells import Imputed, impute, imputed
from ..inspection.tables import coefficient_table, contrasts, pandas_for, stacked, tails
from ..predictive.fitted import BinaryModel, Fit
from ..predictive.regression import Unit
from . import options as check
from .base import BayesianClassifier
from .fit import build_problem, fit_models, in_blocks, warm_starts
from .formula import Formula, described
from .predictions import draw_f
from .streaming import Setup, advance, streamable, variational


class LinearReports:
    """Reports of a linear predictor, as methods and properties of the estimators with one."""

    _fitted: Callable[[], Fit]
    _names: Callable[[], list[str]]
    _generator: Callable[..., np.random.Generator]
    _with_note: Callable[[Any], Any]
    encoding_: Encoding
    _unit = Unit()  # of the reported function, for regressions

    def _as_reported(self, values: Array) -> Any:
        """Values by binary model in the reported shape; a regression has a single model."""
        return values

    def _coef_term(self) -> tuple[Any, slice, Array]:
        """The design of the coefficients, their place in theta, and their scales."""
        term, where = self._fitted().machines[0].model.find("coef")
        return term.design, where, term.design.scale / self._unit.scale

    @property
    def _has_intercept(self) -> bool:
        return self._coef_term()[1].start > 0

    def _to_user(self) -> Any:
        """Sparse matrix from theta to (intercept minus its level, coefficients) of the input.

        Without an intercept its row is empty.
        """
        design, where, scale = self._coef_term()
        (first, last), p = (where.start, where.stop), design.width
        rows = np.concatenate([np.zeros(last, dtype=int), 1 + np.arange(p)])
        columns = np.concatenate([np.arange(last), np.arange(first, last)])
        shift = np.concatenate([np.full(first, self._unit.scale), -design.center / scale])
        shape = (1 + p, self._fitted().machines[0].model.width)
        values = np.concatenate([shift, 1.0 / scale])
        return sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))

    def _user(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients ``(..., p)`` and intercept ``(...)`` of the input for theta ``(..., K)``."""
        flat = (self._to_user() @ theta.reshape(-1, theta.shape[-1]).T).T
        user = flat.reshape(*theta.shape[:-1], -1)
        return user[..., 1:], self._unit.level + user[..., 0]

    @property
    def coef_(self) -> Any:
        """Posterior means (the point estimate under EM), on the scale of the input.

        They depend on the units of the columns.  For scikit-learn's ``SelectFromModel`` and ``RFE``
        use ``importance_getter="feature_importances_"``.
        """
        means = [self._user(m.posterior.mean)[0] for m in self._fitted().machines]
        return self._as_reported(np.stack(means))

    @property
    def intercept_(self) -> Any:
        """Posterior means of the intercept; zero without one."""
        means = [float(self._user(m.posterior.mean)[1]) for m in self._fitted().machines]
        return self._as_reported(np.array(means) if self._has_intercept else np.zeros(len(means)))

    @property
    def coef_cov_(self) -> Array:
        """Covariance of the coefficients of ``summary()``: (p, p), or (n_classes, p, p)."""
        (_, where, scale), covs = self._coef_term(), []
        for machine in self._fitted().machines:
            cov = machine.coefficients.covariance(where)
            with np.errstate(over="ignore"):  # of columns in tiny units it may be too large
                cov /= scale
                cov /= scale[:, None]
            covs.append(cov)
        return covs[0] if len(covs) == 1 else np.stack(covs)

    @property
    def coef_std_(self) -> Array:
        """Standard deviations of the coefficients of ``summary()``, of the shape of ``coef_``."""
        _, where, scale = self._coef_term()
        variances = [m.coefficients.variance()[where] for m in self._fitted().machines]
        return self._as_reported(np.sqrt(np.stack(variances)) / scale)

    def coef_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central posterior interval of each coefficient, as in ``summary()``.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the interval, in (0, 1).

        Returns
        -------
        lower, upper : arrays of the shape of ``coef_``
            Ends of the interval.
        """
        ends = [self._ends(m, tails(level))[:, 1:] for m in self._fitted().machines]
        lower, upper = np.stack(ends, axis=1)
        return self._as_reported(lower), self._as_reported(upper)

    def _ends(
        self, machine: BinaryModel, levels: tuple[float, float], given: bool = False
    ) -> Array:
        """Quantiles of (intercept, coefficients), ``(2, 1 + p)``.

        ``given`` inclusion, if the prior selects; otherwise including the mass at zero.
        """
        T, (_, where, scale) = self._to_user(), self._coef_term()
        level = np.append(self._unit.level, np.zeros(scale.size))
        if machine.inclusion is None or (not given and machine.draws is not None):
            return machine.coefficients.quantiles(T, levels) + level
        chance = np.ones_like(scale) if given else machine.inclusion[where]
        coef = machine.slab_quantiles(levels, chance, where) / scale
        intercept = machine.reported.quantiles(T[:1], levels)
        return np.concatenate([intercept, coef], axis=1) + level

    @property
    def inclusion_proba_(self) -> Array:
        """Posterior inclusion probability of each column, ``(p,)``: selection priors only."""
        _, where, _ = self._coef_term()
        machines = self._fitted().machines
        chances = np.array([m.inclusion[where] for m in machines if m.inclusion is not None])
        if not chances.size:
            raise AttributeError(
                "inclusion_proba_ needs a selection prior: prior='spike_slab' or 'laplace_zero'."
            )
        return chances[0] if len(machines) == 1 else 1.0 - np.prod(1.0 - chances, axis=0)

    @property
    def kkt_residual_(self) -> float:
        """EM with a hinge: largest relative violation of the optimality conditions."""
        return self._certified("kkt")

    @property
    def duality_gap_(self) -> float:
        """EM with a hinge: relative gap between primal and dual objective."""
        return self._certified("gap")

    def _certified(self, name: str) -> float:
        modes = [m.ascent for m in self._fitted().machines if isinstance(m.ascent, Mode)]
        found = [mode.certificate for mode in modes if mode.certificate is not None]
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
            If given, draw f at these rows; lazily for a Dask collection.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.
        return_intercept : bool, default=False
            Also return draws of the intercept.

        Returns
        -------
        draws : array of shape (n, n_features), or (n, rows) with ``X``
            With more than two classes, the second axis is the class.
        intercept : array of shape (n,) or (n, n_classes)
            Only with ``return_intercept``.
        """
        if X is not None:
            return draw_f(self, n, X, random_state)
        rng = self._generator(random_state, n)
        pairs = [self._user(m.coefficients.sample(n, rng)) for m in self._fitted().machines]
        coef, intercept = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
        if len(pairs) == 1:
            coef, intercept = coef[:, 0], intercept[:, 0]
        return (coef, intercept) if return_intercept else coef

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by name (class and name for more than two classes): mean, sd, lower, upper; for
            samplers also r_hat and ess; under EM only the estimate.  A selection prior adds
            ``inclusion``, a probability, and given inclusion the intervals and ``positive``, the
            probability of a positive sign.  Levels of a category are differences to its first
            level.  ``frame.attrs["note"]`` may contain a note.  ``coef_`` may be shrunk more.
        """
        return self._with_note(self._coefficient_frame(level))

    def _coefficient_frame(self, level: float) -> Any:
        fit, T, ends = self._fitted(), self._to_user(), tails(level)
        pd, skip, where = pandas_for("summary"), not self._has_intercept, self._coef_term()[1]
        compared = self._has_intercept and fit.machines[0].inclusion is None
        levels = [[1 + j for j in each] for each in self.encoding_.levels] if compared else []
        labels, _, C = contrasts(["intercept", *self._names()], levels, 0)
        names, frames = pd.Index(labels[skip:], name="name"), []
        for machine in fit.machines:
            more: dict[str, Array] = {}
            if machine.inclusion is not None:
                more["lower"], more["upper"] = self._ends(machine, ends, given=True)
                m, v = machine.reported.moments(T[:1])
                sign = ndtr((self._unit.level + m) / np.sqrt(np.maximum(v, 1e-300)))
                more["inclusion"] = np.append(1.0, machine.inclusion[where])
                more["positive"] = np.append(sign, machine.sign_proba()[where])
            shift = self._unit.level * np.eye(1, len(labels))[0]
            table = coefficient_table(machine, C @ T, ends, more, shift)
            frames.append(pd.DataFrame({k: x[skip:] for k, x in table.items()}, index=names))
        return stacked(frames, fit.classes, pd)

    def _drawn(self, thetas: Sequence[Array], X: Any) -> Draws:
        """Draws by name, names of their axes, and labels of the coordinates, for ArviZ."""
        term, machines = self._fitted().machines[0].model.find("coef")[0], self._fitted().machines
        pairs = [self._user(theta) for theta in thetas]
        group: dict[str, Any] = {"coef": [coef for coef, _ in pairs]}
        dims: dict[str, list[str]] = {"coef": ["feature"]}
        if self._has_intercept:
            group["intercept"], dims["intercept"] = [shift for _, shift in pairs], []
        draws = machines[0].draws
        if len(machines) == 1 and draws is not None and "coef" in draws.hyper:
            scales = term.prior.reported(draws.hyper["coef"])
            group |= {f"coef_{name}": values for name, values in scales.items()}
        return group, dims, {"feature": self._names()}


@dataclass(eq=False, repr=False)
class LinearClassifier(LinearReports, BayesianClassifier):
    """Base class of linear classifiers: formulas, missing cells and importances."""

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
    # the error if no cells have a distribution
    _no_cells = "missing cells are modelled with missing='model' only."
    _unread = ()  # numeric columns without any information

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
        """Rows, labels, groups and random effects that the formula reads from a data frame."""
        self._formula = formula = Formula.learn(str(self.formula), X, y)
        formula.check(random, self.fit_intercept)
        rows, groups = formula.rows(X)
        return rows, X[formula.response] if y is None else y, groups, formula.random

    @classmethod
    def from_formula(
        cls: Any, formula: str, data: Any, *, sample_weight: Any = None, **params: Any
    ) -> Any:
        """Fit a formula such as ``"y ~ visit * treat"`` to a data frame.

        The model is the estimator with this ``formula``, fitted to the frame; it can be cloned and
        cross-validated on data frames.

        Parameters
        ----------
        formula : str
            In the syntax of the package formulae: columns (in backquotes if the name is not an
            identifier), operators, and functions such as ``C(x)``, ``scale(x)``, ``bs(x, df=4)``
            and ``np.log(x)``.  :class:`~bayesvm.MixedSVC` also accepts random effects: ``(1 | g)``,
            ``(1 + x | g)``, crossed ``(1 | a) + (1 | b)`` and nested ``(1 | a/b)``.
        data : pandas.DataFrame
            Data frame with the columns that the formula names, without missing values.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.
        **params
            Parameters of the estimator, other than ``random`` and ``fit_intercept``.

        Returns
        -------
        model : estimator
            The fitted model; its methods take a data frame with the same columns.
        """
        for name in ("random", "fit_intercept"):
            if name in params:
                raise ValueError(f"from_formula reads {name} from the formula; do not give it.")
        terms = described(formula, data).common_terms
        params["fit_intercept"] = any(not getattr(term, "components", ()) for term in terms)
        return cls(formula=formula, **params).fit(data, sample_weight=sample_weight)

    # ----- fitting

    def _with_latent_cells(self, data: Training, scheme: Any) -> Training:
        """Checked training rows with a distribution of missing cells.

        A sampler draws the cells of each copy of a row.
        """
        tables.check_in_memory(data.X, "missing='model'")
        if sparse.issparse(data.X):
            raise ValueError(
                "missing='model' needs dense rows: the distribution of the columns would fill "
                "sparse ones in. Give X.toarray(), or use missing='error'."
            )
        is_missing = np.isnan(data.X)
        never = np.flatnonzero(is_missing.all(axis=0))
        if never.size:
            raise ValueError(
                f"{never.size} column(s) have no observed value at all (first: "
                f"{', '.join(str(self._names()[j]) for j in never[:5])}), so nothing can be "
                "learned of them. Drop them."
            )
        if empty := int(is_missing.all(axis=1).sum()):
            warn(f"{empty} row(s) have every cell missing; they inform the intercept only.")
        return data.repeated() if isinstance(scheme, Gibbs) else data

    def _problem(self, data: Training, parts: check.Parts, effects: Sequence[Any] = ()) -> Problem:
        """The problem of training rows, with random ``effects`` of groups."""
        K = total = data.X.shape[1] + bool(self.fit_intercept)
        for part in effects:
            total += part.size * part.effects.r
        engine, blocks = in_blocks(self.engine, data.X, K, self.n_jobs, parts.scheme, total)
        columns: Any = fit_columns(blocks, data.c, engine, self.standardize, self.fit_intercept)
        if self._models_missing:
            design = self._latent(columns, blocks, engine, data.c, data.copies)
            complete = not np.isnan(arrays.inner(blocks.X)).any()
            columns = columns if complete and design.is_latent else design
        terms = [Term("intercept", Intercept(), parts.level)] if self.fit_intercept else []
        terms.append(Term("coef", columns, parts.prior))
        for part in effects:
            terms.append(part.term(columns))
        model = Model(tuple(terms), parts.likelihood)
        return build_problem(model, blocks, engine, parts.scheme, data.c, data.unit)

    # ----- missing cells

    def _latent(self, columns: Any, blocks: Any, engine: Any, c: Array, copies: Array) -> Any:
        """Columns with a distribution of missing cells."""
        seen = fit_columns(blocks, c, engine, standardize=True, distances=True)
        imputer = check.choose_imputer(self.missing, blocks.n, columns.width)
        return incomplete(columns, seen, imputer, blocks.X, copies)

    def _with_cells(self, fit: Fit, problem: Problem, X: Any) -> Fit:
        """The fit to complete rows ``X``, with a distribution for missing cells of new rows.

        Without missing cells in training, the fit does not depend on this distribution.
        """
        columns = problem.model.find("coef")[0].design
        if columns.is_incomplete:
            return fit
        blocks: Any = replace(problem.blocks, X=X, has_columns=False)
        copies = problem.copies
        design: Any = self._latent(columns, blocks, problem.engine, problem.c, copies)
        total = Serial().sum(
            lambda b, copies: design.sums(b.X, design.columns(b.X), copies, ()), blocks, copies
        )
        latent = TermLatents(fit_params(design, total), (), total, total)
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
            ascent = replace(machine.ascent, state=machine.ascent.state._replace(latents=latents))
            machines.append(replace(machine, model=model, posterior=post, ascent=ascent))
        return replace(fit, machines=machines)

    def impute(self, X: Any) -> tuple[Array, Array]:
        """Impute missing cells of rows without labels, from the other cells of each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows, with NaN for missing cells.

        Returns
        -------
        mean, std : arrays of shape (n, n_features)
            Expected value and standard deviation of each cell; 0 for observed cells.  For training
            cells given the labels too, see ``imputed_``.  :class:`~bayesvm.AdditiveSVC` omits group
            columns and returns NaN for columns that no term reads.
        """
        fit = self._fitted()
        mean, std = impute(fit.machines, self._read_new(X), self._no_cells)
        mean[:, self._unread] = np.nan
        return mean, std

    @property
    def imputed_(self) -> Imputed:
        """Missing cells of the training rows, given the other cells and the labels."""
        fit = self._fitted()
        return imputed(fit.machines, fit.rows, self._no_cells)

    # ----- reports

    @property
    def feature_importances_(self) -> Array:
        """Importance of each column of the input, independent of its unit, ``(n_features_in_,)``.

        The inclusion probability under a selection prior, else the absolute coefficient on the
        scale of the fit, averaged over classes; for a category the largest of its indicators.
        """
        machines = self._fitted().machines
        if machines[0].inclusion is not None:
            each = self.inclusion_proba_
        else:
            where = self._coef_term()[1]
            each = np.mean([np.abs(m.posterior.mean[where]) for m in machines], axis=0)
        return np.array([each[list(made)].max() for made in self.encoding_.made])


class BayesianLinearSVC(LinearClassifier):
    r"""Linear support vector machine with a posterior over its coefficients.

    .. math::

        f_i = \beta_0 + x_i^\top\beta, \qquad
        L(y_i \mid f_i) = \frac{1}{1 + e^{-y_i f_i}}, \qquad
        \beta_j \sim N(0, \sigma^2), \quad \sigma^2 \text{ chosen by leave-one-out.}

    One fit gives coefficients with intervals, a penalty, and calibrated probabilities without
    cross-validation.  ``likelihood="hinge"`` is the loss of a support vector machine; it has a
    higher log loss and intervals that are too narrow.

    Parameters
    ----------
    prior : str or an object of :mod:`bayesvm.priors`, default="auto"
        ``"auto"`` chooses the ridge penalty by evidence and leave-one-out log loss, or learns it in
        a joint fit of several classes; ``"ridge"`` learns it in every fit, as with Gibbs;
        ``"fixed"`` has precision 1.  ``"lasso"`` and ``"bridge"`` set coefficients to zero under
        EM; ``"spike_slab"`` and ``"laplace_zero"`` give each column an inclusion probability.
    inference : {"vb", "em", "svi", "gibbs"} or an object of :mod:`bayesvm.inference`, default="vb"
        Inference scheme.  ``"vb"`` maximises the tight bound if the prior is ``"auto"``, else the
        augmented bound, which underestimates standard deviations.
    likelihood : str or an object of :mod:`bayesvm.likelihoods`, default="logistic"
        Distribution (or pseudo-likelihood) of a label given f: ``"logistic"`` (and ``"auto"``),
        ``"probit"``, ``"hinge"``, ``"soft_hinge"`` or ``"skewed_laplace"``.  More than two classes
        have the multinomial likelihood under ``"logistic"``, else one binary model for each class
        against the rest.
    formula : str, optional
        Such as ``"y ~ age * sex + np.log(dose)"``, for a data frame X; see :meth:`from_formula`.
        ``fit_intercept`` must be False if the formula has no intercept.
    fit_intercept : bool, default=True
        Add an intercept, with a wide prior.  Without it f is ``X @ coef_``, and columns are scaled
        but not centred.
    categorical : {"auto", "error"} or list of names or positions, default="auto"
        Categorical columns, each level of which becomes an indicator: text, categories or booleans,
        and the listed columns.  ``"error"`` refuses columns that are not numeric.
    missing : {"auto", "error", "model"} or an object, default="auto"
        ``"auto"`` replaces missing cells by the column mean, and adds an indicator if 1 % or more
        are missing; ``"error"`` raises an error; ``"model"`` or an object of :mod:`bayesvm.designs`
        is a distribution that is learned with the coefficients (:doc:`/missing`).
    standardize : bool, default=True
        Centre and scale columns internally; sparse columns are only scaled, by the standard
        deviation over the square root of the share of nonzero entries.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: fitted to leave-one-out moments, the pseudo-likelihood
        normalised over labels, or :math:`\Phi(m/\sqrt{1+v})`.
    covariance : {"robust", "model"}, default="robust"
        Covariance of standard deviations and intervals: robust, corrected for shrinkage and
        calibration (:doc:`/intervals`), or the posterior covariance.  Predictions are the same.
    class_weight : dict, "balanced" or None, default=None
        Class weights, multiplied by ``sample_weight``.
    intercept_scale : float, optional
        Prior standard deviation of the intercept; 100 by default, ``inf`` for a flat prior.
    engine : {"auto", "serial", "threads", "dask", "gpu"} or an object, default="auto"
        Backend of the sums over rows, and their floating-point precision: see :mod:`bayesvm.data`.
        ``"auto"`` follows the input.
    max_iter, tol : int and float, optional
        Override the settings of the inference scheme.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random numbers.
    n_jobs : int, optional
        Threads over rows, and chains run in parallel under Gibbs.
    verbose : int, default=0
        1 shows progress.
    callbacks : list of callables, optional
        Called with a :class:`~bayesvm.inference.Progress` after every iteration; a return value of
        ``True`` ends the fit.
    warm_start : bool, default=False
        Start from the previous fit if the shapes agree.
    checkpoint : str or path, optional
        File with the state of a long fit, from which a later fit resumes.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (1, n_features) and (1,), or one row per class
        Posterior means (the point estimate under EM), on the scale of the input; for the
        multinomial likelihood, differences to the mean over classes.
    feature_importances_ : array of shape (n_features,)
        ``inclusion_proba_`` under a selection prior, else absolute standardised coefficients; for a
        categorical column the largest of its indicators.
    inclusion_proba_ : array of shape (n_features,)
        Selection priors: posterior inclusion probability (for any class).
    elbo_, elbo_path_ : float and array
        Lower bound on the log evidence under VB and SVI, summed over binary models, and its history
        (a list if classes were fitted one by one).
    log_posterior_, log_posterior_path_, log_likelihood_path_
        The log posterior density under EM; the log pseudo-likelihood of the draws under Gibbs.
    kkt_residual_, duality_gap_ : float
        EM with the hinge: relative distance from the optimum.
    classes_ : array of shape (n_classes,)
        Labels.
    offset_ : array of shape (1,) or (n_classes,)
        Shift of f by the calibration, applied before the sign is taken.
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

    @one_blas_thread
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianLinearSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features), or a source of :mod:`bayesvm.data`
            Rows; NumPy, SciPy sparse, pandas or polars, or files that are read in blocks.  With
            ``formula``, a pandas data frame with its columns.
        y : array-like of shape (n,) or (n, n_classes)
            Labels, two or more distinct, or probabilities of the classes; not needed if the source
            has them, or if the formula's left side is a column of the frame.
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
        run = self._run()
        parts = check.choose_parts(self)
        data = self._read_training(X, y, sample_weight)
        if self._models_missing:
            data = self._with_latent_cells(data, parts.scheme)
        problem = self._problem(data, parts)
        starts = warm_starts(self, problem, len(data.classes)) if self.warm_start else []
        limit = None if self._models_missing else np.inf
        fit, moments = fit_models(run, problem, data, parts.scheme, starts, joint=True)
        fit = fit.with_left_out(moments, limit)
        if self._models_missing:
            fit = self._with_cells(fit, problem, data.X)
        self._stream = None
        return self._keep(fit, run)

    # ----- streams

    def _check_stream(self) -> None:
        if self.formula is not None:
            raise ValueError("partial_fit takes no formula; give it the columns themselves.")
        check.check_streamed(check.choose_parts(self, SVI()).likelihood)

    @available_if(streamable)
    @one_blas_thread
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, buffer: int = 2000
    ) -> BayesianLinearSVC:
        """Learn from the next rows of a stream.

        Up to ``buffer`` rows, a call refits all rows so far.  Afterwards, or from the first call
        after ``fit``, the posterior of the coefficients becomes the prior of the next rows
        (streaming variational Bayes); the penalty and the scaling of columns stay fixed.
        Probabilities are calibrated by leave-one-out predictions of the most recent rows.

        More than two classes have one binary model each against the rest, and one link.  Callbacks
        are called once per call and class.  There is no ``checkpoint``: save the model.

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
            Number of rows to store: all rows of shorter streams; for longer ones the most recent
            rows, equally many of each class.

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

        # under other likelihoods the scale of f differs between classes
        softmax = parts.likelihood.is_logit and self.probability == "calibrated"
        setup = Setup(parts.scheme, partial(self._problem, parts=parts), softmax)
        return advance(self, setup, X, y, classes, sample_weight, buffer)
