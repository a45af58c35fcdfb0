"""Displays are shown by the size of what they hold."""

import numpy as np

from bayesvm.plot import CoefficientDisplay


def test_representations_are_short():
    names = [f"column {k}" for k in range(50)]
    many = CoefficientDisplay(names, np.zeros(50), xlabel="x" * 100)
    assert repr(many) == f"CoefficientDisplay(names=<50>, mean=<50>, xlabel='{'x' * 56}...)"
    few = CoefficientDisplay(["a"], np.zeros(1))
    assert repr(few).startswith("CoefficientDisplay(names=['a'], mean=<1>,")
