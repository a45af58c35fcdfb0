"""Compare classifiers: evaluate them on the same splits of the same data, then test.

:func:`evaluate` gives a tidy table.  Two classifiers on one data set are compared by the combined
5x2cv F test; several classifiers over many data sets by ranks: Friedman's test with the correction
of Iman and Davenport, then Nemenyi's test of all pairs or Bonferroni-Dunn against a control.
"""

from .diagram import CriticalDifferenceDisplay
from .evaluation import evaluate, five_by_two, score_table
from .significance import (
    bonferroni_dunn,
    critical_difference,
    f_test_5x2,
    friedman,
    nemenyi,
    win_loss_tie,
)

__all__ = [
    "evaluate",
    "five_by_two",
    "score_table",
    "f_test_5x2",
    "friedman",
    "nemenyi",
    "bonferroni_dunn",
    "critical_difference",
    "win_loss_tie",
    "CriticalDifferenceDisplay",
]
