"""Displays: figures of fitted estimators, in scikit-learn's manner.

A Display stores the arrays it draws.  ``from_estimator`` computes them from an estimator of this
package, a pipeline that ends with one, or a search over one, and passes further arguments to
``plot``; ``plot(ax=None)`` draws them, passes further arguments to Matplotlib, sets ``ax_`` and
``figure_`` and returns the Display.  ``label`` is a class, by default the last.  scikit-learn's
``CalibrationDisplay`` draws reliability, ArviZ's ``plot_trace`` the chains of ``model.to_arviz()``;
the history of the bound is ``model.elbo_path_``.
"""

from .coefficients import (
    CoefficientDisplay,
    EffectsDisplay,
    GroupDisplay,
    InclusionDisplay,
    LoadingHeatDisplay,
    RelevanceDisplay,
    TopLoadingDisplay,
)
from .path import PathDisplay, coefficient_path
from .planes import DecisionBandDisplay, FactorScoreDisplay, VectorDisplay
from .predictions import MissingDisplay, PredictiveCheckDisplay, ProbabilityDisplay
from .terms import TermDisplay, TermPanel

__all__ = [
    "CoefficientDisplay",
    "InclusionDisplay",
    "EffectsDisplay",
    "GroupDisplay",
    "MissingDisplay",
    "PathDisplay",
    "coefficient_path",
    "ProbabilityDisplay",
    "PredictiveCheckDisplay",
    "TermDisplay",
    "TermPanel",
    "DecisionBandDisplay",
    "RelevanceDisplay",
    "VectorDisplay",
    "LoadingHeatDisplay",
    "TopLoadingDisplay",
    "FactorScoreDisplay",
]
