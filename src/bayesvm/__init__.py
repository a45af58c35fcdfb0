"""Bayesian support vector machines with scikit-learn's interface."""

__version__ = "0.1.0"
