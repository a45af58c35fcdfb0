"""Displays are shown by the size of what they hold."""

import numpy as np

from bayesvm.plot import CalibrationDisplay, CoefficientDisplay


def test_representations_are_short():
    shown = CalibrationDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.2, 0.1, 0.9], n_bins=2)
    assert repr(shown) == (
        "CalibrationDisplay(prob_pred=<2>, prob_true=<2>, counts=<2>, log_loss=0.6841, "
        "brier=0.2175, name='')"
    )
    names = [f"column {k}" for k in range(50)]
    many = CoefficientDisplay(names, np.zeros(50), xlabel="x" * 100)
    assert repr(many) == f"CoefficientDisplay(names=<50>, mean=<50>, xlabel='{'x' * 56}...)"
    few = CoefficientDisplay(["a"], np.zeros(1))
    assert repr(few).startswith("CoefficientDisplay(names=['a'], mean=<1>,")
