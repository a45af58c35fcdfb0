"""The relevance vector machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..inference.progress import Progress
from ..likelihoods import Likelihood, Logistic, Probit
from ..sparse_kernel import rvm
from ..sparse_kernel.data import Journal, Result
from . import vectors
from .options import choose
from .vectors import VectorClassifier, VectorData

LIKELIHOODS = {"auto": Probit(), "probit": Probit(), "logistic": Logistic()}


@dataclass(eq=False, repr=False)
class RVC(VectorClassifier):
    r"""Relevance vector machine for classification.

    .. math::

        f(x) = \sum_j w_j k(x, x_j) + b, \qquad p(y \mid f) = \Phi(yf), \qquad
        w_j \sim N(0, 1/\alpha_j),

    with every :math:`\alpha_j` at the maximum of the evidence, where most are infinite: few vectors
    are left.

    Parameters
    ----------
    kernel : str, object of :mod:`bayesvm.kernels`, callable or "precomputed", default="rbf"
        ``"rbf"``, ``"matern"``, ``"linear"`` or ``"poly"``, with one length scale or one per
        column; a kernel object, from whose values tuning starts; a function of two arrays; or
        ``"precomputed"``, X then being the kernel values with the training rows.  A kernel need be
        neither positive nor symmetric; a matrix that is not symmetric gives a warning.
    solver : {"sequential", "em"}, default="sequential"
        ``"sequential"`` adds, re-estimates and deletes one vector at a time (Tipping & Faul 2003),
        from none and from up to 100 that span the others, and takes the end of more evidence;
        ``"em"`` begins with all and prunes (Tipping 2001), which is what Chen et al. compare with.
    likelihood : {"auto", "probit", "logistic"} or an object of these, default="probit"
        :math:`\Phi(yf)`, which Chen et al. use and ``"auto"`` means, or Tipping's
        :math:`1/(1 + e^{-yf})`; they differ little.
    tune : bool, default=True
        Learn the length scales, by the evidence of a logistic Gaussian process with the same
        kernel.  (That of the machine itself, with a precision for every weight, prefers scales that
        are too short.)
    n_folds : int, default=5
        Folds that calibrate the probabilities of a tuned machine.
    n_candidates : int or "auto", default="auto"
        Rows that may become vectors, drawn from every class; ``"auto"`` is at most 3000, and fewer
        beyond 10,000 rows (1,000 of 30,000; at least 500).
    categorical : {"auto", "error"} or list of names or positions, default="auto"
        Columns of categories: of text, categories or booleans, and the listed ones; ``"error"``
        refuses columns that are not numeric.  Two levels of a column are at a fixed distance, in
        units of one length scale; a level not seen in training lies between them.
    missing : {"auto", "error"}, default="auto"
        ``"auto"`` replaces missing cells by the mean of the column, with an indicator where 1 % of
        the training rows miss it; of categories they are a level.  ``"error"`` refuses them.
    standardize : bool, default=True
        Centre and scale columns inside; length scales are then in units of a column's spread.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: three numbers fitted on held-out rows (leave-one-out
        moments where nothing is tuned); the likelihood averaged over f; or
        :math:`\Phi(m/\sqrt{1+v})`, the same where the likelihood is probit.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, multiplied by ``sample_weight``.
    intercept_scale : float, optional
        Prior standard deviation of the bias; 1e4, nearly flat, by default.
    engine : {"auto", "serial", "threads"} or an object of :mod:`bayesvm.data`, default="auto"
        Backend of predictions.
    max_iter, tol : int and float, optional
        Most rounds, 1000 by default, and the gain in log evidence (of ten rounds under ``"em"``)
        below which to stop, 1e-3 by default.
    random_state : int, RandomState, Generator or None, default=None
        Seed of candidates, where these are drawn.  ``None`` is one fixed seed: equal data give
        equal fits.
    n_jobs : int, optional
        Threads in prediction.
    verbose : int, default=0
        1 shows progress.
    callbacks : list of callables, optional
        Each is called with a :class:`~bayesvm.inference.Progress` after every kernel tried, round
        and fold; returning ``True`` ends the fit there, with the best so far.
    warm_start : bool, default=False
        Start from the last fit: from its kernel.
    checkpoint : str or path, optional
        File with the state of a long fit, from which a later fit with the same file resumes.

    Attributes
    ----------
    vectors_, support_ : arrays of shape (n_vectors, n_features) and (n_vectors,)
        The vectors, on the scale of the input, and their rows in the training data.
    dual_coef_, intercept_ : arrays of shape (1, n_vectors) and (1,), or one row per class
        Posterior means of weights and bias.
    n_vectors_ : int
        Number of vectors (of all classes together).
    kernel_ : object of :mod:`bayesvm.kernels`
        The kernel with its learned length scale, on the standardised scale.
    empty_ : bool
        Whether a machine was left without vectors.
    log_evidence_, log_evidence_path_ : float and array
        Log evidence by Laplace's approximation (summed over machines), and its history.
    n_iter_, converged_ : int, bool
        Rounds made, and whether the stopping rule was met.
    classes_ : array of shape (n_classes,)
        Labels.
    offset_ : array of shape (1,) or (n_classes,)
        Shift of f by the calibration, before the sign is taken.

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
        vectors.check_choice("solver", self.solver, rvm.SOLVERS)
        return rvm.Settings(
            self.solver,
            choose("likelihood", self.likelihood, LIKELIHOODS, Probit, Logistic),
            self.n_folds if self.tune and self.probability == "calibrated" else 0,
            self._bias_precision,
            1e-3 if self.tol is None else self.tol,
            1000 if self.max_iter is None else self.max_iter,
        )

    def _solve(
        self, settings: Any, data: VectorData, tuned: tuple[Any, float | None], journal: Journal,
        rng: np.random.Generator,
    ) -> tuple[Result, Likelihood, dict[str, Any]]:  # fmt: skip
        result = rvm.fit_machines(tuned[0], data.rows, journal, settings)
        return result, settings.likelihood, {}

    @property
    def log_evidence_(self) -> float:
        """Log evidence by Laplace's approximation, summed over machines."""
        return self._fitted().bound

    @property
    def log_evidence_path_(self) -> Any:
        """History of ``log_evidence_``; a list of them for more than two classes."""
        return self._fitted().path
