"""What every estimator shares: labels, machines one against the rest, and what to ask of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import namespace, reading
from .. import validation as check
from ..blocks import cut
from ..designs import Table
from ..gaussian import DiagonalCovariance, DualCovariance, FullCovariance, Point, covariance
from ..inference.loop import Progress, State, pack, unpack
from ..machine import Machine, fit_machine
from ..model import Model, Problem
from ..parameters import check_parameters
from ..progress import Checkpoint, Reporter, mark_of
from ..types import Array, Coef, Rows
from ._away import Away


class BayesianClassifier(Away, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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

    def _read(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        check_parameters(self.get_params(deep=False))
        if reading.is_source(X):
            return reading.read_source(self, X, y, reset)
        if namespace.is_foreign(X):
            return reading.read_foreign(self, X, y, reset)
        with reading.explained(self, X):
            X, y = validate_data(self, X, y, reset=reset, **self._kind())
        check_classification_targets(y)
        return reading.as_rows(X), y

    def _generator(self, seed: Any = None) -> np.random.Generator:
        """A NumPy generator from scikit-learn's kind of ``random_state``, or from another seed."""
        seed = self.random_state if seed is None else seed
        if isinstance(seed, np.random.Generator):
            return seed
        return np.random.default_rng(check_random_state(seed).randint(2**31 - 1))

    def _targets(self, codes: Any, kind: Any = np.float64) -> Iterator[Array]:
        """Labels in {-1, +1} for each machine: one for two classes, else one per class."""
        k = len(self.classes_)
        for j in [1] if k == 2 else range(k):
            yield namespace.signs(codes == j, kind)

    def _fit_machines(
        self, problem: Problem, codes: Any, scheme: Any, starts: list[State | None]
    ) -> list[Machine]:
        rng = self._generator()
        store = None
        if self.checkpoint is not None:
            store = Checkpoint(self.checkpoint, self._fingerprint(problem, scheme, codes))
        machines = []
        sampler = check.is_sampler(scheme)
        threads = check.blas_threads(problem.model.width, problem.form)
        if namespace.is_foreign(problem.blocks.X):
            codes = problem.engine.place(codes)  # type: ignore[attr-defined]
        with threads, self._reporting() as report:
            # rows that are not held may be very many: a byte for the label of each
            kind = np.int8 if hasattr(problem.blocks.X, "chunks") else np.float64
            for j, y in enumerate(self._targets(codes, kind)):
                one = replace(problem, blocks=replace(problem.blocks, y=y))
                start, options = starts[j], {}
                scope = _Scope(store, f"machine{j}") if store is not None else None
                if scope is not None and not sampler:
                    start = scope.state(one, scheme) or start
                if sampler:
                    options = {"n_jobs": self.n_jobs, "store": scope}

                def watch(progress: Progress, state: Any, scope: Any = scope) -> bool:
                    if scope is not None and isinstance(state, State):
                        scope.put("state", lambda: {"vector": _vector(problem, state)})
                    return report(progress)

                machine = fit_machine(one, scheme, self.probability, rng, start, watch, **options)
                if scope is not None and not sampler:
                    final = machine.state
                    scope.put("state", lambda s=final: {"vector": _vector(problem, s)}, now=True)
                machines.append(machine)
        return machines

    @contextmanager
    def _reporting(self) -> Iterator[Reporter]:
        """Tells people how the fit is going, and remembers whether one of them has stopped it.

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

    def _fingerprint(self, problem: Problem, scheme: Any, codes: Any) -> str:
        """What must be equal for a checkpoint to belong to this fit."""
        X, terms = problem.blocks.X, problem.model.terms
        if reading.is_source(X):  # to read a source once more would cost as much as a pass
            X = np.array(X.shape)
        parts = [X.data, X.indices, X.indptr] if reading.is_sparse(X) else [X]
        if isinstance(X, Table):
            parts = [X.numbers, X.codes]
        parts = [namespace.to_numpy(part) for part in [*parts, problem.blocks.c, codes]]
        parts += [part for t in terms for part in _described((t.name, t.design))]
        return (
            f"{type(self).__name__} by {scheme} with {[t.prior for t in terms]} and "
            f"{problem.model.likelihood}, {problem.n} rows, {problem.form}, "
            f"data {mark_of(parts):08x}"
        )

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
                if any("draws" in m.extra for m in machines)
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
        held = machine.extra.get("draws")
        return held.theta if held is not None else machine.posterior.sample(1000, rng)[None]

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self, "machines_")
        if reading.is_source(X):
            return reading.read_source(self, X, None, reset=False)[0]
        if namespace.is_foreign(X):
            return reading.read_foreign(self, X, None, reset=False)[0]
        with reading.explained(self, X):
            X = validate_data(self, X, reset=False, **self._kind())
        return reading.as_rows(X)

    def _moments(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of each machine's f at new rows, ``(n, machines)``."""
        X, how = self._new_rows(X), self.engine
        if not self._on_device():  # draws and exact fits answer on the host
            X, how = namespace.to_numpy(X), "auto" if how == "gpu" or hasattr(how, "place") else how
        n, K = X.shape[0], self.machines_[0].model.width
        engine = check.choose_engine(how, n, K, self.n_jobs, X)
        size = check.choose_size(engine, K)
        none = np.broadcast_to(0.0, (n,))
        blocks = cut(X, none, none, size)

        def visit(b: Any) -> tuple[Array, Array]:
            pairs = self._moments_at(b.X)
            xp = namespace.of(pairs[0][0])
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
            Also return the posterior standard deviation of f.

        Returns
        -------
        values : array of shape (n,) or (n, n_classes)
            They rank rows as ``predict_proba`` does.  Two classes: the posterior mean of f, moved
            by the offset of the link (``offset_``) and shrunk where f is uncertain, as much as the
            link shrinks it.  More: log-odds of each class against the rest.
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
        if return_std and not self.machines_[0].posterior.has_spread:
            self.machines_[0].posterior.variance()  # a point estimate refuses
        if len(self.machines_) == 1:
            values, v = self.machines_[0].link.score(m[:, 0], v[:, 0]), v[:, 0]
        else:
            values = self._logits(m, v)
        values = namespace.back(values, X)
        return (values, namespace.back(np.sqrt(v), X)) if return_std else values

    def _logits(self, m: Array, v: Array) -> Array:
        return np.stack(
            [k.link.logit(m[:, j], v[:, j]) for j, k in enumerate(self.machines_)], axis=1
        )

    def _proba(self, m: Array, v: Array) -> Array:
        if len(self.machines_) == 1:
            p = self.machines_[0].proba(m[:, 0], v[:, 0])
            return np.stack([1.0 - p, p], axis=1)
        logs = log_expit(self._logits(m, v))
        out: Array = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return out

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
        return namespace.back(self._proba(*self._moments(X)), X)

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
        return namespace.back(self.classes_[most], X)

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
            They enclose ``predict_proba``.  With more than two classes each class is taken against
            the rest.
        """
        tails = check.tails(level)
        if (lazy := self._halves(X, "predict_interval", level=level)) is not None:
            return lazy  # type: ignore[no-any-return]
        p = self.predict_proba(X)
        parts = [self._bands(rows, tails) for rows in self._pieces(self._new_rows(X))]
        low, high = (np.concatenate(ends) for ends in zip(*parts, strict=True))
        if len(self.machines_) == 1:
            low, high = np.hstack([1.0 - high, low]), np.hstack([1.0 - low, high])
        return np.minimum(low, p), np.maximum(high, p)

    def _bands(self, X: Any, tails: tuple[float, float]) -> tuple[Array, Array]:
        """Probabilities at quantiles of each machine's f, two of ``(n, machines)``."""
        ends = []
        for machine, rows in zip(self.machines_, self._columns_at(X), strict=True):
            f = machine.quantiles(X, tails, rows)
            ends.append([machine.link.proba(q, np.zeros_like(q)) for q in f])
        return np.stack([e[0] for e in ends], axis=1), np.stack([e[1] for e in ends], axis=1)


