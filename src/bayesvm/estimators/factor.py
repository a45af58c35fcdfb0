"""The discriminative factor model: features and margin learned together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._set_output import _wrap_data_with_container
from sklearn.utils.validation import check_is_fitted

from ..blocks import Blocks, block_rows
from ..core.types import Array, Term
from ..designs import Intercept, Standardised
from ..designs.columns import FAR, RAW_FAR, column_moments
from ..engines import Serial
from ..factors.design import FactorScores
from ..factors.fitted import Fitted, LinearDraws, LinearFit, ProjectedScores
from ..factors.learn import choose_size, fit_kernel
from ..factors.loadings import FactorPrior, Loadings, learn, rank
from ..factors.sheet import Sheet
from ..files.checkpoint import opened
from ..inference import VB, Gibbs
from ..inference.progress import Progress
from ..inputs import cells, reading
from ..inputs.parameters import is_among
from ..machines.diagnostics import r_hat
from ..machines.machine import AGREED, Machine
from ..model.model import Model, Problem
from ..priors import Fixed
from ..processes.points import merge
from ..reports.factors import LoadingReport
from . import choices as check

CHAINS = {"linear": Gibbs(draws=600, burn_in=300, chains=2), "kernel": Gibbs(200, 100, 2)}
CLIMBS = {"linear": VB(max_iter=500, tol=1e-5), "kernel": VB(max_iter=200, tol=1e-5)}


class FactorSVC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LoadingReport):  # type: ignore[misc]
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
        ``"vb"``: variational Bayes (linear), or variational EM with scores at a point (kernel),
        after which f is fitted once more at the scores that rows have without their label.  It
        stands for ``VB(max_iter=500, tol=1e-5)`` (linear) and ``VB(max_iter=200, tol=1e-5)``
        (kernel): the last digits of ``VB()``, whose tolerance is 1e-8, take hundreds of passes.
        ``"gibbs"`` draws everything; 900 sweeps of the linear machine and 300 of the kernel
        machine in each of two chains, unless a :class:`~bayesvm.inference.Gibbs` says otherwise.
        Of the kernel machine's draws about a hundred at most are kept, evenly spaced.
    likelihood : {"hinge", "logistic", "probit"} or an object, default="hinge"
        The density of a label given f.
    kernel : str or object of :mod:`bayesvm.kernels`, default="rbf"
        Of scores in units of their spread; a name starts from a length scale of
        :math:`\sqrt K` and a variance of 4.  One length scale per factor gives a relevance to each.
    tune : bool, default=True
        Learn the kernel's parameters, under a prior around where they start (a quarter of a unit of
        the logarithm).
    prior : str or an object of :mod:`bayesvm.priors`, default="fixed"
        Of the linear machine's coefficients.  ``"lasso"`` selects factors.
    nu : float or None, default=1.0
        Rate of the loadings' variances: larger values make loadings smaller and sparser.  ``None``
        learns it (not for the kernel machine by VB, whose scores are a point).  With many more
        columns than rows it sets the scale of the scores: learned, they have about unit spread.
    joint : bool, default=True
        ``False`` is the two-step procedure, for comparison: factors from the columns alone, then
        the machine on their scores.
    label_weight : float, default=1.0
        How often each label counts.  Raising it to make up for many columns moves training scores
        to fit labels and does not help new rows.
    bias : float, default=3.0
        Prior standard deviation of the level of f.
    standardize : bool, default=True
        Scale columns inside (they are always centred); loadings are reported on the scale of the
        input.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities; see :class:`BayesianSVC`.  It is fitted at the scores that
        rows would have without their label.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes: how often their labels count, not their columns.
    max_iter, tol : optional
        Most iterations and tolerance of the variational fit.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything drawn.
    n_jobs : int, optional
        Chains run in parallel.
    verbose : int, default=0
        1 shows progress.
    callbacks : list of callables, optional
        Each is called with a :class:`~bayesvm.inference.Progress` after every iteration; returning
        ``True`` ends the fit there.
    checkpoint : str or path, optional
        File that holds the chains of the kernel machine under Gibbs, the one fit that is long; a
        later fit with the same file goes on from it.  Chains then run one after another.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels.
    n_factors_ : int
        Number of factors of each machine: ``n_factors``, or the rank of the table if that is less.
    loadings_, loadings_std_ : arrays of shape (n_features, n_factors)
        Posterior mean and standard deviation on the scale of the input; zero for columns that were
        constant in training, which are left out.  Factors are ordered by the variance they explain;
        the largest loading of each is positive.  The linear machine of more than two classes has
        factors of its own for each class, one after another.
    noise_precision_ : array of shape (n_features,)
        Of each column, on the scale of the input; infinite for constant columns.
    mean_, scale_ : arrays of shape (n_features,)
        Of the columns; the scale is one for constant columns and if columns are not standardised.
    factor_relevance_ : array of shape (n_factors,)
        Share of each factor in the squared slope of f; they sum to one (for each class, if classes
        have their own).
    elbo_, elbo_path_ : float, array
        Lower bound on the log evidence and its history; log pseudo-likelihoods under Gibbs.
    offset_ : array of shape (1,) or (n_classes,)
        What calibration adds to f before the sign is taken.
    n_iter_, converged_ : int, bool
        Iterations made, and whether the stopping rule was met.

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

    _accept_sparse: Any = False
    engine = "serial"  # few rows: nothing to share

    def __init__(
        self,
        n_factors: Any = 10,
        classifier: str = "kernel",
        inference: Any = "vb",
        likelihood: Any = "hinge",
        *,
        kernel: Any = "rbf",
        tune: bool = True,
        prior: Any = "fixed",
        nu: float | None = 1.0,
        joint: bool = True,
        label_weight: float = 1.0,
        bias: float = 3.0,
        standardize: bool = True,
        probability: str = "calibrated",
        class_weight: Any = None,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.n_factors = n_factors
        self.classifier = classifier
        self.inference = inference
        self.likelihood = likelihood
        self.kernel = kernel
        self.tune = tune
        self.prior = prior
        self.nu = nu
        self.joint = joint
        self.label_weight = label_weight
        self.bias = bias
        self.standardize = standardize
        self.probability = probability
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _kind(self) -> dict[str, Any]:
        return super()._kind() | {"ensure_all_finite": "allow-nan"}

    # ----- fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FactorSVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows; NumPy, pandas or polars.  NaN marks a missing cell.
        y : array-like of shape (n,)
            Labels, two or more distinct.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : FactorSVC
            The fitted estimator.
        """
        scheme = self._scheme()
        reading.check_in_memory(X, "FactorSVC")
        X, y = self._read(X, y, reset=True)
        classes, codes = np.unique(y, return_inverse=True)
        c = reading.check_weights(sample_weight, self.class_weight, codes, classes)
        copies = reading.check_weights(sample_weight, None, codes, classes)
        reading.check_two_sided(codes, c, classes)
        self.classes_ = classes
        rows = np.flatnonzero(c > 0)
        if check.is_sampler(scheme):  # each copy of a row has scores of its own
            rows = np.repeat(rows, reading.whole(copies[rows]))
            c, copies = c / np.maximum(copies, 1e-300), np.ones_like(copies)
            X, codes, c, copies = X[rows].astype(float), codes[rows], c[rows], copies[rows]
        else:
            X, codes, c, copies = _merged(X[rows].astype(float), codes[rows], c[rows], copies[rows])
        self._scale_columns(X, copies)
        sheet = Sheet.of(self._scaled(X), copies)
        with check.blas_threads(sheet.n, "dense"):
            machines = self._learn(sheet, codes, self.label_weight * c, scheme)
        self._conclude(machines)
        self._report()
        return self

    def _scheme(self) -> Any:
        """The scheme, and everything that can be checked before data are seen."""
        if not is_among(self.classifier, CLIMBS):
            raise ValueError(
                f"classifier={self.classifier!r} is not known; choose 'kernel' or 'linear'."
            )
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed' has no meaning for FactorSVC, whose kernel sees factors that "
                "are learned; use BayesianSVC."
            )
        if not isinstance(self.tune, bool):
            raise ValueError(f"tune must be True or False; got {self.tune!r}.")
        given = self.inference
        named = {"vb": CLIMBS[self.classifier], "gibbs": CHAINS[self.classifier]}
        given = named.get(given, given) if isinstance(given, str) else given
        scheme = check.choose_scheme(given, self.max_iter, self.tol)
        if not isinstance(scheme, VB | Gibbs):
            raise ValueError(
                f"a factor model is fitted by inference='vb' or 'gibbs'; got {self.inference!r}."
            )
        drawn = check.is_sampler(scheme)
        if drawn and not self.joint:
            raise ValueError("joint=False is a comparison by inference='vb'; use that.")
        if self.nu is None and self.classifier == "kernel" and not drawn:
            raise ValueError(
                "nu=None cannot be learned with scores at a point, which would shrink without end; "
                "give a number, or use classifier='linear' or inference='gibbs'."
            )
        if self.checkpoint is not None and not (drawn and self.classifier == "kernel"):
            raise ValueError(
                "a checkpoint holds the chains of classifier='kernel' with inference='gibbs'; "
                "other fits are short. Leave checkpoint out."
            )
        check.check_probability(self.probability)
        # whether or not this classifier has them
        check.choose_likelihood(self.likelihood, scheme)
        check.choose_prior(self.prior, scheme)
        check.choose_kernel(self.kernel, 1.0)
        check.check_positive("label_weight", self.label_weight, 1e-6, 1e6)
        for name in ("bias", *(() if self.nu is None else ("nu",))):
            check.check_positive(name, getattr(self, name), 1e-6, 1e6)
        return scheme

    def _scale_columns(self, X: Array, copies: Array) -> None:
        """Mean and spread of the cells seen, and which columns vary."""
        unseen = np.asarray(np.isnan(X).all(axis=0))
        if unseen.any():
            raise ValueError(
                f"columns with no cell that was seen cannot load on a factor: "
                f"{self._named(unseen)}. Drop them."
            )
        blocks = Blocks(X, np.empty(copies.size), copies, block_rows(X.shape[1]))
        self.mean_, spread, constant = column_moments(blocks, Serial())
        self._varies = ~constant
        if not self._varies.any():
            raise ValueError(
                "all columns have the same value in every row, so that there is no factor. "
                "Give columns that vary."
            )
        self.scale_ = np.where(self._varies & self.standardize, spread, 1.0)

    def _named(self, which: Array) -> str:
        """The first of some columns."""
        at = np.flatnonzero(which)
        shown = ", ".join(str(self._names()[j]) for j in at[:5])
        return shown + (f" and {at.size - 5} more" if at.size > 5 else "")

    def _scaled(self, X: Array) -> Array:
        """Columns that vary, centred and scaled."""
        far = FAR if self.standardize else RAW_FAR
        columns = Standardised(self.mean_, self.scale_, far).columns(X)
        return np.asarray(columns)[:, self._varies]

    def _size(self, sheet: Sheet, prior: FactorPrior) -> int:
        K = self.n_factors
        if isinstance(K, str) and K == "auto":
            return choose_size(prior, sheet)
        if not isinstance(K, Integral) or isinstance(K, bool) or int(K) < 1:
            raise ValueError(f"n_factors must be a whole number, 1 or more, or 'auto'; got {K!r}.")
        return min(int(K), rank(sheet))

    def _learn(self, sheet: Sheet, codes: Array, c: Array, scheme: Any) -> list[Any]:
        prior = FactorPrior(self.nu)
        K = self.n_factors_ = self._size(sheet, prior)
        linear = self.classifier == "linear"
        # variational EM stops before factors have settled that had not when it began
        rough = check.is_sampler(scheme) or (linear and self.joint)
        q, scores, _ = learn(prior, sheet, K, *((20, 1e-4) if rough else (500, 1e-6)))
        if linear:
            return self._fit_linear(sheet, codes, c, scheme, prior, q)
        Y = np.stack(list(self._targets(codes)), axis=1)
        kernel, _ = check.choose_kernel(self.kernel, K)

        def about() -> dict[str, str]:
            return self._about(sheet.table(), sheet.c, codes, c)

        with opened(self.checkpoint, about) as store, self._reporting() as report:
            machines = fit_kernel(
                sheet, Y, c, check.choose_likelihood(self.likelihood, scheme), prior, kernel,
                (q, scores), scheme, bias=float(self.bias), tune=bool(self.tune), joint=self.joint,
                probability=self.probability, rng=self._fit_generator("factors"),
                n_jobs=self.n_jobs, report=report, store=store,
            )  # fmt: skip
        self._parts: list[Fitted] = [machines[0].fitted]
        return machines

    def _fit_linear(
        self, sheet: Sheet, codes: Array, c: Array, scheme: Any, prior: FactorPrior, q: Loadings
    ) -> list[Machine]:
        """By the common engine: scores are a design with latent entries."""
        design: Any = FactorScores(prior, q) if self.joint else ProjectedScores(q)
        terms = (
            Term("intercept", Intercept(), Fixed(float(self.bias) ** -2)),
            Term("factors", design, check.choose_prior(self.prior, scheme)),
        )
        likelihood = check.choose_likelihood(self.likelihood, scheme)
        model = Model(terms, likelihood).sized(float(c.sum()))
        X = sheet.table()
        blocks = Blocks(X, np.empty(sheet.n), c, sheet.n, copies=sheet.c)
        problem = Problem(model, blocks, Serial())
        count = 1 if len(self.classes_) == 2 else len(self.classes_)
        machines = self._fit_machines(problem, codes, scheme, [None] * count)
        if check.is_sampler(scheme):
            machines = [_judged(machine) for machine in machines]
        kind = LinearDraws if check.is_sampler(scheme) else LinearFit
        self._parts = [kind(machine) for machine in machines]
        return machines

    def _report(self) -> None:
        """Loadings on the scale of the input, factors in order and with their signs."""
        means, stds, shares = [], [], []
        self._turns = []
        for part in self._parts:
            A, sd = part.loadings()
            at = np.argsort(-np.square(A).sum(axis=0), kind="stable")
            top = np.abs(A[:, at]).argmax(axis=0)
            sign = np.where(A[top, at] < 0, -1.0, 1.0)
            self._turns.append((at, sign))
            means.append(self._on_input(A[:, at] * sign))
            stds.append(self._on_input(sd[:, at]))
            slopes = part.slopes()[at]
            shares.append(slopes / max(float(slopes.sum()), 1e-300))
        self.loadings_, self.loadings_std_ = np.hstack(means), np.hstack(stds)
        self.factor_relevance_ = np.concatenate(shares)
        self.noise_precision_ = self._noise(np.mean([part.psi for part in self._parts]))
        self.offset_ = np.array([m.link.offset for m in self.machines_])
        self._n_features_out = self.loadings_.shape[1]

    # ----- asking

    def _new_rows(self, X: Any) -> Array:
        return self._scaled(super()._new_rows(X))

    def _moments(self, X: Any) -> tuple[Array, Array]:
        X = self._new_rows(X)
        pairs = [machine.moments(X) for machine in self.machines_]
        return np.stack([m for m, _ in pairs], 1), np.stack([v for _, v in pairs], 1)

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
        sheet = Sheet.of(self._new_rows(X))
        means, stds = [], []
        for part, (at, sign) in zip(self._parts, self._turns, strict=True):
            mean, sd = part.scores(sheet)
            means.append(mean[:, at] * sign)
            stds.append(sd[:, at])
        scores = np.hstack(means)
        if not return_std:
            return scores
        # of two answers scikit-learn makes the first what set_output asked for
        return scores, _wrap_data_with_container("transform", np.hstack(stds), X, self)

    def inverse_transform(self, X: Any) -> Array:
        """Rows that scores stand for, without noise.

        Parameters
        ----------
        X : array-like of shape (n, n_factors)
            Scores, as ``transform`` gives them.

        Returns
        -------
        rows : array of shape (n, n_features)
            On the scale of the input.  Where classes have factors of their own, the average of what
            each class's say.
        """
        check_is_fitted(self, "machines_")
        W = check_array(cells.check_table(X), dtype=[np.float64, np.float32])
        if W.shape[1] != self.loadings_.shape[1]:
            raise ValueError(
                f"scores have {self.loadings_.shape[1]} columns, one a factor; got {W.shape[1]}."
            )
        rows: Array = self.mean_ + W @ self.loadings_.T / len(self._parts)
        return rows


def _merged(X: Array, codes: Array, c: Array, copies: Array) -> tuple[Array, Array, Array, Array]:
    """Equal rows of equal class as one, in an order that depends on their values only.

    Scores at a point have local optima, and rounding can decide which of them a climb finds: the
    same data have to be the same arrays.
    """
    holes = np.isnan(X)
    values = np.hstack([np.where(holes, 0.0, X), holes]) if holes.any() else X
    found = merge(values, codes, copies)
    one = np.unique(found.back, return_index=True)[1]  # a row for every merged one
    return X[one], codes[one], np.bincount(found.back, c), found.c


def _judged(machine: Machine) -> Machine:
    """Chains are compared by their fit: factors turn into one another without changing it."""
    assert machine.draws is not None
    worst = float(r_hat(machine.draws.log_prob[:, :, None])[0])
    return replace(machine, converged=worst <= AGREED, change=worst)
