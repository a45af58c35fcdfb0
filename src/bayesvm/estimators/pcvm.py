"""The probabilistic classification vector machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ..core.parameters import is_among
from ..inference.progress import Progress
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..sparse_kernel import Power, convex, pcvm
from ..sparse_kernel.data import Journal, Result
from ..sparse_kernel.newton import PROBIT
from . import vectors
from .options import check_positive
from .vectors import VectorClassifier, VectorData


@dataclass(eq=False, repr=False)
class PCVC(VectorClassifier):
    r"""Probabilistic classification vector machine: sparse, each weight on its label's side.

    .. math::

        f(x) = \sum_j w_j k(x, x_j) + b, \qquad p(y \mid f) = \Phi(yf), \qquad y_j w_j \ge 0 .

    The weight of a vector has the sign of its label.  With the default prior,

    .. math:: -\log p(w) = \tau\sum_j|w_j| + \tfrac12\lambda\, w^\top K w + \text{const},

    the fit is a convex problem: *f* is the mode of a Gaussian process, made sparse.  The rate
    :math:`\tau` chooses vectors; of these, one after another is left out while *f* stays within
    0.07 posterior standard deviations of the process, and the weights of the rest are found
    without :math:`\tau`.  The kernel is that of most evidence.  Leave-one-out moments, in closed
    form, choose :math:`\lambda` and calibrate the probabilities.  Up to 1,000 rows nothing is
    random.  ``weight_prior="power"`` is the prior of the paper.

    Parameters
    ----------
    kernel : str, object of :mod:`bayesvm.kernels`, callable or "precomputed", default="rbf"
        ``"rbf"``, ``"matern"``, ``"linear"`` or ``"poly"``, with one length scale or one per
        column; a kernel object, from whose values tuning starts; a function of two arrays; or
        ``"precomputed"``, X then being the kernel values with the training rows (without a norm,
        as with ``norm_penalty=0``, and with a warning, where they are not symmetric).
    weight_prior : "laplace", "power" or bayesvm.sparse_kernel.Power, default="laplace"
        The one-sided prior of weights.  ``"power"`` is that of the paper, ``Power()``:
        :math:`p(w) \propto |w|^{-(2c+1)}`, sparser, with local maxima, so several starts are tried.
        The object also has the paper's Student prior and its prior of the bias.
    rate : float, optional
        The rate :math:`\tau`, which then alone leaves vectors out; chosen if not given.
    norm_penalty : float, optional
        The penalty :math:`\lambda` of the squared norm of f; chosen by leave-one-out log loss if
        not given.  At 0 the rate alone must make f smooth, and does it worse; folds then choose it.
    tune : bool, default=True
        Learn the length scales, by the evidence of a logistic Gaussian process with the same
        kernel.  Under ``"power"`` that is where they start; they move with the weights, by
        Gauss-Newton steps.
    selection : {"best", "one_standard_error"}, default="best"
        Leave vectors out while f is close to the process; or while the log loss of rows left out
        is within one standard error of what it was: fewer vectors.
    n_folds : int, default=5
        Folds, under the power prior and where ``norm_penalty=0``.
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
        The link from f to probabilities: three numbers fitted on rows left out, or the model's own
        :math:`\Phi(m/\sqrt{1+v})`, by either of the other names.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, multiplied by ``sample_weight``.
    intercept_scale : float, optional
        Prior standard deviation of the bias; 1e4, nearly flat, by default.
    engine : {"auto", "serial", "threads"} or an object of :mod:`bayesvm.data`, default="auto"
        Backend of predictions.
    max_iter, tol : int and float, optional
        Under the power prior: most iterations, 500 by default, and the relative change of weights
        that ends them, 1e-5 by default.
    random_state : int, RandomState, Generator or None, default=None
        Seed of what is drawn: rows that choose the norm (beyond 1,000) and candidates (beyond
        3,000).  ``None`` is one fixed seed: equal data give equal fits.
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
        File with the state of a long fit, from which a later fit with the same file resumes.

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
        Rates at which vectors were chosen, and penalties of the norm; not defined under the power
        prior.
    empty_ : bool
        Whether a machine was left without vectors.
    log_posterior_, log_posterior_path_ : float and array
        Log posterior density up to the prior's constant (summed over machines), and its history.
    n_iter_, converged_ : int, bool
        Newton steps or iterations made, and whether the stopping rule was met.
    classes_ : array of shape (n_classes,)
        Labels.
    offset_ : array of shape (1,) or (n_classes,)
        Shift of f by the calibration, before the sign is taken.

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

    def _power(self) -> Power | None:
        """The power prior; ``None`` for the Laplace prior."""
        if isinstance(self.weight_prior, Power):
            return self.weight_prior
        vectors.check_choice("weight_prior", self.weight_prior, ("laplace", "power"))
        return Power() if self.weight_prior == "power" else None

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
        """The settings of the solver of the prior."""
        power = self._power()
        vectors.check_choice("selection", self.selection, ("best", "one_standard_error"))
        if self.norm_penalty:
            check_positive("norm_penalty", self.norm_penalty, 1e-12, 1e12)
        if power is None:
            few = self.selection == "one_standard_error"
            rate = None if self.rate is None else float(self.rate)
            bias = self._bias_precision
            return convex.Settings(rate, self.norm_penalty, few, self.n_folds, bias)
        tol = 1e-5 if self.tol is None else self.tol
        max_iter = 500 if self.max_iter is None else self.max_iter
        bias = self._bias_precision
        return pcvm.Settings(power, self.tune, self.n_folds, tol, max_iter, bias)

    def _solve(
        self, settings: Any, data: VectorData, tuned: tuple[Any, float | None], journal: Journal,
        rng: np.random.Generator,
    ) -> tuple[Result, Likelihood, dict[str, Any]]:  # fmt: skip
        last = list(self.__dict__.pop("rate_", ())) if self.warm_start else []
        for name in ("rate_", "norm_penalty_"):
            self.__dict__.pop(name, None)  # of an earlier fit under another prior
        kernel, amplitude = tuned
        if isinstance(settings, pcvm.Settings):
            return pcvm.fit_machines(kernel, data.rows, journal, settings), PROBIT, {}
        known = last if len(last) == len(data.rows.labels) else ()
        where = (kernel, data.rows, journal, rng, settings)
        result, rates, penalties = convex.fit_machines(*where, amplitude, known)
        return result, PROBIT, {"rate_": rates, "norm_penalty_": penalties}
