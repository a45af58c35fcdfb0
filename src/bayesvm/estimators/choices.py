"""Names and numbers from users, checked once at ``fit``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from ..blocks import block_rows
from ..core.arrays import inner, is_foreign
from ..designs.imputation import Factors, Unstructured
from ..engines import Dask, Gpu, Serial, Threads
from ..engines.threads import blas_threads as blas_threads
from ..inference import EM, SVI, VB, Gibbs
from ..inputs.dask import DaskRows
from ..inputs.parameters import check_parameters, is_among
from ..inputs.reading import is_source
from ..kernels import RBF, Function, Linear, Matern, Polynomial, Scaled
from ..likelihoods import Hinge, Likelihood, Logistic, Probit, SkewedLaplace
from ..priors import Bridge, Fixed, LaplaceZero, Lasso, Prior, Ridge, SpikeSlab
from ..reports.tables import tails as tails

LIKELIHOODS: Mapping[str, Any] = {
    "hinge": Hinge(),
    "skewed_laplace": SkewedLaplace(),
    "logistic": Logistic(),
    "probit": Probit(),
}
SCHEMES: Mapping[str, Any] = {"vb": VB(), "em": EM(), "svi": SVI(), "gibbs": Gibbs()}
KERNELS: Mapping[str, Any] = {"rbf": RBF, "matern": Matern, "linear": Linear, "poly": Polynomial}
TUNING = ("evidence", "cv", "bound", "sample")
PROBABILITIES = ("calibrated", "normalised", "probit")

PRIORS: Mapping[str, Any] = {
    "ridge": Ridge(),
    "fixed": Fixed(1.0),
    "lasso": Lasso(),
    "bridge": Bridge(),
    "spike_slab": SpikeSlab(),
    "laplace_zero": LaplaceZero(),
}
# A chain explores the tail of the prior, so it needs one that falls; see the notes of Ridge.
DRAWN = {**PRIORS, "ridge": Ridge(a=2.0, b=1.0)}

ENGINE = ("sum", "collect", "check", "block_rows", "available", "place", "empty")

WIDE = 100  # columns beyond which a covariance of any shape is too much to learn


def choose(name: str, value: Any, table: Mapping[str, Any], kind: type | tuple[str, ...]) -> Any:
    """A component from its short name, or the object itself if it is of the kind needed.

    ``kind`` is a base class, or the methods that are needed.
    """
    if isinstance(value, str):
        if value not in table:
            known = ", ".join(repr(k) for k in table)
            raise ValueError(f"{name}={value!r} is not known; choose one of {known}, or an object.")
        made = table[value]
        return made() if isinstance(made, type) else made
    if isinstance(kind, type):
        good, what = isinstance(value, kind), f"an instance of {kind.__module__}.{kind.__name__}"
    else:
        good = all(hasattr(value, m) for m in kind)
        what = f"an object with methods {', '.join(kind)}"
    if not good or isinstance(value, type):
        known = ", ".join(repr(k) for k in table)
        hint = f"; did you mean {value.__name__}()?" if isinstance(value, type) else ""
        raise ValueError(f"{name} must be one of {known} or {what}; got {value!r}{hint}.")
    return value


def choose_scheme(value: Any, max_iter: int | None, tol: float | None) -> Any:
    """The inference scheme, with the estimator's ``max_iter`` and ``tol`` where it has them."""
    scheme = choose("inference", value, SCHEMES, ("fit",))
    changes: dict[str, Any] = {}
    for name, given in (("max_iter", max_iter), ("tol", tol)):
        if given is None:
            continue
        whole = name == "max_iter"
        if not (isinstance(given, Real) and given >= (1 if whole else 0)):
            raise ValueError(
                f"{name} must be {'at least 1' if whole else 'at least 0'}; got {given!r}."
            )
        if hasattr(scheme, name):
            changes[name] = given if whole else float(given)
    return replace(scheme, **changes) if changes else scheme


def idle_limits(inference: Any) -> dict[str, str]:
    """``max_iter`` and ``tol`` where the scheme has none, with the reason."""
    scheme = SCHEMES.get(inference, inference) if isinstance(inference, str) else inference
    why = "with inference='gibbs'; see bayesvm.inference.Gibbs(draws=..., burn_in=...)"
    absent = (name for name in ("max_iter", "tol") if not hasattr(scheme, name))
    return {} if scheme is None else dict.fromkeys(absent, why)


