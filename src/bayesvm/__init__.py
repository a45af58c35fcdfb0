"""Bayesian support vector machines: an SVM that knows how sure it is."""

from . import datasets, engines, inference, kernels, likelihoods, plot, priors
from .estimators import BayesianLinearSVC, BayesianSVC

__version__ = "0.1.0"

__all__ = [
    "BayesianLinearSVC",
    "BayesianSVC",
    "datasets",
    "engines",
    "inference",
    "kernels",
    "likelihoods",
    "plot",
    "priors",
]
