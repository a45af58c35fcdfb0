"""Bayesian support vector machines: an SVM that knows how sure it is."""

from . import (
    blocks,
    compare,
    datasets,
    engines,
    inference,
    kernels,
    likelihoods,
    plot,
    priors,
    terms,
)
from .estimators import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from .files.storage import load, save

__version__ = "0.1.0"

__all__ = [
    "AdditiveSVC",
    "BayesianLinearSVC",
    "BayesianSVC",
    "FactorSVC",
    "MixedSVC",
    "blocks",
    "compare",
    "PCVC",
    "RVC",
    "datasets",
    "engines",
    "inference",
    "kernels",
    "likelihoods",
    "load",
    "plot",
    "priors",
    "save",
    "terms",
]
