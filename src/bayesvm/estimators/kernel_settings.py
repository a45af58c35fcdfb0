"""The parameters of the kernel machine as objects, and what follows from them in a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.types import Array
from ..designs import Standardised
from ..designs.common import in_one_unit
from ..engines.threads import one_blas_thread
from ..inference.progress import Watch
from ..inputs.encoding import Encoding
from ..kernels import Scaled, with_groups
from ..likelihoods import Logistic
from ..likelihoods.tight import Tight
from ..model.model import Model
from ..predictive.leave_one_out import Moments
from ..predictive.link_fitting import SoftmaxFamily, fit_link
from ..predictive.links import SoftmaxLink
from ..processes.evidence import (
    FEW,
    NATS_AT_LEAST,
    START,
    Coarse,
    Search,
    parameter_prior,
    search_coarsely,
)
from ..processes.labelled import LabelledPoints, extent_of
from ..processes.machine import whitened_model
from ..processes.moving import move
from ..processes.points import inducing_points, kmeans_rows
from ..processes.process import Prior
from ..processes.sites import Labels
from ..processes.tune import Tuned, tune
from ..processes.whitened import Whitened
from . import options as check
from .build import choose_engine

SAMPLED = 20_000  # rows of a large fit for tuning and for the places of inducing points
DISTANCES = ("auto", "rbf", "matern")  # kernels of the distance


@dataclass(frozen=True)
class Settings:
    """Parameters of the estimator, names and numbers replaced by objects."""

    params: dict[str, Any]
    scheme: Any
    likelihood: Any
    rule: str | None  # of tuning
    fitc: bool
    level: float  # prior variance of the level of f
    groups: tuple[int, ...] | None = None  # columns that share a length scale
    units: Array | None = None  # scales of columns that are indicators, NaN for others

    @property
    def is_precomputed(self) -> bool:
        return isinstance(self.params["kernel"], str) and self.params["kernel"] == "precomputed"

    @property
    def is_open(self) -> bool:
        """Whether the form of the distance is left to us."""
        named = isinstance(self.params["kernel"], str)
        return named and self.params["kernel"] in DISTANCES and self.params["standardize"]

    def read(self, encoding: Encoding) -> Settings:
        """The settings for columns of which some are indicators."""
        units = encoding.scales if self.params["standardize"] else None
        return replace(self, groups=encoding.groups, units=units)

    def extent(self, points: Array) -> float:
        return extent_of(points, self.params["standardize"], self.groups)

    def start(self, points: Array) -> tuple[Any, bool]:
        """The kernel to start from, and whether its form was left to us."""
        given, extent = self.params["kernel"], self.extent(points)
        kernel, named = check.choose_kernel(given, extent, check.AUTO_KERNELS)
        return with_groups(kernel, self.groups), named

    def model(self, design: Whitened) -> Model:
        """The process as a linear model, with the likelihood whose bound is maximised."""
        tight = self.scheme.is_tight
        model = whitened_model(
            design, self.level, Tight(self.likelihood) if tight else self.likelihood
        )
        single = getattr(self.params["engine"], "dtype", "auto") == "float32"
        return replace(model, dtype="float32") if single else model

    def engine(self, X: Any, K: int) -> Any:
        return choose_engine(self.params["engine"], X, K, self.params["n_jobs"])

    def inducing(self, points: Array, kernel: Any, inputs: Any, *how: Any) -> Array:
        given = self.params["inducing"], self.params["n_inducing"]
        return inducing_points(*given, points, kernel, inputs, *how)

    @property
    def sampled(self) -> tuple[int, ...]:
        """Rows of a large fit that are looked at before it: first fewer if only points are chosen.

        Then all, if few of the first are distinct.
        """
        how, m = self.params["inducing"], self.params["n_inducing"]
        few = self.rule is None and isinstance(how, str) and how == "kmeans"
        first = kmeans_rows(int(m)) if few and isinstance(m, int | np.integer) else SAMPLED
        return (first, SAMPLED) if first < SAMPLED else (SAMPLED,)

    def seen(self, points: Array, machines: tuple[Labels, ...]) -> LabelledPoints:
        return LabelledPoints(points, machines, self.level, self.extent(points))

    def alike(self, inputs: Standardised, X: Array) -> Standardised | None:
        """Columns in one unit, where the evidence may prefer them."""
        numbers = self.is_open and self.rule == "evidence" and self.units is None
        return in_one_unit(inputs, X) if numbers else None

    def in_one_unit(
        self, points: Array, seen: LabelledPoints, rng: np.random.Generator, watch: Watch
    ) -> tuple[LabelledPoints | None, Coarse | None]:
        """Points of columns in one unit if they have clearly more evidence than others.

        Both have one length scale, and the same few rows judge them.  Also the search by these.
        """
        guide = self.likelihood if self.likelihood.normalised else Logistic()
        whole, found = replace(self, groups=None), list[Coarse]()
        alike = replace(whole.seen(points, seen.machines), place=seen.place)
        rng.integers(2**32)  # draws that follow are those of earlier versions
        some = seen.by_digits().some(FEW, rng)
        with one_blas_thread():  # of few rows
            for settings, rows in ((self, seen), (whole, alike)):
                kernel, search = Scaled(START, settings.start(rows.X)[0].kernel), Search(watch)
                few = rows.by_digits() if some is None else rows.by_digits().take(some)
                found.append(search_coarsely(kernel, few, guide.roughly, START, search, *found))
                if search.stopped:
                    return None, None
        first, second = found
        better = second.top.value - first.top.value > NATS_AT_LEAST
        return (alike, second) if better else (None, first)

    def tuned(
        self,
        kernel: Any,
        seen: LabelledPoints,
        rng: np.random.Generator,
        local: bool = True,
        **how: Any,
    ) -> Tuned:
        """The kernel with its parameters learned; ``local`` is whether it may have a local part."""
        weighted = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
        how["local"] = local and (
            isinstance(self.params["kernel"], str) and self.params["kernel"] == "auto"
        )
        return tune(self.rule or "", weighted, seen, self.likelihood, rng, **how)

    def link(self, moments: Moments) -> SoftmaxLink | None:
        """The link over more than two classes, unless each has its own."""
        fitted = self.params["probability"] == "calibrated" and moments.m.shape[1] > 1
        return fit_link(SoftmaxFamily(), *moments) if fitted else None

    @property
    def moves(self) -> bool:
        """Whether inducing points maximise the bound."""
        how = self.params["inducing"]
        return isinstance(how, str) and how == "optimise"

    @property
    def by_sites(self) -> bool:
        """Whether a fit to rows in memory is one of sites at the points, by the tight bound."""
        return self.scheme.is_tight and not self.likelihood.is_learned

    @property
    def grows(self) -> bool:
        """Whether the number of inducing points is left to us, and they stay where they are."""
        automatic = isinstance(self.params["n_inducing"], str)
        return automatic and isinstance(self.params["inducing"], str) and not self.moves

    def together(
        self, kernel: Scaled, Z: Array, seen: LabelledPoints, guide: Any, search: Any
    ) -> tuple[Any, Array]:
        """Kernel and points moved together, by the bound of the guide."""
        prior = parameter_prior(kernel, seen.extent, START)
        process = Prior(kernel, self.level, Z, self.fitc)
        return move(process, seen.by_digits(), guide.tight, prior, search)

    def settled(self, kernel: Any, Z: Array, seen: LabelledPoints, watch: Watch) -> Array:
        """Points moved at the kernel of the fit, by the bound of its likelihood."""
        process, search = Prior(kernel, self.level, Z, self.fitc), Search(watch)
        site = self.likelihood.tight if self.scheme.is_tight else self.likelihood.expected
        return move(process, seen, site, search=search)[1]