def choose_prior(value: Any, scheme: Any, parameter: str = "prior") -> Any:
    """The prior; ``"ridge"`` means the variant that suits the scheme."""
    prior = choose(parameter, value, DRAWN if isinstance(scheme, Gibbs) else PRIORS, Prior)
    name = repr(value) if isinstance(value, str) else type(prior).__name__
    needs: tuple[str, ...] = ("update", "bound")
    if is_sampler(scheme):
        needs = ("draw", "stretch", "stretched")
    elif is_point(scheme):
        needs = ("mode", "log_prob")
    lacks = [m for m in needs if not prior.implements(m)]
    if lacks:
        raise ValueError(
            f"prior={name} cannot be fitted by {type(scheme).__name__}: it has no {lacks[0]}(). "
            "Selection priors have no point estimate worth the name; use inference='vb' or 'gibbs'."
        )
    unknown = prior.needs_draws
    if unknown and not is_sampler(scheme):
        raise ValueError(
            f"{type(prior).__name__} can learn {unknown} by inference='gibbs' only; give "
            f"{unknown}, or draw."
        )
    if isinstance(scheme, SVI) and prior.has_gates:
        raise ValueError(
            f"prior={name} cannot be fitted by SVI, whose sums forget too much to decide about a "
            "column; use inference='vb' or 'gibbs'."
        )
    return prior


def intercept_prior(scale: Any, default: float) -> Fixed:
    """The prior of an intercept from its standard deviation; flat if that is infinite."""
    scale = default if scale is None else scale
    number = isinstance(scale, Real) and not isinstance(scale, bool)
    if not (number and float(scale) > 0):
        raise ValueError(f"intercept_scale must be a positive number or None; got {scale!r}.")
    return Fixed(1.0 / (float(scale) * float(scale)))


def choose_likelihood(value: Any, scheme: Any) -> Any:
    likelihood = choose("likelihood", value, LIKELIHOODS, Likelihood)
    if is_sampler(scheme) and not likelihood.implements("draw"):
        raise ValueError(f"{type(likelihood).__name__} has no draw(), which Gibbs needs.")
    return likelihood


def check_streamed(likelihood: Any) -> None:
    if likelihood.is_learned:
        raise ValueError(f"a stream cannot learn the scale of {likelihood}; give it a number.")


def choose_engine(
    value: Any,
    n: int,
    K: int,
    n_jobs: int | None,
    X: Any = None,
    dtype: str = "auto",
    memory: int | None = None,
) -> Any:
    """The engine, with ``dtype`` and ``memory`` where it has none of its own."""
    check_parameters({"n_jobs": n_jobs})
    if not is_among(value, ("auto",)):
        table = {"serial": Serial(), "threads": Threads(n_jobs), "gpu": Gpu(), "dask": Dask()}
        engine = choose("engine", value, table, ENGINE)
    elif is_foreign(X):
        engine = Gpu.of(X)
    elif isinstance(X, DaskRows):
        engine = Dask()
    else:
        engine = Threads(n_jobs) if n > 2 * block_rows(K) else Serial()
    if is_among(engine.dtype, ("auto",)) and not is_among(dtype, ("auto",)):
        engine = replace(engine, dtype=dtype)
    if engine.memory is None and memory is not None:
        engine = replace(engine, memory=memory)
    engine.check()
    return engine


def choose_size(engine: Any, K: int, wide: int = 0) -> int:
    """Rows of a block: as many as suit the engine, else as the cache can hold.

    Sums over groups are ``wide``, which the columns of a block are not.
    """
    return int(engine.block_rows(K, wide))


def placed(engine: Any, X: Any, c: Any) -> tuple[Any, Any]:
    """Rows and weights where the engine works, if it has a place of its own and they fit."""
    if not engine.on_device or is_source(X):
        return X, c
    if isinstance(inner(X), np.ndarray) and inner(X).nbytes > engine.available():
        return X, c  # block by block, then
    return engine.place(X), engine.place(c)


def check_engine(engine: Any, scheme: Any, X: Any = None) -> None:
    """Rows that are elsewhere can be summed over there, and little else."""
    if isinstance(X, DaskRows):
        if not isinstance(engine, Dask):
            raise ValueError("Dask collections are fitted by engine='auto' or 'dask'.")
        if not isinstance(scheme, VB | Gibbs):
            raise ValueError(
                f"Dask collections are fitted by inference='vb' or 'gibbs'; {type(scheme).__name__}"
                " looks at rows one by one. Compute the collection, or sample it, for that."
            )
    if engine.on_device and not isinstance(scheme, VB):
        raise ValueError(
            f"rows on a device are fitted by inference='vb'; {type(scheme).__name__} needs them on "
            "the host: give NumPy arrays and engine='threads'."
        )


