"""The relevance vector machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..inference.progress import Progress
from ..inputs.parameters import is_among
from ..likelihoods import Probit
from ..machines.calibration import Link, fit_link, plain_link
from ..vectors import Journal, Sparse, Training, rvm
from ..vectors.folds import fold_count, held_out
from ._vectors import Found, VectorClassifier


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
        ``"rbf"``, ``"matern"``, ``"linear"`` or ``"poly"``; a kernel object, from whose values
        tuning starts; a function of two arrays of rows; or ``"precomputed"``, X then being the
        matrix of kernel values with the training rows.  For a kernel given by name tuning also
        decides between one length scale and one per column.  A kernel need be neither positive nor
        symmetric: :math:`k(x, x_j)` is just a function that vector *j* brings.  A matrix that is
        not symmetric is mostly a mistake, though, and warned of.
    solver : {"sequential", "em"}, default="sequential"
        ``"sequential"`` adds, re-estimates and deletes one vector at a time (Tipping & Faul 2003),
        from none and from up to 100 that span the others, and takes the end of more evidence;
        ``"em"`` begins with all and prunes (Tipping 2001), which is what Chen et al. compare with.
    tune : bool, default=True
        Learn the length scales, by the evidence of a logistic Gaussian process with the same
        kernel.  (That of the machine itself, with a precision for every weight, prefers scales that
        are too short.)
    n_folds : int, default=5
        Folds.
    n_candidates : int or "auto", default="auto"
        How many rows may become vectors, drawn from every class alike; ``"auto"`` is all up to 3000
        rows, then 3000, and fewer beyond 10,000 rows (1,000 of 30,000; at least 500).
    standardize : bool, default=True
        Centre and scale columns inside; length scales are then in units of a column's spread.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: three numbers fitted on held-out rows (leave-one-out
        moments where nothing is tuned), or the model's own :math:`\Phi(m/\sqrt{1+v})`, by either of
        the other names.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, times ``sample_weight``.
    max_iter, tol : int and float, default=1000 and 1e-3
        Most rounds, and the gain in log evidence (of ten rounds under ``"em"``) below which to
        stop.
    engine : {"auto", "serial", "threads"} or an object of :mod:`bayesvm.engines`, default="auto"
        Who visits the rows in prediction.
    random_state : int, RandomState, Generator or None, default=0
        Seed of folds and candidates.
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
        File that holds the state of a long fit; a later fit with the same file goes on from it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels.
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
    offset_ : array of shape (1,) or (n_classes,)
        What calibration adds to f before the sign is taken.
    elbo_, elbo_path_ : float and array
        Log evidence by Laplace's approximation (summed over machines), and its history.
    n_iter_, converged_ : int, bool
        Rounds made, and whether the stopping rule was met.

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

    _by_label = False

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        solver: str = "sequential",
        tune: bool = True,
        n_folds: int = 5,
        n_candidates: Any = "auto",
        standardize: bool = True,
        probability: str = "calibrated",
        class_weight: Any = None,
        max_iter: int = 1000,
        tol: float = 1e-3,
        engine: Any = "auto",
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
        self.solver = solver
        self.tune = tune
        self.n_folds = n_folds
        self.n_candidates = n_candidates
        self.standardize = standardize
        self.probability = probability
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.checkpoint = checkpoint

    def _idle(self) -> dict[str, str]:
        if self.probability == "calibrated" and self.tune:
            return {}
        why = "unless tune=True and probability='calibrated', for which folds are made"
        return {"n_folds": why}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RVC:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, n) if precomputed
            Rows.
        y : array-like of shape (n,)
            Labels, two or more distinct.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : RVC
            The fitted estimator.
        """
        if not is_among(self.solver, rvm.SOLVERS):
            known = ", ".join(map(repr, rvm.SOLVERS))
            raise ValueError(f"solver={self.solver!r} is not known; choose one of {known}.")
        self._check_settings({"max_iter": 1, "tol": 0.0, "n_folds": 2})
        self._fit(X, y, sample_weight)
        return self

    def _find(
        self, kernel: Any, seen: Training, rng: np.random.Generator, journal: Journal
    ) -> Found:
        K = seen.values(kernel)
        size = float(np.abs(K).max()) or 1.0  # solvers expect columns of about one
        K = K / size
        plain = plain_link(self.probability, Probit())
        count = fold_count(seen.codes, seen.c, self.n_folds)
        H = None
        if plain is None and self.tune and count:
            H = held_out(seen.codes, seen.c, count, rng)
        how: dict[str, Any] = {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter}
        loose = how | {"tol": max(rvm.LOOSE, self.tol)}
        sparse: list[Sparse] = []
        links: list[Link] = []
        for j, y in enumerate(seen.labels):
            found = rvm.best_of_starts(K, y, seen.c, journal=journal.folder(f"machine{j}"), **how)
            held = None
            if H is not None and not journal.stopped:
                notes = journal.folder(f"folds{j}")
                held = rvm.held_out_moments(K, seen, y, H, found.value, notes, **loose)
            if plain is None:
                held = held or rvm.leave_one_out_moments(found, K, y, seen.c)
                links.append(fit_link(*held))
            else:
                links.append(plain)
            sparse.append(found.with_columns_times(size))
        return Found(kernel, sparse, links)
