"""The diagram says what the tests found."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from bayesvm.compare import CriticalDifferenceDisplay, bonferroni_dunn, nemenyi

RNG = np.random.default_rng(0)
SCORES = RNG.random((12, 5)) + np.linspace(0, 0.8, 5)


def test_pairs():
    display = CriticalDifferenceDisplay.from_scores(SCORES, alpha=0.1)
    result = nemenyi(SCORES, alpha=0.1)
    assert display.groups == result.groups
    texts = [t.get_text() for t in display.ax_.texts]
    assert f"CD = {result.critical_difference:.2f}" in texts
    for name, rank in zip(result.names, result.ranks):
        assert f"{name} ({rank:.2f})" in texts
    bars = [line for line in display.ax_.lines if line.get_linewidth() == 4]
    assert len(bars) == sum(len(group) > 1 for group in result.groups)


def test_against_a_control():
    display = CriticalDifferenceDisplay.from_scores(SCORES, test="bonferroni-dunn")
    assert display.control == "4"
    result = bonferroni_dunn(SCORES, 4)
    (bar,) = (line for line in display.ax_.lines if line.get_linewidth() == 4)
    inside = [
        name
        for name, rank in zip(display.names, display.ranks)
        if bar.get_xdata()[0] <= rank <= bar.get_xdata()[1]
    ]
    expected = ["4", *(n for n, s in zip(result.names, result.significant) if not s)]
    assert sorted(inside) == sorted(expected)


def test_own_axes_and_style():
    figure, ax = plt.subplots()
    display = CriticalDifferenceDisplay.from_scores(SCORES, ax=ax, linestyle=":")
    assert display.figure_ is figure
    assert ax.lines[0].get_linestyle() == ":"
    with pytest.raises(ValueError, match="got 'tukey'"):
        CriticalDifferenceDisplay.from_scores(SCORES, test="tukey")
    with pytest.raises(ValueError, match="all pairs and has no control; got control=2"):
        CriticalDifferenceDisplay.from_scores(SCORES, control=2)
