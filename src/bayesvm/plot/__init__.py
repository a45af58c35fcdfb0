"""Displays: figures of fitted estimators, in scikit-learn's manner.

A Display stores the arrays it draws.  ``from_estimator`` computes them, from an estimator of this
package, a pipeline that ends with one or a search that found one, and hands what else it is given
to ``plot``; ``plot(ax=None)`` draws them, hands what else it is given to Matplotlib, leaves
``ax_`` and ``figure_`` behind and returns the Display.  ``label`` is a class, by default the last.
``from_results`` draws tables of :func:`bayesvm.compare.evaluate`.
"""

from .checks import PredictiveCheckDisplay
from .coefficients import CoefficientDisplay, EffectsDisplay, GroupDisplay, InclusionDisplay
from .factors import FactorImageDisplay, FactorScoreDisplay, LoadingHeatDisplay, TopLoadingDisplay
from .history import ConvergenceDisplay, TraceDisplay
from .kernel import DecisionBandDisplay, RelevanceDisplay
from .missing import MissingDisplay
from .path import PathDisplay, coefficient_path
from .predictions import CalibrationDisplay, ProbabilityDisplay
from .terms import TermDisplay, TermPanel
from .vectors import SparsityDisplay, VectorDisplay

__all__ = [
    "ConvergenceDisplay",
    "TraceDisplay",
    "CoefficientDisplay",
    "InclusionDisplay",
    "EffectsDisplay",
    "GroupDisplay",
    "MissingDisplay",
    "PathDisplay",
    "coefficient_path",
    "CalibrationDisplay",
    "ProbabilityDisplay",
    "PredictiveCheckDisplay",
    "TermDisplay",
    "TermPanel",
    "DecisionBandDisplay",
    "RelevanceDisplay",
    "VectorDisplay",
    "SparsityDisplay",
    "LoadingHeatDisplay",
    "TopLoadingDisplay",
    "FactorScoreDisplay",
    "FactorImageDisplay",
]
