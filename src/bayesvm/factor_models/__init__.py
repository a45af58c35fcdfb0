"""Factor models of a table: sparse loadings, scores, and classifiers on the scores."""

from .loadings import Drawn, FactorPrior, Loadings, project
from .observed_data import Scores, Sheet, Sums

__all__ = ["Drawn", "FactorPrior", "Loadings", "Scores", "Sheet", "Sums", "project"]
