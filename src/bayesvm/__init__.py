"""Bayesian support vector machines: an SVM that knows how sure it is."""

from . import compare, datasets, engines, inference, kernels, likelihoods, plot, priors
from .estimators import PCVC, RVC, BayesianLinearSVC, BayesianSVC, FactorSVC

__version__ = "0.1.0"

__all__ = [
    "BayesianLinearSVC",
    "BayesianSVC",
    "FactorSVC",
    "compare",
    "PCVC",
    "RVC",
    "datasets",
    "engines",
    "inference",
    "kernels",
    "likelihoods",
    "plot",
    "priors",
]
