"""The critical-difference diagram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core.types import Array
from ..inspection.display import Display, axes_for
from .significance import bonferroni_dunn, friedman, nemenyi


@dataclass(repr=False)
class CriticalDifferenceDisplay(Display):
    """Critical-difference diagram: mean ranks on a line, with bars (Demšar 2006, Fig. 1).

    Parameters
    ----------
    names : list of str
        The classifiers.
    ranks : ndarray of shape (k,)
        Their mean ranks, 1 the best.
    critical_difference : float
        Mean ranks that differ by more are significantly different.
    groups : list of lists of str
        Groups joined by bars: no two members differ significantly.  Empty with a control.
    control : str, default=None
        The control classifier; the bar then spans the ranks that do not differ from it.

    Examples
    --------
    >>> from bayesvm.compare import CriticalDifferenceDisplay
    >>> display = CriticalDifferenceDisplay.from_scores([[0.9, 0.8, 0.7]] * 10)
    >>> display.groups
    [['0', '1'], ['1', '2']]
    """

    names: list[str]
    ranks: Array
    critical_difference: float
    groups: list[list[str]]
    control: str | None = None

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        *,
        alpha: float = 0.05,
        lower_is_better: bool = False,
        test: Literal["nemenyi", "bonferroni-dunn"] = "nemenyi",
        control: Any = None,
        **kwargs: Any,
    ) -> CriticalDifferenceDisplay:
        """Test and draw: a row per data set, a column per classifier.

        ``test='bonferroni-dunn'`` compares with ``control``, by default the classifier with the
        best rank; the default test compares all pairs and takes no control.
        """
        base = friedman(scores, lower_is_better)
        if test == "nemenyi":
            if control is not None:
                raise ValueError(
                    "Nemenyi's test compares all pairs and has no control; got "
                    f"control={control!r}: give test='bonferroni-dunn' with it."
                )
            pairs = nemenyi(scores, alpha, lower_is_better)
            display = cls(base.names, base.ranks, pairs.critical_difference, pairs.groups)
            return display.plot(**kwargs)
        if test != "bonferroni-dunn":
            raise ValueError(f"test must be 'nemenyi' or 'bonferroni-dunn'; got {test!r}.")
        control = base.names[int(np.argmin(base.ranks))] if control is None else control
        dunn = bonferroni_dunn(scores, control, alpha, lower_is_better)
        display = cls(base.names, base.ranks, dunn.critical_difference, [], dunn.control)
        return display.plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> CriticalDifferenceDisplay:
        """Draw; further arguments go to the lines from the axis to the names."""
        k, cd = len(self.names), self.critical_difference
        half = (k + 1) // 2
        ax = axes_for(self, ax, size=(6.4, 1.4 + 0.25 * half + 0.15 * len(self.groups)))
        rank = dict(zip(self.names, self.ranks))
        if self.control is None:
            spans = [[rank[name] for name in group] for group in self.groups if len(group) > 1]
            bars = [(min(span), max(span)) for span in spans]
        else:  # around the control
            centre = rank[self.control]
            bars = [(max(1.0, centre - cd), min(float(k), centre + cd))]
        top = -0.25 * len(bars) - 0.45  # height of the first name
        style = {"color": "black", "lw": 0.8} | kwargs
        for place, j in enumerate(np.argsort(self.ranks, kind="stable")):
            left = place < half
            x, y = self.ranks[j], top - 0.45 * (place if left else k - 1 - place)
            edge, side, room = (0.85, "right", -0.05) if left else (k + 0.15, "left", 0.05)
            weight = "bold" if self.names[j] == self.control else "normal"
            ax.plot([x, x, edge], [0, y, y], **style)
            text = f"{self.names[j]} ({x:.2f})"
            ax.text(edge + room, y, text, ha=side, va="center", weight=weight)
        for level, (low, high) in enumerate(bars, start=1):
            y = -0.25 * level
            ax.plot([low - 0.03, high + 0.03], [y, y], color="C0", lw=4, solid_capstyle="butt")
        ax.plot([1, k], [0, 0], color="black", lw=1)
        for number in range(1, k + 1):
            ax.plot([number, number], [0, 0.12], color="black", lw=1)
            ax.text(number, 0.2, str(number), ha="center", va="bottom")
        ax.plot([1, 1 + cd], [0.85, 0.85], color="C0", lw=1.5, marker="|")
        ax.text(1 + cd / 2, 0.93, f"CD = {cd:.2f}", ha="center", va="bottom")
        ax.set(ylim=(top - 0.45 * half, 1.5), xlim=(1 - 0.45 * (k - 1), k + 0.45 * (k - 1)))
        ax.axis("off")
        return self
