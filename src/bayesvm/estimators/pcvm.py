"""The probabilistic classification vector machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from ..blocks import rows_of_all_classes
from ..core.types import Array
from ..inference.progress import Progress
from ..inputs.parameters import is_among
from ..kernels import Function
from ..likelihoods import Probit
from ..machines.calibration import Link, ProbitLink, fit_link, plain_link
from ..processes.evidence import START
from ..vectors import Journal, Training
from ..vectors.folds import Held, fold_count, held_out
from ..vectors.pcvm_laplace import fit_with_norm, fit_without_norm
from ..vectors.pcvm_power import all_starts, fit_machine
from ..vectors.training import has_length_scale, keeps_size
from ._vectors import Found, VectorClassifier
from .choices import check_positive

CHOICES = {
    "prior": ("laplace", "power"),
    "selection": ("best", "one_standard_error"),
    "solver": ("newton", "em"),
}

SHARPER = 10.0  # weight of the norm in units of a logistic process's: a mode needs more than a mean
ENOUGH = 1000  # rows that choose the weight of the norm
TINY = float(np.finfo(float).tiny)


class PCVC(VectorClassifier):
    r"""Probabilistic classification vector machine: sparse, each weight on its label's side.

    .. math::

        f(x) = \sum_j w_j k(x, x_j) + b, \qquad p(y \mid f) = \Phi(yf), \qquad y_j w_j \ge 0 .

    A vector of a class speaks for that class or not at all.  With the default prior,

    .. math:: -\log p(w) = \tau\sum_j|w_j| + \tfrac12\lambda\, w^\top K w + \text{const},

    the fit is a convex problem: *f* is the mode of a Gaussian process, made sparse.  The rate
    :math:`\tau` chooses vectors; of these, one after another is left out while *f* stays within
    0.07 posterior standard deviations of the process, and the weights of the rest are found
    without :math:`\tau`.  The kernel is that of most evidence.  Rows left out one by one, in closed
    form, choose :math:`\lambda` and calibrate the probabilities.  Nothing is drawn up to 400 rows;
    beyond, the rows that tune the kernel are.  The paper's own prior is ``prior="power"``.

    Parameters
    ----------
    kernel : str, object of :mod:`bayesvm.kernels`, callable or "precomputed", default="rbf"
        ``"rbf"``, ``"matern"``, ``"linear"`` or ``"poly"``; a kernel object, from whose values
        tuning starts; a function of two arrays of rows; or ``"precomputed"``, X then being the
        matrix of kernel values with the training rows (a warning says so if it is not symmetric;
        f has no norm then, as with ``ridge=0``).  For a kernel given by name tuning also decides
        between one length scale and one per column.
    prior : {"laplace", "power"}, default="laplace"
        The one-sided prior of weights.  ``"power"`` is :math:`p(w) \propto |w|^{-(2c+1)}`: sparser,
        with local maxima, so several starts are tried.
    rate : float, optional
        The rate :math:`\tau`, which then alone leaves vectors out; chosen if not given.
    ridge : float, optional
        The weight :math:`\lambda` of the squared norm of f; chosen by rows left out if not given.
        At 0 the rate alone must make f smooth, and does it worse; folds then choose it.
    shape : float, default=-0.25
        The *c* of the power prior: -1/4 is what Chen et al. ran, 0 what they print.
    tune : bool, default=True
        Learn the length scales, by the evidence of a logistic Gaussian process with the same
        kernel.  Under ``"power"`` that is where they start; they move with the weights, by
        Gauss-Newton steps.
    selection : {"best", "one_standard_error"}, default="best"
        Leave vectors out while f is close to the process; or while the log loss of rows left out
        is within one standard error of what it was: fewer vectors.
    solver : {"newton", "em"}, default="newton"
        How the power prior's weights are found: Newton steps, or the paper's EM with its M-step
        made exact.  Both ascend.
    n_starts : int, default=6
        Random starts under the power prior, besides the solutions of a support vector and a
        relevance vector machine; chosen by held-out log loss.
    n_folds : int, default=5
        Folds, under the power prior and where ``ridge=0``.
    n_candidates : int or "auto", default="auto"
        How many rows may become vectors, drawn from every class alike; ``"auto"`` is all up to 3000
        rows, then 3000, and fewer beyond 10,000 rows (1,000 of 30,000; at least 500).
    standardize : bool, default=True
        Centre and scale columns inside; length scales are then in units of a column's spread.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities: three numbers fitted on rows left out, or the model's own
        :math:`\Phi(m/\sqrt{1+v})`, by either of the other names.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, times ``sample_weight``.
    max_iter, tol : int and float, default=500 and 1e-5
        Most iterations under the power prior, and the relative change of weights that ends them.
    engine : {"auto", "serial", "threads"} or an object of :mod:`bayesvm.engines`, default="auto"
        Who visits the rows in prediction.
    random_state : int, RandomState, Generator or None, default=0
        Seed of what is drawn: rows that tune the kernel (beyond 400) and the norm (beyond 1,000),
        candidates (beyond 3,000), and folds and starts, where there are any.
    n_jobs : int, optional
        Threads in prediction.
    verbose : int, default=0
        1 shows progress.
    callbacks : list of callables, optional
        Each is called with a :class:`~bayesvm.inference.Progress` after every kernel, norm and rate
        tried (after every kernel, start and iteration under ``"power"``); returning ``True`` ends
        the fit there, with the best so far.
    warm_start : bool, default=False
        Start from the last fit: from its kernel, and its rate as the place to look.
    checkpoint : str or path, optional
        File that holds the state of a long fit; a later fit with the same file goes on from it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels.
    vectors_, support_ : arrays of shape (n_vectors, n_features) and (n_vectors,)
        The vectors, on the scale of the input, and their rows in the training data.
    dual_coef_, intercept_ : arrays of shape (1, n_vectors) and (1,), or one row per class
        Weights and bias.
    n_vectors_ : int
        Number of vectors (of all classes together).
    kernel_ : object of :mod:`bayesvm.kernels`
        The kernel with its learned length scale, on the standardised scale.
    rate_, ridge_ : arrays of shape (1,) or (n_classes,)
        Rates at which vectors were chosen, and weights of the norm; not defined under the power
        prior.
    empty_ : bool
        Whether a machine was left without vectors.
    offset_ : array of shape (1,) or (n_classes,)
        What calibration adds to f before the sign is taken.
    elbo_, elbo_path_ : float and array
        Log posterior density up to the prior's constant (summed over machines), and its history.
    n_iter_, converged_ : int, bool
        Newton steps or iterations made, and whether the stopping rule was met.

    See Also
    --------
    RVC : the relevance vector machine, whose weights have either sign.

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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        prior: str = "laplace",
        rate: float | None = None,
        ridge: float | None = None,
        shape: float = -0.25,
        tune: bool = True,
        selection: str = "best",
        solver: str = "newton",
        n_starts: int = 6,
        n_folds: int = 5,
        n_candidates: Any = "auto",
        standardize: bool = True,
        probability: str = "calibrated",
        class_weight: Any = None,
        max_iter: int = 500,
        tol: float = 1e-5,
        engine: Any = "auto",
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
        self.prior = prior
        self.rate = rate
        self.ridge = ridge
        self.shape = shape
        self.tune = tune
        self.selection = selection
        self.solver = solver
        self.n_starts = n_starts
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
        if self.prior == "power":
            return dict.fromkeys(("rate", "ridge", "selection"), "under prior='power'")
        why = "under prior='laplace', a convex problem; prior='power' uses such settings"
        idle = dict.fromkeys(("shape", "solver", "n_starts", "max_iter", "tol"), why)
        if self.rate is not None:
            idle["selection"] = "where rate is given, which then chooses the vectors"
        theirs = self._precomputed or (callable(self.kernel) and not hasattr(self.kernel, "pull"))
        if self.ridge != 0 and not theirs:  # a kernel of theirs may have no norm
            idle["n_folds"] = "under prior='laplace' unless ridge=0"
        return idle

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PCVC:
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
        self : PCVC
            The fitted estimator.
        """
        for name, known in CHOICES.items():
            if not is_among(getattr(self, name), known):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is not known; choose one of "
                    f"{', '.join(map(repr, known))}."
                )
        if self.ridge is not None:
            self._check_number("ridge", 0.0, closed=True)
            if self.ridge != 0:
                check_positive("ridge", self.ridge, 1e-12, 1e12)
        self._check_number("shape", -0.5)
        if self.rate is not None:
            self._check_number("rate", 0.0)
        self._check_settings({"max_iter": 1, "tol": 0.0, "n_folds": 2, "n_starts": 0})
        self._last: list[float] = list(getattr(self, "rate_", ())) if self.warm_start else []
        for name in ("rate_", "ridge_"):
            if hasattr(self, name):
                delattr(self, name)
        self._fit(X, y, sample_weight)
        return self

    def _check_number(self, name: str, above: float, closed: bool = False) -> None:
        value = getattr(self, name)
        real = isinstance(value, Real) and not isinstance(value, bool)
        good = real and np.isfinite(float(value)) and float(value) >= above
        if not good or (value == above and not closed):
            raise ValueError(
                f"{name} must be a number {'of at least' if closed else 'above'} {above:g}; "
                f"got {value!r}."
            )

    def _find(
        self, kernel: Any, seen: Training, rng: np.random.Generator, journal: Journal
    ) -> Found:
        find = self._power if self.prior == "power" else self._laplace
        return find(kernel, seen, rng, journal)

    def _folds(self, seen: Training, rng: np.random.Generator) -> Array | None:
        """Weights held out, a column for each fold; none where a class is too small."""
        count = fold_count(seen.codes, seen.c, self.n_folds)
        return held_out(seen.codes, seen.c, count, rng) if count else None

    def _link(self, held: Held | None) -> Link:
        plain = plain_link(self.probability, Probit())
        if plain is not None:
            return plain
        return ProbitLink() if held is None else fit_link(*held)

    # ----- the convex prior

    def _laplace(
        self, kernel: Any, seen: Training, rng: np.random.Generator, journal: Journal
    ) -> Found:
        K = seen.values(kernel)
        centre = self._centre(kernel, K[seen.candidates])
        ridge = centre if self.ridge is None else float(self.ridge)
        rate = None if self.rate is None else float(self.rate)
        how: dict[str, Any] = {"rate": rate, "selection": self.selection}
        found = []
        H, points = None, np.empty(0)
        if ridge == 0.0:
            H = self._folds(seen, rng)
        else:
            chosen = rows_of_all_classes(seen.codes[seen.candidates], ENOUGH, rng)
            points = np.unique(seen.at[seen.candidates[chosen]])
        for j, y in enumerate(seen.labels):
            how["last"] = self._last[j] if j < len(self._last) else None
            how["journal"] = journal.folder(f"machine{j}")
            if ridge == 0.0:
                one = fit_without_norm(K, seen, y, H, **how)
            else:
                given = None if self.ridge is None else ridge
                one = fit_with_norm(
                    K, seen, y, norm_weight=given, centre=ridge, points=points, **how
                )
            found.append(one)
        self.rate_ = np.array([one.rate for one in found])
        self.ridge_ = np.array([one.norm_weight for one in found])
        pairs = zip(found, seen.labels, strict=True)
        sparse = [
            one.sparse.with_columns_times(y[seen.candidates][one.sparse.columns])
            for one, y in pairs
        ]
        return Found(kernel, sparse, [self._link(one.held) for one in found])

    def _centre(self, kernel: Any, K: Array) -> float:
        """Weight of the norm at which the search starts; zero if the kernel has no norm."""
        if self._without_norm(kernel, K):
            if self.ridge:
                raise ValueError(
                    "the kernel matrix is not symmetric and positive, so f has no norm: give "
                    f"ridge=0 or another kernel; got ridge={self.ridge!r}."
                )
            return 0.0
        size = float(np.abs(np.diag(K)).mean())
        amplitude = START / max(size, TINY) if self._amplitude is None else self._amplitude
        return SHARPER / amplitude

    @staticmethod
    def _without_norm(kernel: Any, K: Array) -> bool:
        """Whether f has no norm; kernels that are not ours are positive by their word only."""
        theirs = kernel is None or isinstance(kernel, Function)
        return theirs and not is_positive(K)

    # ----- the paper's prior

    def _power(
        self, kernel: Any, seen: Training, rng: np.random.Generator, journal: Journal
    ) -> Found:
        H, K = self._folds(seen, rng), seen.values(kernel)
        moving = (
            bool(self.tune) and has_length_scale(kernel) and keeps_size(kernel, seen.points[:5])
        )
        # support vectors need all rows as candidates and a kernel with a norm
        support = seen.candidates.size == seen.c.size and not self._without_norm(kernel, K)
        size = float(np.abs(K).max()) or 1.0  # starts expect columns of about one
        how: dict[str, Any] = {
            "shape": float(self.shape),
            "solver": self.solver,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }

        def machines(kernel: Any, K: Array | None, journal: Journal) -> list[Any]:
            starts = all_starts(self.n_starts, support, K is None)
            return [
                fit_machine(kernel, seen, K, y, H, starts, journal.folder(f"machine{j}"), **how)
                for j, y in enumerate(seen.labels)
            ]

        found = machines(kernel, None if moving else K / size, journal)
        if moving and len(found) > 1:  # the machines share their columns: settle on one width
            kernel = kernel.with_theta(np.mean([at.theta for at, *_ in found], axis=0))
            found = machines(kernel, seen.values(kernel), journal.folder("shared"))
        kernels, sparse, held = zip(*found, strict=True)
        back = 1.0 if moving else size
        return Found(
            kernels[0], [s.with_columns_times(back) for s in sparse], [self._link(h) for h in held]
        )


def is_positive(K: Array) -> bool:
    """Whether a kernel matrix is symmetric and, but for rounding, positive."""
    size = float(np.abs(K).max(initial=TINY))
    if not np.allclose(K, K.T, rtol=0.0, atol=1e-8 * size):
        return False
    try:
        np.linalg.cholesky(K + 1e-8 * size * np.eye(len(K)))
    except np.linalg.LinAlgError:
        return False
    return True
