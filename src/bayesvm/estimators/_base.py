"""What every estimator shares: labels, machines one against the rest, and what to ask of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..blocks import cut
from ..core import arrays
from ..core.random import stream
from ..core.tree import leaves
from ..core.types import Array, Rows
from ..designs import Table
from ..engines import Gpu
from ..files.checkpoint import opened, seed_in
from ..files.fingerprint import fingerprint
from ..inference.loop import State
from ..inference.progress import Monitor, Reporter
from ..inference.rotated import bases
from ..inputs import cells, reading
from ..inputs.dask import is_dask
from ..inputs.parameters import check_parameters, is_among, warn_idle
from ..machines.calibration import enclosing, normalised, normalised_odds
from ..machines.machine import Machine, fit_machine
from ..model.model import Problem
from ..reports.tables import arviz_tree as arviz_tree
from ..reports.tables import pandas_for as pandas_for
from ..reports.tables import tails as tails_of
from . import choices as check
from ._away import Away
from ._nested import NestedParameters
from .posing import choose_engine

BEYOND = 10  # joint draws beyond either end of an interval of several classes' probabilities,
FEWEST = 200  # of at least so many in all;
HELD = 2**22  # numbers of them that are held at a time

# parameters of reports, files and engines, which do not change the result; the seed is held apart
APART = (
    "verbose", "callbacks", "checkpoint", "warm_start", "n_jobs", "engine", "memory",
    "random_state",
)  # fmt: skip
SAMPLED = 1000  # rows by which a source is known


class BayesianClassifier(Away, ClassifierMixin, NestedParameters):  # type: ignore[misc]
    """Base of the estimators; a subclass builds the terms and this class does the rest."""

    _accept_sparse: Any = "csr"
    _has_effects = False  # of groups that rows are in
    _reporter: Reporter | None = None  # of the fit that is running

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(self._accept_sparse)
        return tags

    # ----- fitting

    def _kind(self) -> dict[str, Any]:
        """What rows must be like."""
        return {"accept_sparse": self._accept_sparse, "dtype": [np.float64, np.float32]}

    def _of_missing_cells(self) -> str:
        """What can be done about them."""
        return (
            f"{type(self).__name__} needs complete rows: fill the cells in, for instance by "
            "sklearn.impute.SimpleImputer in a pipeline, or leave such rows out. "
            "BayesianLinearSVC(missing='model') and FactorSVC() learn from incomplete rows."
        )

    def _idle(self) -> dict[str, str]:
        """Parameters that the fit to come does not use, and the reason of each."""
        return check.idle_limits(getattr(self, "inference", None))

    def _begin(self) -> None:
        """Check the parameters; with a checkpoint, settle the seed that the fit is known by."""
        check_parameters(self.get_params(deep=False))
        warn_idle(self, self._idle())
        if self.checkpoint is not None:
            self._seed = self._first_seed()

    def _read(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        self._begin()
        if reading.is_source(X):
            return reading.read_source(self, X, y, reset)
        if arrays.is_foreign(X):
            return reading.read_foreign(self, X, y, reset)
        X = cells.check_table(X, reset)
        with cells.explained(self, X):
            X = validate_data(self, X, reset=reset, **self._kind())
        return reading.as_rows(X), reading.read_labels(y, X.shape[0])

    def _generator(self, seed: Any = None) -> np.random.Generator:
        """A NumPy generator from scikit-learn's kind of ``random_state``, or from another seed."""
        seed = self.random_state if seed is None else seed
        if isinstance(seed, np.random.Generator):
            return seed
        return np.random.default_rng(check_random_state(seed).randint(2**31 - 1))

    def _fit_generator(self, purpose: str) -> np.random.Generator:
        """A generator for one part of a fit; with a checkpoint that of the fit that began it."""
        seed = self.random_state if self.checkpoint is None else self._seed
        if isinstance(seed, np.random.Generator):
            return seed
        return stream(int(check_random_state(seed).randint(2**31 - 1)), purpose)

    def _first_seed(self) -> int:
        """A seed where ``random_state`` is none: the checkpoint's, if there is one, or a new one.

        With it a fit that goes on draws what it would have drawn.
        """
        given = self.random_state
        if isinstance(given, Integral):
            return int(given)
        held = seed_in(self.checkpoint)
        return int(self._generator().integers(2**31 - 1)) if held is None else held

    def _targets(self, codes: Any, kind: Any = np.float64) -> Iterator[Array]:
        """Labels in {-1, +1} for each machine: one for two classes, else one per class."""
        k = len(self.classes_)
        for j in [1] if k == 2 else range(k):
            yield arrays.signs(codes == j, kind)

    def _fit_machines(
        self, problem: Problem, codes: Any, scheme: Any, starts: list[State | None]
    ) -> list[Machine]:
        rng = self._fit_generator("machines")
        machines = []
        sampler = check.is_sampler(scheme)
        threads = check.blas_threads(problem.model.width, problem.form)
        if arrays.is_foreign(problem.blocks.X):
            codes = problem.engine.place(codes)

        def about() -> dict[str, str]:
            return self._about(*_content(problem, codes), [_vector(state) for state in starts])

        with ExitStack() as held:
            report = held.enter_context(self._reporting())
            # a fit that was stopped before it came here is another one than the file is for
            path = None if report.stopped else self.checkpoint
            store = held.enter_context(opened(path, about))
            held.enter_context(threads)
            # rows that are not held may be very many: a byte for the label of each
            kind = np.float64 if problem.blocks.in_memory else np.int8
            rotation = bases(problem, scheme)
            for j, y in enumerate(self._targets(codes, kind)):
                one = replace(problem, blocks=replace(problem.blocks, y=y))
                # after a stop, what is found is not what would have been found: it is not kept
                part = None if store is None or report.stopped else store.part(f"machine{j}")
                options = {"n_jobs": self.n_jobs, "store": part} if sampler else {}
                watch = Monitor(lambda progress, _: report(progress), part)
                args = (one, scheme, self.probability, rng, starts[j], watch, rotation)
                machines.append(fit_machine(*args, **options))
        return machines

    @contextmanager
    def _reporting(self) -> Iterator[Reporter]:
        """Reports how the fit is going, and remembers whether a callback has stopped it.

        The parts of a fit share one reporter: what has stopped the first stops the others.
        """
        if self._reporter is None:
            with Reporter(self.callbacks, self.verbose) as self._reporter:
                try:
                    yield self._reporter
                finally:
                    self._stopped, self._reporter = self._reporter.stopped, None
        else:
            yield self._reporter
            self._stopped = self._reporter.stopped

    def _about(self, *data: Any) -> dict[str, str]:
        """What must be equal for a checkpoint to belong to this fit."""
        given = {k: v for k, v in self.get_params(deep=False).items() if k not in APART}
        return {
            "estimator": type(self).__name__,
            "parameters": fingerprint(given),
            "data": fingerprint(*data),
            "seed": str(self._seed),
        }

    def _conclude(self, machines: list[Machine]) -> None:
        """Set what is common to all estimators and warn, once, of anything unfinished.

        What a callback has stopped was meant to end there.
        """
        self.machines_ = machines
        self.n_iter_ = max(m.n_iter for m in machines)
        self.converged_ = all(m.converged for m in machines) and not self._stopped
        self.elbo_ = float(sum(m.bound for m in machines))
        paths = [np.asarray(m.path) for m in machines]
        self.elbo_path_ = paths[0] if len(paths) == 1 else paths
        if not self.converged_ and not self._stopped:
            worst = max(abs(m.change) for m in machines)
            text = (
                ("too few draws to judge the chains. " if np.isnan(worst) else "")
                + f"the chains do not agree yet (R-hat up to {worst:.3g}). Draw more, burn in "
                "longer, or give the prior a lighter tail."
                if any(m.draws is not None for m in machines)
                else f"{type(self).__name__} stopped after {self.n_iter_} iterations with the "
                f"bound still moving by {worst:.3g}. Raise max_iter or loosen tol if it matters."
            )
            warnings.warn(text, ConvergenceWarning, stacklevel=3)

    # ----- asking

    def _names(self) -> list[str]:
        """Names of the columns, made up where the input had none."""
        names = getattr(self, "feature_names_in_", None)
        return list(names) if names is not None else [f"x{j}" for j in range(self.n_features_in_)]

    def _check_fitted(self) -> None:
        check_is_fitted(self, "machines_")

    def _draws(self, machine: Machine, rng: np.random.Generator) -> Array:
        """Draws shaped (chains, draws, K): the sampler's own, or variational ones."""
        held = machine.draws
        return held.theta if held is not None else machine.posterior.sample(1000, rng)[None]

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self, "machines_")
        if reading.is_source(X):
            return reading.read_source(self, X, None, reset=False)[0]
        if arrays.is_foreign(X):
            return reading.read_foreign(self, X, None, reset=False)[0]
        X = cells.check_table(X, reset=False)
        with cells.explained(self, X):
            X = validate_data(self, X, reset=False, **self._kind())
        return reading.as_rows(X)

    def _moments(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of each machine's f at new rows, ``(n, machines)``."""
        X, how = self._new_rows(X), self.engine
        if not self._on_device():  # draws and exact fits answer on the host
            X = arrays.to_numpy(X)
            how = "auto" if is_among(how, ("gpu",)) or isinstance(how, Gpu) else how
        n, K = X.shape[0], self.machines_[0].model.width
        engine = choose_engine(how, X, K, self.n_jobs)
        size = engine.block_rows(K)
        none = np.broadcast_to(0.0, (n,))
        blocks = cut(X, none, none, size)

        def visit(b: Any) -> tuple[Array, Array]:
            pairs = self._moments_at(b.X)
            xp = arrays.of(pairs[0][0])
            return xp.stack([m for m, _ in pairs], axis=1), xp.stack([v for _, v in pairs], axis=1)

        with check.blas_threads(K, "dense"):
            parts = list(engine.collect(visit, blocks))
        return np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts])

    def _on_device(self) -> bool:
        """Whether moments can be computed where the rows are."""
        return all(hasattr(m.posterior, "coef") for m in self.machines_)

    def _moments_at(self, X: Any) -> list[tuple[Array, Array]]:
        """Mean and variance of f at a block of rows, for each machine."""
        return [m.moments(X, rows) for m, rows in zip(self.machines_, self._columns_at(X))]

    def _columns_at(self, X: Any) -> Iterator[Rows | None]:
        """Columns at new rows for each machine; made once where machines have them in common.

        ``None`` where entries are latent: what fills them in is the machine's own.
        """
        made: dict[int, Rows | None] = {}
        for machine in self.machines_:
            model = getattr(machine, "model", None)  # a kernel of latent scores has no columns
            key = id(model and model.terms)
            if key not in made:
                made[key] = None if model is None or model.is_latent else model.rows(X)
            yield made[key]

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Decision values: positive exactly where ``predict`` says ``classes_[1]``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Return the posterior mean and standard deviation of f instead.

        Returns
        -------
        values : array of shape (n,) or (n, n_classes)
            They rank rows as ``predict_proba`` does.  Two classes: the posterior mean of f, moved
            by the offset of the link (``offset_``) and shrunk where f is uncertain, as much as the
            link shrinks it.  More: log-odds of each class against the rest.

            With ``return_std``: the posterior mean of f (of each class's f), moved by the offset of
            the link and not shrunk, whatever the link.  For two classes its sign is the same.
        std : array of the same shape
            Only with ``return_std``.  Posterior standard deviation of f (of each class's f).
        """
        if return_std:
            lazy = self._halves(X, "decision_function", return_std=True)
        else:
            lazy = self._lazy("decision_function", X)
        if lazy is not None:
            return lazy
        m, v = self._moments(X)
        single = len(self.machines_) == 1
        if return_std:
            if not self.machines_[0].posterior.has_spread:
                self.machines_[0].posterior.variance()  # a point estimate refuses
            both = m + [k.link.offset for k in self.machines_], np.sqrt(v)
            mean, std = (part[:, 0] if single else part for part in both)
            return arrays.back(mean, X), arrays.back(std, X)
        values = self.machines_[0].link.score(m[:, 0], v[:, 0]) if single else self._logits(m, v)
        return arrays.back(values, X)

    def _logits(self, m: Array, v: Array) -> Array:
        return np.stack(
            [k.link.logit(m[:, j], v[:, j]) for j, k in enumerate(self.machines_)], axis=1
        )

    def _proba(self, m: Array, v: Array) -> Array:
        if len(self.machines_) == 1:
            p = self.machines_[0].proba(m[:, 0], v[:, 0])
            return np.stack([1.0 - p, p], axis=1)
        return normalised(self._logits(m, v))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.

        Returns
        -------
        proba : array of shape (n, n_classes)
            Columns in the order of ``classes_``.
        """
        lazy = self._lazy("predict_proba", X)
        if lazy is not None:
            return lazy
        return arrays.back(self._proba(*self._moments(X)), X)

    def predict(self, X: Any) -> Any:
        """The most probable class of each row: ``classes_[predict_proba(X).argmax(1)]``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.

        Returns
        -------
        labels : array of shape (n,)
            Entries of ``classes_``.
        """
        lazy = self._lazy("predict", X)
        if lazy is not None:
            return lazy
        most = self._proba(*self._moments(X)).argmax(axis=1)
        return arrays.back(self.classes_[most], X)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper class probabilities, from the posterior of f.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        level : float, default=0.9
            Posterior mass between the two, in (0, 1).

        Returns
        -------
        lower, upper : arrays of shape (n, n_classes)
            They enclose ``predict_proba``.  Two classes: the ends of the interval of f, through the
            link.  More: those of the normalised probabilities, with f of all classes drawn; the
            draws are the same every time.
        """
        tails = tails_of(level)
        if (lazy := self._halves(X, "predict_interval", level=level)) is not None:
            return lazy  # type: ignore[no-any-return]
        m, v = self._moments(X)
        p, logit, single = self._proba(m, v), self._logits(m, v), len(self.machines_) == 1
        odds = np.hstack([-logit, logit]) if single else normalised_odds(logit)
        bands = self._bands if single else self._joint_bands
        parts = [bands(rows, tails) for rows in self._pieces(self._new_rows(X))]
        low, high = enclosing(odds, *np.concatenate(parts, axis=1))
        return arrays.back(np.minimum(low, p), X), arrays.back(np.maximum(high, p), X)

    def _bands(self, X: Any, tails: tuple[float, float]) -> Array:
        """Log odds of both classes at lower end, median and upper end of f, ``(3, n, 2)``."""
        machine, rows = self.machines_[0], next(self._columns_at(X))
        f = machine.quantiles(X, (tails[0], 0.5, tails[1]), rows)
        logit = machine.link.logit(f, np.zeros_like(f))
        return np.stack([-logit[::-1], logit], axis=2)

    def _joint_bands(self, X: Any, tails: tuple[float, float]) -> Array:
        """Quantiles of the log odds of several classes, ``(3, n, classes)``.

        A Latin hypercube: each machine's f takes evenly spaced quantiles, in an order of its own.
        """
        rng, count = np.random.default_rng(0), max(FEWEST, int(np.ceil(BEYOND / tails[0])))
        levels = tuple((np.arange(count) + 0.5) / count)
        order = [rng.permutation(count) for _ in self.machines_]
        size, parts = max(1, HELD // (count * len(order))), []
        for first in range(0, X.shape[0], size):
            some, logits = X[first : first + size], []
            for machine, at, rows in zip(self.machines_, order, self._columns_at(some)):
                f = machine.quantiles(some, levels, rows)
                logits.append(machine.link.logit(f, np.zeros_like(f))[at])
            odds = normalised_odds(np.stack(logits, axis=-1))  # (draws, rows, classes)
            parts.append(np.quantile(odds, (tails[0], 0.5, tails[1]), axis=0))
        return np.concatenate(parts, axis=1)


def _content(problem: Problem, codes: Any) -> Iterator[Any]:
    """What data are made of: arrays by every number, sources by some rows all over them."""
    blocks = problem.blocks
    X, c = blocks.X, blocks.c
    yield X.shape
    if reading.is_source(X):  # to read all of it would cost as much as a pass
        rows = np.unique(np.linspace(0, X.shape[0] - 1, SAMPLED).astype(np.intp))
        X = blocks.take(rows).X
        c, codes = (np.asarray(x[rows]) if is_dask(x) else x for x in (c, codes))
    parts = [X.data, X.indices, X.indptr] if reading.is_sparse(X) else [X]
    if isinstance(X, Table):
        parts = [X.numbers, X.codes]
    yield from (arrays.to_numpy(part) for part in [*parts, c, codes])
    yield [(term.name, term.design, term.prior) for term in problem.model.terms]
    yield problem.form


def _vector(state: State | None) -> list[Any]:
    """A start as plain arrays."""
    return [] if state is None else [*leaves(state)]
