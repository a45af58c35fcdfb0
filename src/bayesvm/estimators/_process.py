"""What a kernel machine is made of: a process at its points, and what to ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from ..blocks import Blocks, block_rows
from ..blocks.memory import keep_what_is_freed
from ..core import arrays
from ..core.types import Array, Coef, Rows, Term
from ..designs import Intercept
from ..gaussian.covariances import covariance
from ..gaussian.forms import sandwich
from ..inference.loop import State
from ..inference.progress import Progress, Watch
from ..kernels import Scaled
from ..machines.machine import Machine
from ..model.model import Model, Problem
from ..priors import Fixed
from ..processes.evidence import LabelledPoints, extent_of
from ..processes.gibbs import Sampled
from ..processes.points import ALL_ROWS, FIRST_INDUCING, Distinct, inducing_points
from ..processes.process import (
    Gram,
    Labels,
    LowRank,
    Predictor,
    Prior,
    Sites,
    factor,
    fit_sites,
    invert,
)
from ..processes.tune import kernel_prior, tune
from ..processes.whitened import Whitened
from ..reports.kernels import KernelReport
from . import choices as check
from ._points import find_places, is_precomputed
from ._sites import fit_by_chains, fit_by_sites


class Prepared(NamedTuple):
    """Everything that is known before the fit itself."""

    data: Distinct
    kept: Array  # rows that have weight
    points: Array  # distinct rows, on the scale of the kernel
    machines: tuple[Labels, ...]
    kernel: Any
    sites: list[Sites] | None  # from which a fit at all points may start
    design: Whitened
    rng: np.random.Generator


class ProcessClassifier(KernelReport):
    """Base of the kernel machine; the subclass decides what is fitted, this class knows how."""

    _accept_sparse: Any = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """What predictions need: of an exact process one triangular factor for each machine.

        Its columns, as many as there are points, are found again from these.
        """
        state = dict(super().__getstate__())
        if state.get("_predictors") is not None:
            state["machines_"] = [_with_columns(m, np.empty((0, 0))) for m in state["machines_"]]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if state.get("_predictors") is not None:
            C = _columns_of(self.machines_[0].model.terms[-1].design)
            self.machines_ = [_with_columns(m, C) for m in self.machines_]

    @property
    def _precomputed(self) -> bool:
        return is_precomputed(self.kernel)

    def _prepared(
        self, X: Any, codes: Array, c: Array, rule: str | None, likelihood: Any, how: str
    ) -> Prepared:
        """Distinct rows, the kernel tuned to them, and the columns at its points.

        ``how`` is the fit to come: ``"variational"``, ``"fitc"`` or a ``"stream"``.
        """
        keep_what_is_freed()
        rng = self._fit_generator("places")
        kept = np.flatnonzero(c > 0)
        tuned = rule is not None
        data, inputs, points, kernel, named = find_places(
            self.kernel, self.standardize, tuned, X, codes, c, kept
        )
        machines = tuple(
            Labels(t, data.c, data.at, points.shape[0]) for t in self._targets(data.codes)
        )
        every = FIRST_INDUCING if how == "stream" else ALL_ROWS
        given = (self.inducing, self.n_inducing)
        chosen: list[Array] = []

        def choose(kernel: Any) -> Array:
            if not chosen:
                chosen.append(inducing_points(*given, points, kernel, inputs, rng, every))
            return chosen[0]

        def through(kernel: Any) -> Array | None:
            Z = choose(kernel)
            return None if Z is points else Z

        with check.blas_threads(points.shape[0], "dense"), self._reporting() as report:
            sites = None
            # a class that a stream has no rows of yet has no part in the choice
            met = tuple(m for m in machines if np.ptp(m.y) > 0)
            if rule is not None and met:
                weighted = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
                extent = extent_of(points, self.standardize)
                seen = LabelledPoints(points, met, float(self.bias) ** 2, extent)
                kernel, sites = tune(
                    rule,
                    weighted,
                    seen,
                    likelihood,
                    rng,
                    named,
                    through,
                    how == "fitc",
                    watch=lambda progress, _: report(progress),
                )
            design = Whitened(kernel, choose(kernel), inputs)
            design.L  # noqa: B018
        self.inducing_points_ = design.Z * inputs.scale + inputs.center
        if self._precomputed:
            self.inducing_points_ = design.Z[:, 0].astype(int)
        return Prepared(data, kept, points, machines, kernel, sites, design, rng)

    def _fit_by_sites(self, ready: Prepared, model: Model, scheme: Any) -> list[Machine]:
        process = LowRank.of(
            ready.kernel, ready.design.Z, ready.points, float(self.bias) ** 2, True
        )
        with self._watched(model) as watch:
            return [
                fit_by_sites(process, labels, model, scheme, self.probability, watch)
                for labels in ready.machines
            ]

    def _fit_by_chains(
        self, ready: Prepared, model: Model, scheme: Any, likelihood: Any, fitc: bool, drawn: bool
    ) -> list[Machine]:
        kernel, X, Z = ready.kernel, ready.points, ready.design.Z
        extent = extent_of(X, self.standardize)
        prior = kernel_prior(kernel, extent, likelihood) if drawn else None
        level = float(self.bias) ** 2
        how = (ready.design, model, scheme, self.probability, ready.rng)
        with self._watched(model) as watch:
            return [
                fit_by_chains(
                    Sampled(Prior(kernel, level, Z, fitc), X, labels, likelihood, prior),
                    *how,
                    watch,
                    self.n_jobs,
                )
                for labels in ready.machines
            ]

    @contextmanager
    def _watched(self, model: Model) -> Iterator[Watch]:
        if self.checkpoint is not None:
            raise ValueError(
                "checkpoint= is not kept for approximation='fitc' or tune='sample'; leave it out."
            )
        threads = check.blas_threads(model.width, "dense")
        with threads, self._reporting() as report:
            yield lambda progress, state: report(progress)

    def _model(self, design: Whitened, likelihood: Any) -> Model:
        level = Term("bias", Intercept(), Fixed(float(self.bias) ** -2))
        return Model((level, Term("gp", design, Fixed(1.0))), likelihood)

    def _problem(self, model: Model, data: Distinct, scheme: Any) -> Problem:
        """Columns are built once: at the points themselves they are the rows of the factor."""
        design, n, K = model.terms[-1].design, data.c.size, model.width
        exact = design.width == data.X.shape[0] and isinstance(self.inducing, str)
        # as many coefficients as rows: an n-sized factor says the same for less
        form = "factored" if exact and n < K and not check.needs_matrix(scheme) else "dense"
        engine = check.choose_engine(self.engine, n, K, self.n_jobs)
        blocks = Blocks(data.X, np.empty(n), data.c, n if form == "factored" else block_rows(K))
        if exact:
            rows = Rows(_columns_of(design)[data.at])
        else:
            rows = model.rows(data.X[data.at])
            if not check.has_spread(scheme):  # a point sees the low-rank function itself
                rows = Rows(rows.C)
        return Problem(model, blocks.assembled(rows), engine, form)

    def _starts(self, problem: Problem, ready: Prepared, scheme: Any) -> list[State | None]:
        """Where tuning ended; with every row a point the answer itself, by one Gram matrix."""
        points, machines, sites = ready.points, ready.machines, ready.sites
        model, design = problem.model, problem.model.terms[-1].design
        exact = design.Z is points
        if not check.has_spread(scheme) or not (exact or sites):
            return [None] * len(machines)
        if exact:
            K, site = design.L @ design.L.T + float(self.bias) ** 2, model.likelihood.expected
            first: list[Sites | None] = [*sites] if sites else [None] * len(machines)
            with self._reporting() as report:

                def watch(progress: Progress, _: Any) -> bool:
                    return report(progress._replace(stage="start"))

                sites = [
                    fit_sites(Gram(K), labels, site, near, tol=3e-6, watch=watch).sites
                    for labels, near in zip(machines, first, strict=True)
                ]
        C, P = problem.blocks.X, model.precision(model.init())
        if C.shape[0] > points.shape[0]:  # a point with two labels has two rows
            C = C[np.unique(ready.data.at, return_index=True)[1]]
        starts: list[State | None] = []
        for w, b in sites or ():
            cov = covariance(sandwich(C, w, problem.form), P)
            starts.append(State(Coef(cov.solve(C.T @ b), cov), model.init()))
        return starts

    def _mark_support(self, problem: Problem, data: Distinct, kept: Array, n: int) -> None:
        """Rows on or inside the margin."""
        held: list[Array] = []
        for machine, y in zip(self.machines_, self._targets(data.codes), strict=True):
            dual = machine.dual
            if dual is not None and dual.size:  # only the hinge has them
                held.append(dual > 1e-8 * data.c)
                continue
            if machine.in_sample is not None:
                m, v = machine.in_sample
            else:
                m, v = machine.posterior.moments(problem.blocks.X)
                v = v + problem.blocks.extra
            held.append(ndtr((1.0 - y * m) / np.sqrt(np.maximum(v, 1e-300))))
        every = np.zeros((n, len(held)))
        every[kept] = np.stack(held, axis=1)[data.back]
        self.support_ = np.flatnonzero(every.max(axis=1) > 0.5)
        self.__dict__.pop("support_proba_", None)
        if self.machines_[0].posterior.has_spread:
            self.support_proba_ = every[:, 0] if len(held) == 1 else every

    # ----- asking

    def _predictors_of(self, problem: Problem) -> list[Predictor] | None:
        """With one row a point, predictions by kernel values alone and the points that matter."""
        if problem.form != "factored" or not self.machines_[0].posterior.has_spread:
            return None
        if any(m.draws is not None for m in self.machines_):
            return None
        L = problem.model.terms[-1].design.L
        K = L @ L.T + float(self.bias) ** 2
        out = []
        for machine in self.machines_:
            mean, cov = machine.state.coef
            alpha = solve_triangular(L, mean[1:], lower=True, trans=1, check_finite=False)
            w = cov.w  # type: ignore[attr-defined]
            on = np.flatnonzero(w * np.diag(K) > 1e-10)
            out.append(Predictor(alpha, w[on], invert(factor(K, w[on], on)), on))
        return out

    def _on_device(self) -> bool:
        return self._predictors is None and super()._on_device()

    def _moments_at(self, X: Any) -> list[tuple[Array, Array]]:
        if self._predictors is None:
            return super()._moments_at(X)
        model = self.machines_[0].model
        design, level = model.terms[-1].design, 1.0 / model.terms[0].prior.precision
        rows = design.inputs.columns(X)
        cross, diag = design.kernel(rows, design.Z) + level, design.kernel.diag(rows) + level
        return [p(cross, diag) for p in self._predictors]

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draws of the function f, jointly over rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like of shape (rows, n_features), optional
            Where; by default at the inducing points, which is all that is known of a precomputed
            kernel.  At rows of a source or of a Dask collection (lazily) what the points leave open
            is drawn jointly for a thousand neighbouring rows, no more.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, rows)
            One more axis, of classes, after the first when there are more than two.
        """
        check_is_fitted(self, "machines_")
        rng = self._generator(random_state)
        if X is not None and (away := self._draws_away(X, n, rng)) is not None:
            return away  # type: ignore[no-any-return]
        if X is None:
            places = self.machines_[0].model.terms[-1].design.Z
            X = places if self._precomputed else self.inducing_points_
        else:
            X = arrays.to_numpy(self._new_rows(X))
        draws = []
        for machine in self.machines_:
            draws.append(_joint(machine, X, machine.posterior.sample(n, rng), rng))
        return draws[0] if len(draws) == 1 else np.stack(draws, axis=1)

    def _drawn_at(self, X: Any, thetas: list[Array], rng: np.random.Generator) -> list[Array]:
        return [_joint(m, X, t, rng) for m, t in zip(self.machines_, thetas, strict=True)]


def _columns_of(design: Whitened) -> Array:
    """Columns of an exact process at its own points: the level's, and the rows of the factor."""
    return np.column_stack([np.ones(design.width), np.tril(design.L)])


def _with_columns(machine: Machine, C: Array) -> Machine:
    """The machine of an exact process whose covariance has such columns."""
    coef = machine.state.coef
    coef = Coef(coef.mean, replace(coef.cov, C=C))  # type: ignore[type-var]
    posterior = replace(machine.posterior, coef=coef)  # type: ignore[type-var]
    return replace(machine, posterior=posterior, state=machine.state._replace(coef=coef))


def _joint(machine: Machine, X: Any, theta: Array, rng: np.random.Generator) -> Array:
    """f jointly at rows, for draws of the coefficients."""
    model = machine.model
    with check.blas_threads(X.shape[0], "dense"):
        f: Array = model.terms[-1].design.joint(X, theta[:, model.slices[-1]], rng)
    return f + theta[:, :1] if len(model.terms) > 1 else f