def _vector(problem: Problem, state: State) -> Array:
    """What a checkpoint holds: latent entries are found again from the rest."""
    return pack(problem.model, state._replace(latents=()))


def pandas_for(what: str) -> Any:
    """The package pandas, which ``what`` needs."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"{what} needs pandas: pip install 'bayesvm[cli]'") from error
    return pd


def arviz_tree(group: dict[str, Any], dims: dict[str, list[str]], coords: dict[str, Any]) -> Any:
    """Draws as an ArviZ data tree."""
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError(
            "to_arviz needs the package arviz-base: pip install 'bayesvm[arviz]'"
        ) from error
    return from_dict({"posterior": group}, dims=dims, coords=coords)


def _described(x: Any) -> Iterator[Array]:
    """What a design is made of, as arrays."""
    if isinstance(x, np.ndarray):
        yield x if x.dtype != object else np.frombuffer(repr(x.tolist()).encode(), np.uint8)
    elif isinstance(x, tuple | list):
        for part in x:
            yield from _described(part)
    elif is_dataclass(x) and not isinstance(x, type):
        yield from _described(type(x).__name__)
        for field in fields(x):
            yield from _described(getattr(x, field.name))
    else:
        text = repr(x)  # an address means nothing in the next process
        yield np.frombuffer((type(x).__name__ if " at 0x" in text else text).encode(), np.uint8)


class _Scope:
    """One machine's corner of a checkpoint."""

    def __init__(self, store: Checkpoint, name: str) -> None:
        self.store, self.name = store, name

    def get(self, key: str) -> dict[str, Array]:
        return self.store.get(f"{self.name}/{key}")

    def put(self, key: str, make: Any, now: bool = False) -> None:
        self.store.put(f"{self.name}/{key}", make, now=now)

    def state(self, problem: Problem, scheme: Any) -> State | None:
        """The state last written, if any."""
        held = self.get("state")
        if not held:
            return None
        model: Model = problem.model
        K = model.width
        covs: dict[str, Any] = {
            "dense": lambda: FullCovariance(np.eye(K)),
            "diagonal": lambda: DiagonalCovariance(np.ones(K)),
            "factored": lambda: DualCovariance(
                problem.rows(problem.blocks[0]).C, np.ones(problem.n), np.ones(K)
            ),
            "arrow": lambda: covariance(problem.stats(model.start()).S, np.ones(K)),
        }
        cov = Point(K) if check.is_point(scheme) else covs[problem.form]()
        like = State(Coef(np.zeros(K), cov), model.init())
        return unpack(model, like, held["vector"])
