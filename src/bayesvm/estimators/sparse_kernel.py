"""Sparse kernel classifiers: probabilistic classification and relevance vector machines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.arrays import one_against_rest
from ..core.parameters import check_parameters, is_among, warn
from ..core.types import Array, Coef, Term
from ..data import Blocks, Serial, block_rows, tables
from ..data.engines import one_blas_thread
from ..data.labels import Training
from ..designs import Basis, Chosen, Intercept, Standardised, fit_columns
from ..gp.sites import Distinct, extent_of, merge
from ..inference.model import Model, State
from ..inference.progress import Ascent, Progress, stream
from ..inspection.arviz import Draws
from ..inspection.tables import gaussian_table, pandas_for
from ..kernels import Kernel, Scaled, with_columns, with_groups
from ..kernels.precomputed import skew
from ..likelihoods import Logistic, Probit
from ..linalg.covariances import RootCovariance
from ..predictive.fitted import BinaryModel, Fit
from ..predictive.leave_one_out import LooMoments
from ..predictive.links import CalibratedLink, ProbitLink, plain_link
from ..predictive.posterior import GaussianPosterior
from ..priors import Fixed
from ..priors.gaussian import intercept_prior
from ..sparse_kernel import Power, convex, pcvm, rvm
from ..sparse_kernel.data import (
    Journal,
    MergedRows,
    Result,
    choose_candidates,
    has_length_scale,
    tune_kernel,
)
from ..sparse_kernel.newton import PROBIT
from .base import BayesianClassifier
from .options import check_positive, choose, choose_kernel
from .predictions import draw_f


class VectorData(NamedTuple):
    """The rows of a fit and the initial kernel; without inputs if kernel values are given."""

    rows: MergedRows
    first: Array  # (rows,) index of the first training row of each merged row
    inputs: Standardised | None
    kernel: Any
    per_column: bool  # whether columns may have separate length scales


class VectorClassifier(BayesianClassifier):
    """Base class of the sparse kernel classifiers."""

    _accept_sparse = False
    _knows_novelty = False
    _by_label = True  # whether a point with two labels gives two candidates
    _maximised: str  # name of the objective
    _likelihood: Any

    kernel: Any
    tune: bool
    standardize: bool
    n_candidates: Any
    intercept_scale: float | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_among(self.kernel, ("precomputed",))
        tags.input_tags.allow_nan &= not tags.input_tags.pairwise
        return tags

    def _on_device(self) -> bool:
        return False  # kernel values are computed on the host

    # ----- fitting

    @abstractmethod
    def _check(self) -> Any:
        """The checked settings of the solver."""

    @abstractmethod
    def _solve(
        self, settings: Any, rows: MergedRows, kernel: tuple[Any, float | None],
        journal: Journal, rng: np.random.Generator,
    ) -> Result:  # fmt: skip
        """The binary models for a tuned kernel, with its amplitude."""

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, n) if precomputed
            Observations.
        y : array-like of shape (n,) or (n, n_classes)
            Labels, two or more distinct, or probabilities of the classes.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : PCVC or RVC
            The fitted estimator.
        """
        tables.check_in_memory(X, type(self).__name__, ("memory", "device"))
        run, settings = self._run(), self._check()
        training = self._read_training(X, y, sample_weight)
        rng = stream(0, "vectors") if self.random_state is None else run.generator("vectors")
        data = self._merge(training, rng)
        rows, kernel, amplitude = data.rows, data.kernel, None
        store = run.checkpoint(lambda: [rows.points, rows.at, rows.c, rows.codes])
        journal = Journal(run, store)
        if self.tune and has_length_scale(kernel):
            how = (data.per_column, rows, self.standardize, journal)
            kernel, amplitude = tune_kernel(kernel, *how)
        result = self._solve(settings, rows, (kernel, amplitude), journal, rng)
        return self._keep(self._describe(result, data, training, run.stopped), run)

    @property
    def _bias(self) -> Fixed:
        """Prior of the bias: by default nearly flat."""
        return intercept_prior(self.intercept_scale, Fixed(1e-8))

    @property
    def _bias_precision(self) -> float:
        return max(float(self._bias.precision), 1e-24)  # the evidence requires a proper prior

    def _merge(self, training: Training, rng: np.random.Generator) -> VectorData:
        """Merge equal rows; choose candidates and the initial kernel."""
        codes, c = training.codes, training.c
        unit = np.broadcast_to(training.unit, c.shape)
        inputs, kernel, named = None, None, False
        if is_among(self.kernel, ("precomputed",)):
            values = np.asarray(training.X)[:, training.rows]
            if gap := skew(values):
                warn(
                    f"the matrix of kernel values differs from its transpose by up to {gap:.3g}. "
                    "Entry (i, j) is taken as the value at row i of the function of vector j, "
                    "which need not be symmetric; if it should be, give (K + K.T) / 2."
                )
                each = np.arange(c.size)  # the columns of equal rows may differ
                data = Distinct(values.astype(float), each, codes, c, each, unit)
            else:
                # Rows with the same kernel values are the same row.  Points are ordered by their
                # kernel values with each other, which do not change when rows are repeated.
                _, first, at = np.unique(values, axis=0, return_index=True, return_inverse=True)
                data = merge(values[np.ix_(first[at.reshape(-1)], first)], codes, c, unit)
                first = np.unique(data.at[data.back], return_index=True)[1]
                data = data._replace(X=values[np.ix_(first, first)])
            points = data.X
        else:
            data, encoding = merge(training.X, codes, c, unit), self.encoding_
            blocks = Blocks(data.X[data.at], block_rows(data.X.shape[1]))
            inputs = fit_columns(blocks, data.c, Serial(), self.standardize, distances=True)
            inputs = inputs.with_units(encoding.scales if self.standardize else None)
            points = inputs.columns(data.X)
            extent = extent_of(points, self.standardize, encoding.groups)
            kernel, named = choose_kernel(self.kernel, extent)
            kernel = with_groups(kernel, encoding.groups)
            kernel = kernel.kernel if named and isinstance(kernel, Scaled) else kernel
            last: Any = self.__dict__.get("kernel_") if self.warm_start else None
            wide = with_columns(kernel, data.X.shape[1])
            if type(last) is type(kernel) and last.names in (kernel.names, wide.names):
                kernel, named = last, False
        candidates = choose_candidates(data, self.n_candidates, self._by_label, rng)
        rows = MergedRows(
            points=points,
            at=data.at,
            c=data.c,
            codes=data.codes,
            labels=list(one_against_rest(data.codes, len(training.classes))),
            candidates=candidates,
            by_label=self._by_label,
            unit=data.unit,
        )
        first = np.unique(data.back, return_index=True)[1]
        return VectorData(rows, first, inputs, kernel, named)

    def _describe(self, result: Result, data: VectorData, training: Training, stopped: bool) -> Fit:
        """The fit, a binary model for each class, and attributes of the vectors.

        Warns if a binary model has no vectors.
        """
        used = np.unique(np.concatenate([s.columns for s in result.sparse]).astype(int))
        rows = data.rows.candidates[used]
        support = data.first[rows]
        design: Any = Chosen(training.rows[support])
        if data.inputs is not None:
            design = Basis(data.inputs, result.kernel, data.rows.points[data.rows.at[rows]])
        terms = (Term("bias", Intercept(), self._bias), Term("vectors", design, Fixed(1.0)))
        model, machines = Model(terms, self._likelihood), []
        for sparse, held_out in zip(result.sparse, result.held_out, strict=True):
            columns = np.append(1 + np.searchsorted(used, sparse.columns), 0)
            mean, root = np.zeros(1 + used.size), np.zeros((1 + used.size, columns.size))
            mean[columns], root[columns] = sparse.mean, sparse.covariance().root
            coef = Coef(mean, RootCovariance(root))
            link: Any = plain_link(self.probability, self._likelihood)
            if link is None:
                link = ProbitLink() if held_out is None else CalibratedLink.fit(*held_out)
            ended = (sparse.value, sparse.path, sparse.n_iter, sparse.converged, sparse.change)
            ascent = Ascent(State(coef, ()), *ended)
            machines.append(BinaryModel(model, GaussianPosterior(coef), ascent, link))
        fit = Fit(
            machines, training.classes, training.masses, training.chosen, stopped, self._maximised
        )
        moments = [part for part in result.held_out if part is not None]
        if len(moments) == len(machines):
            fit = fit.with_left_out(LooMoments.of(moments))
        self.kernel_ = "precomputed" if result.kernel is None else result.kernel
        self.support_, self.vectors_ = training.rows[support], training.X[support]
        means = np.stack([machine.posterior.mean for machine in machines])
        self.dual_coef_, self.intercept_ = means[:, 1:], means[:, 0]
        self.n_vectors_ = int(used.size)
        self.empty_ = any(sparse.columns.size == 0 for sparse in result.sparse)
        if self.empty_:
            warn(
                "no vector was kept: the classifier predicts about the classes' frequencies "
                "everywhere. Its kernel may not separate the classes, or its length scale is off.",
                ConvergenceWarning,
            )
        return fit

    # ----- reports

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draws of the weights, ``(n, n_vectors)``, or of f at rows ``X``.

        Shapes are as in :meth:`BayesianLinearSVC.sample_posterior`.  Draws are from the
        Gaussian approximation of the posterior, which ignores sign constraints.
        """
        if X is not None:
            return np.asarray(draw_f(self, n, X, random_state))
        machines, rng = self._fitted().machines, self._generator(random_state, n)
        draws = np.stack([m.posterior.sample(n, rng)[:, 1:] for m in machines], axis=1)
        return draws[:, 0] if len(machines) == 1 else draws

    def _drawn(self, thetas: Sequence[Array], X: Any) -> Draws:
        group = {
            "intercept": [t[..., 0] for t in thetas],
            "dual_coef": [t[..., 1:] for t in thetas],
        }
        return group, {"intercept": [], "dual_coef": ["vector"]}, {"vector": self.support_}

    def summary(self, level: float = 0.9) -> Any:
        """The vectors as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        frame : pandas.DataFrame
            One row per vector, largest weight first, indexed by its training row: weight, sd, and
            the ends of the interval, lower and upper, by the Gaussian approximation (with more than
            two classes, these columns for every class).
        """
        pd, fit = pandas_for("summary"), self._fitted()
        names = [""] if fit.is_binary else [f" {k}" for k in fit.classes]
        table: dict[str, Array] = {}
        for name, machine in zip(names, fit.machines, strict=True):
            mean, sd = machine.posterior.mean[1:], np.sqrt(machine.posterior.variance()[1:])
            parts = gaussian_table(mean, sd, level).values()
            heads = (f"{head}{name}" for head in ("weight", "sd", "lower", "upper"))
            table |= dict(zip(heads, parts, strict=True))
        frame = pd.DataFrame(table, index=pd.Index(self.support_, name="row"))
        return frame.iloc[np.argsort(-np.abs(self.dual_coef_).max(axis=0), kind="stable")]


@dataclass(eq=False, repr=False)
class PCVC(VectorClassifier):
    r"""Probabilistic classification vector machine: sparse, each weight has its label's sign.

    .. math::

        f(x) = \sum_j w_j k(x, x_j) + b, \qquad p(y \mid f) = \Phi(yf), \qquad y_j w_j \ge 0 .

    The weight of a vector has the sign of its label.  With the default prior,

    .. math:: -\log p(w) = \tau\sum_j|w_j| + \tfrac12\lambda\, w^\top K w + \text{const},

    the fit is a convex problem: *f* is the mode of a Gaussian process, made sparse
    (:doc:`/vector_machines`).  ``weight_prior="power"`` is the prior of the paper.

    Parameters
    ----------
    kernel : str, object of :mod:`bayesvm.kernels`, callable or "precomputed", default="rbf"
        ``"rbf"``, ``"matern"``, ``"linear"`` or ``"poly"``, with one length scale or one per
        column; a kernel object, where tuning starts; a function of two arrays; or
        ``"precomputed"``: X is the kernel matrix with the training rows (if it is not symmetric
        there is no norm, as with ``norm_penalty=0``).
    weight_prior : "laplace", "power" or bayesvm.sparse_kernel.Power, default="laplace"
        The one-sided prior of weights.  ``"power"`` is ``Power()``, the paper's
        :math:`p(w) \propto |w|^{-(2c+1)}`: sparser, with local maxima, so several starts are tried.
        The object also offers the paper's Student prior and its prior of the bias.
    rate : float, optional
        The rate :math:`\tau`, which controls sparsity; chosen by default.
    norm_penalty : float, optional
        The penalty :math:`\lambda` of the squared norm of f; by default chosen by leave-one-out log
        loss.  At 0 only the rate regularises f; it is then chosen by cross-validation.
    tune : bool, default=True
        Learn the length scales by the evidence of a logistic Gaussian process with the same kernel.
        Under ``"power"`` Gauss-Newton steps then update them together with the weights.
    selection : {"best", "one_standard_error"}, default="best"
        Remove vectors while f is close to the Gaussian process (``"best"``) or, for fewer vectors,
        while the leave-one-out log loss is within one standard error of the lowest.
    n_folds : int, default=5
        Number of folds, for the power prior and for ``norm_penalty=0``.
    n_candidates : int or "auto", default="auto"
        Number of rows that may become vectors, drawn from every class; ``"auto"`` is at most 3000,
        and fewer beyond 10,000 rows (1,000 of 30,000; at least 500).
    categorical, missing
        As in :class:`~bayesvm.BayesianSVC`.
    standardize : bool, default=True
        Centre and scale columns internally; length scales are then in standard deviations.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: fitted to held-out rows, or, by either of the other names,
        the model's own :math:`\Phi(m/\sqrt{1+v})`.
    class_weight : dict, "balanced" or None, default=None
        Class weights, multiplied by ``sample_weight``.
    intercept_scale : float, optional
        Prior standard deviation of the bias; 1e4, nearly flat, by default.
    engine : {"auto", "serial", "threads"} or an object, default="auto"
        Backend of the predictions: see :mod:`bayesvm.data`.
    max_iter, tol : int and float, optional
        Under the power prior: maximum number of iterations, by default 500, and the relative change
        of weights below which to stop, by default 1e-5.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the rows that choose the norm (beyond 1,000) and of candidates (beyond 3,000).
        ``None`` is one fixed seed: equal data give equal fits.
    n_jobs, verbose, callbacks, warm_start, checkpoint
        As in :class:`~bayesvm.BayesianLinearSVC`.  A warm start begins at the kernel of the
        previous fit.

    Attributes
    ----------
    vectors_, support_ : arrays of shape (n_vectors, n_features) and (n_vectors,)
        The vectors, on the scale of the input, and their rows in the training data.
    dual_coef_, intercept_ : arrays of shape (1, n_vectors) and (1,), or one row per class
        Weights and bias.
    n_vectors_ : int
        Number of vectors (of all classes together).
    kernel_ : object of :mod:`bayesvm.kernels`
        The kernel with its learned length scale, on the standardised scale.
    rate_, norm_penalty_ : arrays of shape (1,) or (n_classes,)
        Rates used to choose vectors, and penalties of the norm; not defined under the power prior.
    empty_ : bool
        Whether a binary model has no vectors.
    log_posterior_, log_posterior_path_ : float and array
        Log posterior density up to a constant (summed over binary models), and its history.
    classes_, offset_, n_iter_, converged_
        As for :class:`~bayesvm.BayesianSVC`.

    See Also
    --------
    RVC : the relevance vector machine, whose weights can have either sign.

    References
    ----------
    Chen, Tiňo & Yao (2009), *Probabilistic classification vector machines*.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from bayesvm import PCVC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = PCVC().fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.n_vectors_ < 60
    (True, True)
    >>> bool(np.all(np.sign(model.dual_coef_[0]) == np.where(y[model.support_] == 1, 1, -1)))
    True
    """

    kernel: Any = "rbf"
    _: KW_ONLY
    weight_prior: Any = "laplace"
    rate: float | None = None
    norm_penalty: float | None = None
    tune: bool = True
    selection: str = "best"
    n_folds: int = 5
    n_candidates: Any = "auto"
    categorical: Any = "auto"
    missing: Any = "auto"
    standardize: bool = True
    probability: str = "calibrated"
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

    _maximised = "log_posterior"
    _likelihood = PROBIT

    def _power(self) -> Power | None:
        """The power prior; ``None`` for the Laplace prior."""
        table = {"laplace": None, "power": Power()}
        prior: Power | None = choose("weight_prior", self.weight_prior, table, Power)
        return prior

    def _idle(self) -> dict[str, str]:
        if (power := self._power()) is not None:
            names = ("rate", "norm_penalty", "selection")
            idle = dict.fromkeys(names, "under weight_prior='power'")
            if power.bias_shape is not None:
                idle["intercept_scale"] = "where the prior has a bias_shape"
            return idle
        why = "under weight_prior='laplace', a convex problem; 'power' uses such settings"
        idle = dict.fromkeys(("max_iter", "tol"), why)
        if self.rate is not None:
            idle["selection"] = "where rate is given, which then chooses the vectors"
        function = callable(self.kernel) and not isinstance(self.kernel, Kernel)
        if self.norm_penalty != 0 and not function and not is_among(self.kernel, ("precomputed",)):
            idle["n_folds"] = "under weight_prior='laplace' unless norm_penalty=0"
        return idle

    def _check(self) -> Any:
        """The checked settings of the prior's solver."""
        check_parameters({"tune": self.tune}, type(self).__name__, tune=["boolean"])
        power, bias = self._power(), self._bias_precision
        if self.norm_penalty:
            check_positive("norm_penalty", self.norm_penalty, 1e-12, 1e12)
        if power is None:
            few = self.selection == "one_standard_error"
            rate = None if self.rate is None else float(self.rate)
            return convex.Settings(rate, self.norm_penalty, few, self.n_folds, bias)
        tol = 1e-5 if self.tol is None else self.tol
        max_iter = 500 if self.max_iter is None else self.max_iter
        return pcvm.Settings(power, self.tune, self.n_folds, tol, max_iter, bias)

    def _solve(
        self, settings: Any, rows: MergedRows, kernel: tuple[Any, float | None],
        journal: Journal, rng: np.random.Generator,
    ) -> Result:  # fmt: skip
        for name in ("rate_", "norm_penalty_"):  # left by an earlier fit under another prior
            self.__dict__.pop(name, None)
        if isinstance(settings, pcvm.Settings):
            return pcvm.fit_machines(kernel[0], rows, journal, settings)
        where = (kernel[0], rows, journal, rng, settings, kernel[1])
        result, self.rate_, self.norm_penalty_ = convex.fit_machines(*where)
        return result


