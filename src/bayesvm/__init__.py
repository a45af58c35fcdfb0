"""Bayesian support vector machines: an SVM that knows how sure it is."""

from . import compare, datasets, engines, inference, likelihoods, plot, priors
from .estimators import BayesianLinearSVC

__version__ = "0.1.0"

__all__ = [
    "BayesianLinearSVC",
    "compare",
    "datasets",
    "engines",
    "inference",
    "likelihoods",
    "plot",
    "priors",
]
