"""The parameters of the kernel machine as objects, and what follows from them in a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.types import Array
from ..gp.data import TrainingData, extent_of
from ..gp.evidence import Evidence, Reporter, maximise, move_points, parameter_prior
from ..gp.kernel_search import KernelSearch, cross_validate, search_kernel
from ..gp.models import whitened_model
from ..gp.posterior import Process
from ..gp.whitened import Whitened
from ..inference.progress import Watch
from ..inputs.encoding import Encoding
from ..kernels import Scaled, with_groups
from ..likelihoods import Logistic
from ..likelihoods.tight import Tight
from ..model.model import Model
from ..predictive.leave_one_out import LooMoments
from ..predictive.links import SoftmaxLink
from . import options as check
from .build import choose_engine

DISTANCES = ("auto", "rbf", "matern")  # kernels of the distance


@dataclass(frozen=True)
class Settings:
    """Parameters of the estimator, names and numbers replaced by objects."""

    params: dict[str, Any]
    scheme: Any
    likelihood: Any
    rule: str | None  # by which the kernel is learned
    search: KernelSearch
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
    def site(self) -> Any:
        """Contributions of the likelihood to the bound that is maximised."""
        return self.likelihood.tight if self.scheme.is_tight else self.likelihood.expected

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
        likelihood = Tight(self.likelihood) if self.scheme.is_tight else self.likelihood
        model = whitened_model(design, self.level, likelihood)
        single = getattr(self.params["engine"], "dtype", "auto") == "float32"
        return replace(model, dtype="float32") if single else model

    def engine(self, X: Any, K: int) -> Any:
        return choose_engine(self.params["engine"], X, K, self.params["n_jobs"])

    def learned(self, kernel: Any, data: TrainingData, named: bool, watch: Watch) -> Any:
        """The kernel with its parameters learned by the rule."""
        if self.rule is None:
            return kernel
        kernel = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
        if self.rule == "cv":
            amplitudes, factors = (tuple(4.0**k for k in range(-3, 5)), (2.0, 1.41, 1.0, 0.7, 0.5))
            how = (amplitudes, factors, self.search, Reporter(watch))
            return cross_validate(kernel, data, self.likelihood, *how)
        local = self.params["kernel"] == "auto" if named else False
        return search_kernel(kernel, data, self.likelihood, self.search, named, local, watch)

    def of_most_bound(self, process: Process, data: TrainingData, watch: Watch) -> Any:
        """The kernel that maximises the bound of the fit itself (Wenzel et al., section 4.3)."""
        kernel = process.kernel
        kernel = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
        prior = parameter_prior(kernel, data.extent, amplitude=4.0)
        score = Evidence(replace(process, kernel=kernel), data, self.site, prior)
        return kernel.with_theta(maximise(score, kernel.theta, prior.step, Reporter(watch)).theta)

    def moved(self, process: Process, data: TrainingData, watch: Watch) -> Process:
        """Inducing points moved up the bound: with the kernel, if it is learned, then alone."""
        reporter, few = Reporter(watch), data.subset(10_000)
        if self.rule == "evidence":
            guide = self.likelihood if self.likelihood.normalised else Logistic()
            prior = parameter_prior(process.kernel, data.extent)
            amplitude = process.kernel.weight
            process = move_points(process, few.search_data(), guide.tight, prior, reporter)
            if not self.likelihood.normalised:  # whose amplitude cross-validation has chosen
                kernel = Scaled(amplitude, process.kernel.kernel)
                process = replace(process, kernel=kernel)
        if reporter.stopped:
            return process
        return move_points(process, few, self.site, reporter=reporter)

    def link(self, moments: LooMoments) -> SoftmaxLink | None:
        """The link over more than two classes, unless each has its own."""
        fitted = self.params["probability"] == "calibrated" and moments.m.shape[1] > 1
        return SoftmaxLink.fit(*moments) if fitted else None