RVC_LIKELIHOODS = {"auto": Probit(), "probit": Probit(), "logistic": Logistic()}


@dataclass(eq=False, repr=False)
class RVC(VectorClassifier):
    r"""Relevance vector machine for classification.

    .. math::

        f(x) = \sum_j w_j k(x, x_j) + b, \qquad p(y \mid f) = \Phi(yf), \qquad
        w_j \sim N(0, 1/\alpha_j),

    where each :math:`\alpha_j` maximises the evidence.  Most become infinite, which removes their
    vectors.

    Parameters
    ----------
    kernel : str, object of :mod:`bayesvm.kernels`, callable or "precomputed", default="rbf"
        As in :class:`~bayesvm.PCVC`.  It need be neither positive definite nor symmetric; a matrix
        that is not symmetric gives a warning.
    solver : {"sequential", "em"}, default="sequential"
        ``"sequential"`` adds, re-estimates and deletes one vector at a time (Tipping & Faul 2003),
        from two starts, and returns the result with more evidence; ``"em"`` starts with all vectors
        and prunes (Tipping 2001), as in the comparisons of Chen et al.
    likelihood : {"auto", "probit", "logistic"} or an object of these, default="probit"
        :math:`\Phi(yf)` (also ``"auto"``), as in Chen et al., or Tipping's
        :math:`1/(1 + e^{-yf})`; they differ little.
    tune : bool, default=True
        Learn the length scales by the evidence of a logistic Gaussian process with the same kernel.
    n_folds : int, default=5
        Number of folds for calibrating the probabilities if the kernel is tuned.
    n_candidates, categorical, missing, standardize
        As in :class:`~bayesvm.PCVC`.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: fitted to held-out rows (leave-one-out moments without
        tuning); the likelihood averaged over f; or :math:`\Phi(m/\sqrt{1+v})`.
    class_weight, intercept_scale, engine
        As in :class:`~bayesvm.PCVC`.
    max_iter, tol : int and float, optional
        Maximum number of rounds, by default 1000, and the gain in log evidence (over ten rounds
        under ``"em"``) below which to stop, by default 1e-3.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random choice of candidates.  ``None`` is one fixed seed: equal data give equal
        fits.
    n_jobs, verbose, callbacks, warm_start, checkpoint
        As in :class:`~bayesvm.BayesianLinearSVC`.  A warm start begins at the kernel of the
        previous fit.

    Attributes
    ----------
    vectors_, support_, dual_coef_, intercept_, n_vectors_, kernel_, empty_
        As for :class:`~bayesvm.PCVC`; weights and bias are posterior means.
    log_evidence_, log_evidence_path_ : float and array
        Log evidence by Laplace's approximation (summed over binary models), and its history.
    classes_, offset_, n_iter_, converged_
        As for :class:`~bayesvm.BayesianSVC`.

    References
    ----------
    Tipping (2001), *Sparse Bayesian learning and the relevance vector machine*; Tipping & Faul
    (2003), *Fast marginal likelihood maximisation for sparse Bayesian models*.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bayesvm import RVC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = RVC().fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.n_vectors_ < 20
    (True, True)
    """

    kernel: Any = "rbf"
    _: KW_ONLY
    solver: str = "sequential"
    likelihood: Any = "probit"
    tune: bool = True
    n_folds: int = 5
    n_candidates: Any = "auto"
    categorical: Any = "auto"
    missing: Any = "auto"
    standardize: bool = True
    probability: str = "calibrated"
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

    _by_label = False
    _maximised = "log_evidence"

    def _idle(self) -> dict[str, str]:
        if self.probability == "calibrated" and self.tune:
            return {}
        why = "unless tune=True and probability='calibrated', for which folds are made"
        return {"n_folds": why}

    def _check(self) -> rvm.Settings:
        check_parameters({"tune": self.tune}, type(self).__name__, tune=["boolean"])
        return rvm.Settings(
            self.solver,
            self._likelihood,
            self.n_folds if self.tune and self.probability == "calibrated" else 0,
            self._bias_precision,
            1e-3 if self.tol is None else self.tol,
            1000 if self.max_iter is None else self.max_iter,
        )

    @property
    def _likelihood(self) -> Any:
        return choose("likelihood", self.likelihood, RVC_LIKELIHOODS, Probit, Logistic)

    def _solve(
        self, settings: Any, rows: MergedRows, kernel: tuple[Any, float | None],
        journal: Journal, rng: np.random.Generator,
    ) -> Result:  # fmt: skip
        return rvm.fit_machines(kernel[0], rows, journal, settings)

    @property
    def log_evidence_(self) -> float:
        """Log evidence by Laplace's approximation, summed over binary models."""
        return self._fitted().bound

    @property
    def log_evidence_path_(self) -> Any:
        """History of ``log_evidence_``; for more than two classes, a list of histories."""
        return self._fitted().path
