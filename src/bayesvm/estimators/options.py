"""User options (names and numbers), checked once at ``fit``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.parameters import is_among, is_number
from ..designs.imputation import Factors, Unstructured
from ..gp.kernel_search import KernelSearch
from ..inference import EM, SVI, VB, Gibbs
from ..kernels import RBF, Function, Linear, Matern, Polynomial, Scaled
from ..kernels.algebra import Kernel
from ..likelihoods import Hinge, Likelihood, Logistic, Probit, SkewedLaplace, SoftHinge
from ..priors import Bridge, Fixed, LaplaceZero, Lasso, Prior, Ridge, SpikeSlab
from ..priors.gaussian import intercept_prior

LIKELIHOODS: Mapping[str, Any] = {
    "hinge": Hinge(),
    "soft_hinge": SoftHinge(),
    "skewed_laplace": SkewedLaplace(),
    "logistic": Logistic(),
    "probit": Probit(),
}
AUTO: Mapping[str, Any] = {"auto": Logistic()}  # the likelihood of most estimators
SCHEMES: Mapping[str, Any] = {"vb": VB(), "em": EM(), "svi": SVI(), "gibbs": Gibbs()}
KERNELS: Mapping[str, Any] = {"rbf": RBF, "matern": Matern, "linear": Linear, "poly": Polynomial}
AUTO_KERNELS = {"auto": RBF, **KERNELS}  # plus a local component, if the evidence supports it
TUNING = ("evidence", "cv", "bound", "sample")

PRIORS: Mapping[str, Any] = {
    "auto": Ridge(select=True),
    "ridge": Ridge(),
    "fixed": Fixed(1.0),
    "lasso": Lasso(),
    "bridge": Bridge(),
    "spike_slab": SpikeSlab(),
    "laplace_zero": LaplaceZero(),
}
# A chain explores the tail of the prior, which must decrease; see the notes of Ridge.
DRAWN = {**PRIORS, **dict.fromkeys(("auto", "ridge"), Ridge(a=2.0, b=1.0))}


def choose(name: str, value: Any, table: Mapping[str, Any], *kinds: type) -> Any:
    """A component from its short name, or the object itself if it has the right type."""
    if isinstance(value, str) and value in table:
        return table[value]
    if isinstance(value, kinds):
        return value
    known = ", ".join(repr(k) for k in table)
    if isinstance(value, str):
        raise ValueError(f"{name}={value!r} is not known; choose one of {known}, or an object.")
    what = " or ".join(f"{k.__module__}.{k.__name__}" for k in kinds)
    hint = f"; did you mean {value.__name__}()?" if isinstance(value, type) else ""
    raise ValueError(
        f"{name} must be one of {known} or an instance of {what}; got {value!r}{hint}."
    )


def choose_scheme(
    value: Any, max_iter: int | None, tol: float | None, bound: str = "auto"
) -> VB | EM | SVI | Gibbs:
    """The inference scheme with ``max_iter``, ``tol`` and the default bound of the estimator."""
    scheme: VB | EM | SVI | Gibbs = choose("inference", value, SCHEMES, VB, EM, SVI, Gibbs)
    if isinstance(scheme, Gibbs):
        return scheme
    changes: dict[str, Any] = {} if max_iter is None else {"max_iter": max_iter}
    if tol is not None:
        changes["tol"] = float(tol)
    if isinstance(scheme, VB) and scheme.bound == "auto":
        changes["bound"] = bound
    return replace(scheme, **changes) if changes else scheme


def check_full(scheme: Any, model: str) -> None:
    """Refuse options of the scheme that only linear models support."""
    if isinstance(scheme, Gibbs) and scheme.rao_blackwell:
        raise ValueError(
            "Gibbs(rao_blackwell=True) is for BayesianLinearSVC and BayesianSVR; leave it out of "
            f"{model}."
        )
    if isinstance(scheme, VB) and scheme.covariance == "diagonal":
        raise ValueError(
            f"VB(covariance='diagonal') is for BayesianLinearSVC; {model} needs 'full' or 'auto'."
        )


class Parts(NamedTuple):
    """Objects for the parameters of a linear model."""

    scheme: Any
    prior: Any
    level: Any  # prior of the intercept
    likelihood: Any


def choose_parts(estimator: Any, inference: Any = None) -> Parts:
    """Objects from names and numbers, checked against each other."""
    inference = estimator.inference if inference is None else inference
    scheme = choose_scheme(inference, estimator.max_iter, estimator.tol)
    likelihood = choose_likelihood(estimator.likelihood, scheme)
    level = intercept_prior(estimator.intercept_scale)
    prior = choose_prior(estimator.prior, scheme)
    if estimator._models_missing:
        check_missing(estimator.missing, scheme, estimator.checkpoint)
    return Parts(scheme, prior, level, likelihood)


def choose_prior(value: Any, scheme: Any, parameter: str = "prior") -> Any:
    """The prior; ``"auto"`` and ``"ridge"`` select the variant for the scheme."""
    drawn = isinstance(scheme, Gibbs)
    prior = choose(parameter, value, DRAWN if drawn else PRIORS, Prior)
    name = repr(value) if isinstance(value, str) else type(prior).__name__
    needs = ("mode", "log_prob") if isinstance(scheme, EM) else ("update", "bound")
    for method in ("draw", "stretch", "stretched") if drawn else needs:
        if not prior.implements(method):
            raise ValueError(
                f"prior={name} cannot be fitted by {type(scheme).__name__}: it has no {method}(). "
                "Selection priors have no useful point estimate; use inference='vb' or 'gibbs'."
            )
    unknown = prior.needs_draws
    if unknown and not drawn:
        raise ValueError(
            f"{type(prior).__name__} can learn {unknown} by inference='gibbs' only; give "
            f"{unknown}, or draw."
        )
    if isinstance(scheme, SVI) and prior.has_gates:
        raise ValueError(
            f"prior={name} cannot be fitted by SVI, whose sums are too noisy to select "
            "columns; use inference='vb' or 'gibbs'."
        )
    return prior


def choose_likelihood(value: Any, scheme: Any, more: Mapping[str, Any] = AUTO) -> Any:
    """The likelihood; ``more`` are names specific to one estimator."""
    likelihood = choose("likelihood", value, {**more, **LIKELIHOODS}, Likelihood)
    if isinstance(likelihood, SoftHinge) and likelihood.softness == 0:
        likelihood = Hinge()
    if not likelihood.implements("proba"):
        raise ValueError(
            f"{type(likelihood).__name__} is a likelihood of numbers, not of labels; BayesianSVR "
            "fits it."
        )
    drawn = isinstance(scheme, Gibbs)
    together = drawn and getattr(likelihood, "gamma", None) is None
    if isinstance(likelihood, SkewedLaplace) and likelihood.gamma0 is None and not together:
        raise ValueError(
            "SkewedLaplace(gamma0=None) is drawn by inference='gibbs', together with "
            "gamma=None; give gamma0 a number."
        )
    if drawn and not likelihood.implements("draw"):
        raise ValueError(f"{type(likelihood).__name__} has no draw(), which Gibbs needs.")
    if scheme.is_tight and not likelihood.implements("tight"):
        raise ValueError(
            f"{type(likelihood).__name__} has no tight(), which VB(bound='tight') needs; use "
            "VB(bound='augmented')."
        )
    return likelihood


def check_streamed(likelihood: Any) -> None:
    if likelihood.is_learned:
        raise ValueError(f"a stream cannot learn the scale of {likelihood}; give it a number.")


def check_approximation(value: str, scheme: Any, likelihood: Any) -> bool:
    """Whether to use FITC; raises an error if the scheme or likelihood does not support it."""
    if value == "fitc" and not isinstance(scheme, VB | Gibbs):
        raise ValueError(
            f"approximation='fitc' needs inference='vb' or 'gibbs'; {type(scheme).__name__} has no "
            "contribution of single rows."
        )
    if value == "fitc" and likelihood.is_learned:
        raise ValueError(
            f"approximation='fitc' cannot learn the scale of {likelihood}; give it a number, or "
            "use approximation='variational'."
        )
    return value == "fitc"


def choose_tuning(value: Any, scheme: Any) -> str | None:
    """How kernel parameters are learned; ``None`` for fixed parameters."""
    if isinstance(value, str) and value == "sample" and not isinstance(scheme, Gibbs):
        raise ValueError(
            f"tune='sample' draws kernel parameters and needs inference='gibbs'; "
            f"{type(scheme).__name__} draws nothing. Use tune='evidence'."
        )
    if isinstance(value, bool | np.bool_ | KernelSearch):
        return "evidence" if value else None
    if not is_among(value, TUNING):
        known = ", ".join(repr(k) for k in TUNING)
        raise ValueError(f"tune={value!r} is not known; choose True, False or one of {known}.")
    return str(value)


def choose_kernel(
    value: Any, extent: float, names: Mapping[str, Any] = KERNELS
) -> tuple[Any, bool]:
    """The initial kernel, and whether only a name was given, so that its form is free.

    Two rows are about ``sqrt(2 extent)`` apart; each standardised column adds one to the extent.
    """
    if isinstance(value, str) and value in names:
        return Scaled(4.0, names[value](length_scale=float(np.sqrt(extent)))), True
    if callable(value) and not isinstance(value, Kernel | type):
        return Function(value), False
    return choose("kernel", value, {**names, "precomputed": None}, Kernel), False


def check_positive(name: str, value: Any, low: float = 0.0, high: float = np.inf) -> None:
    """Refuse values that are not positive numbers between ``low`` and ``high``."""
    if not (is_number(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    if not low <= float(value) <= high:
        raise ValueError(f"{name} must lie between {low:g} and {high:g}; got {value!r}.")


def check_missing(value: Any, scheme: Any, checkpoint: Any) -> None:
    """Refuse options for missing cells that are unknown or that cannot be fitted."""
    if isinstance(value, str) and value != "model":
        raise ValueError(
            f"missing={value!r} is not known; choose 'auto', 'error', which refuses "
            "NaN, 'model', or an object of bayesvm.designs.imputation."
        )
    choose_imputer(value, 1, 1)
    if scheme.is_tight:
        raise ValueError(
            "missing='model' is fitted with the augmented bound, in which cells have a "
            "distribution. Use VB(bound='augmented')."
        )
    if not isinstance(scheme, VB | Gibbs):
        raise ValueError(
            f"missing='model' cannot be fitted by {type(scheme).__name__}, which has no "
            "distribution of missing cells. Use inference='vb' or 'gibbs'."
        )
    if checkpoint is not None and isinstance(scheme, Gibbs):
        raise ValueError(
            "a checkpoint does not hold drawn cells, so missing='model' with inference='gibbs' "
            "cannot resume from one. Leave checkpoint out."
        )


def choose_imputer(value: Any, n: int, d: int, most_columns: int = 100) -> Any:
    """The distribution of rows with missing cells: full covariance, or a few factors if wide."""
    wide = d > most_columns or (d > 10 and n < 3 * d)
    table = {"model": Factors() if wide else Unstructured()}
    return choose("missing", value, table, Factors, Unstructured)