def choose_bound(scheme: Any, auto: str, bound: str = "auto", covariance: str = "auto") -> Any:
    """The scheme with the bound settled that ``"auto"`` stands for."""
    if not isinstance(scheme, VB):
        VB(bound=bound, covariance=covariance)  # checks the words
        if bound == "tight":
            raise ValueError(
                f"bound='tight' needs inference='vb'; {type(scheme).__name__} has no bound to "
                "tighten. Use bound='auto'."
            )
        return scheme
    bound = scheme.bound if is_among(bound, ("auto",)) else bound
    covariance = scheme.covariance if is_among(covariance, ("auto",)) else covariance
    return replace(scheme, bound=auto if bound == "auto" else bound, covariance=covariance)


def check_approximation(value: str, scheme: Any, likelihood: Any) -> bool:
    """Whether what inducing points leave is FITC's, and whether that can be fitted."""
    if not is_among(value, ("variational", "fitc")):
        raise ValueError(f"approximation={value!r} is not known; choose 'variational' or 'fitc'.")
    if value == "fitc" and not isinstance(scheme, VB | Gibbs):
        raise ValueError(
            f"approximation='fitc' needs inference='vb' or 'gibbs'; {type(scheme).__name__} keeps "
            "no account of what each row has learned of its own."
        )
    if value == "fitc" and likelihood.is_learned:
        raise ValueError(
            f"approximation='fitc' cannot learn the scale of {likelihood}; give it a number, or "
            "use approximation='variational'."
        )
    return value == "fitc"


def choose_tuning(value: Any, scheme: Any) -> str | None:
    """The rule by which kernel parameters are learned; ``None`` for none."""
    if isinstance(value, str) and value == "sample" and not is_sampler(scheme):
        raise ValueError(
            f"tune='sample' draws kernel parameters and needs inference='gibbs'; "
            f"{type(scheme).__name__} draws nothing. Use tune='evidence'."
        )
    if isinstance(value, bool | np.bool_):
        return "evidence" if value else None
    if not is_among(value, TUNING):
        known = ", ".join(repr(k) for k in TUNING)
        raise ValueError(f"tune={value!r} is not known; choose True, False or one of {known}.")
    return str(value)


def choose_kernel(value: Any, extent: float) -> tuple[Any, bool]:
    """The kernel to start from, and whether its form was left to us by giving a name only.

    Two rows are about ``sqrt(2 extent)`` apart; standardised columns have an extent of one each.
    """
    if isinstance(value, str) and value in KERNELS:
        return Scaled(4.0, KERNELS[value](length_scale=float(np.sqrt(extent)))), True
    if callable(value) and not hasattr(value, "pull") and not isinstance(value, type):
        return Function(value), False
    table = {**KERNELS, "precomputed": None}
    return choose("kernel", value, table, ("theta", "with_theta", "diag", "pull")), False


def check_positive(name: str, value: Any, low: float = 0.0, high: float = np.inf) -> None:
    """Refuse all but positive numbers with which something can be computed."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < value < np.inf:  # type: ignore[operator]
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    if not low <= value <= high:  # type: ignore[operator]
        raise ValueError(f"{name} must lie between {low:g} and {high:g}; got {value!r}.")


def check_probability(value: str) -> str:
    if not (isinstance(value, str) and value in PROBABILITIES):
        known = ", ".join(repr(k) for k in PROBABILITIES)
        raise ValueError(f"probability must be one of {known}; got {value!r}.")
    return value


IMPUTER = ("begin", "update", "bound", "draw")


def choose_imputer(value: Any, n: int, d: int) -> Any:
    """The distribution of rows with missing cells: any covariance, or few factors if wide."""
    wide = d > WIDE or (d > 10 and n < 3 * d)
    table = {"model": Factors() if wide else Unstructured()}
    return choose("missing", value, table, IMPUTER)


def choose_dtype(engine: Any, scheme: Any) -> str:
    """Precision of the columns of a kernel machine; an exact mode needs more than a posterior."""
    if engine.dtype == "auto":
        return "float64" if is_point(scheme) else "float32"
    return str(engine.dtype)


def check_large(rule: str | None, fitc: bool) -> None:
    """What fits to very many rows can do."""
    if rule == "sample" or fitc:
        what = "approximation='fitc'" if fitc else "tune='sample'"
        raise ValueError(
            f"{what} is for fits to at most 50,000 rows in memory; use approximation='variational' "
            "and tune='evidence', or fewer rows."
        )


def is_sampler(scheme: Any) -> bool:
    return isinstance(scheme, Gibbs)


def is_point(scheme: Any) -> bool:
    return isinstance(scheme, EM)


def has_spread(scheme: Any) -> bool:
    """Whether rows are seen by a distribution rather than by a point or a draw."""
    return isinstance(scheme, VB | SVI)


def needs_matrix(scheme: Any) -> bool:
    return isinstance(scheme, SVI)
