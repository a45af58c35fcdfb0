"""Comparing classifiers: run them on the same divisions of the same data, then test.

:func:`evaluate` gives a tidy table.  On one data set two classifiers are compared by the combined
5x2cv F test; over many data sets all of them by ranks: Friedman's test with the correction of Iman
and Davenport, then Nemenyi's test of all pairs or that of Bonferroni and Dunn against one.
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
