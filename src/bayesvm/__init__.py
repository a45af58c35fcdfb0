"""Bayesian support vector machines: margin classifiers that report their uncertainty."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        compare,
        data,
        datasets,
        designs,
        inference,
        kernels,
        likelihoods,
        plot,
        priors,
        sparse_kernel,
        terms,
    )
    from .data.cleaning import TableCleaner
    from .data.storage import load, save
    from .estimators.additive import AdditiveSVC
    from .estimators.factor import FactorSVC
    from .estimators.kernel import BayesianSVC
    from .estimators.linear import BayesianLinearSVC
    from .estimators.mixed import MixedSVC
    from .estimators.pipeline import Pipeline, make_pipeline
    from .estimators.sparse_kernel import PCVC, RVC
    from .estimators.svr import BayesianSVR
    from .export.model import to_onnx
    from .html_report.report import report

__version__ = "0.1.0"

__all__ = [
    "AdditiveSVC",
    "BayesianLinearSVC",
    "BayesianSVC",
    "BayesianSVR",
    "FactorSVC",
    "MixedSVC",
    "compare",
    "data",
    "PCVC",
    "Pipeline",
    "RVC",
    "TableCleaner",
    "datasets",
    "designs",
    "inference",
    "kernels",
    "likelihoods",
    "load",
    "make_pipeline",
    "plot",
    "priors",
    "report",
    "save",
    "sparse_kernel",
    "terms",
    "to_onnx",
]

# modules of the public names; a module is imported on first use
_SOURCES = {
    "AdditiveSVC": "estimators.additive",
    "BayesianLinearSVC": "estimators.linear",
    "BayesianSVC": "estimators.kernel",
    "BayesianSVR": "estimators.svr",
    "FactorSVC": "estimators.factor",
    "MixedSVC": "estimators.mixed",
    "PCVC": "estimators.sparse_kernel",
    "Pipeline": "estimators.pipeline",
    "RVC": "estimators.sparse_kernel",
    "TableCleaner": "data.cleaning",
    "load": "data.storage",
    "make_pipeline": "estimators.pipeline",
    "report": "html_report.report",
    "save": "data.storage",
    "to_onnx": "export.model",
}


def __getattr__(name: str) -> Any:
    if name in _SOURCES:
        value = getattr(import_module(f".{_SOURCES[name]}", __name__), name)
    elif name in __all__:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
