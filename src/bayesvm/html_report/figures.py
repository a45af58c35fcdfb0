"""Figures of the report: matplotlib's SVG, coloured by the page that shows it."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from markupsafe import Markup
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..core.types import Array
from .words import short

LARGE, SMALL = (4.6, 3.5), (3.5, 2.7)  # inches
# Colours of the page by name; matplotlib draws with the light ones
COLOURS = {
    "k0": "#0b62b0", "k1": "#b3470a", "k2": "#0a7a5a", "k3": "#9a3d86", "k4": "#7a6200",
    "k5": "#667384", "soft": "#556170", "ink": "#18212c", "rule": "#e2e6eb", "paper": "#ffffff",
}  # fmt: skip
CLASSES = [COLOURS[f"k{j}"] for j in range(6)]  # at most six classes are drawn in one figure
STYLE: Any = {
    "svg.fonttype": "none", "text.parse_math": False, "axes.unicode_minus": True, "font.size": 9,
    "text.color": COLOURS["ink"], "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": COLOURS["soft"], "xtick.color": COLOURS["soft"],
    "ytick.color": COLOURS["soft"], "axes.grid": True, "axes.grid.axis": "y",
    "axes.axisbelow": True, "grid.color": COLOURS["rule"], "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "ytick.left": False,
    "xtick.bottom": False, "lines.linewidth": 1.8, "legend.frameon": False,
    "axes.prop_cycle": cycler(color=CLASSES), "axes.facecolor": "none",
    "figure.facecolor": "none",
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A picture with its title and what it shows in words; notebooks show it."""

    title: str
    text: str
    svg: Markup

    def _repr_html_(self) -> str:
        return f"<figure>{self.svg}</figure>"


def drawn(
    key: str, title: str, text: str, draw: Callable[[Any], None],
    size: tuple[float, float] = LARGE, mark: str = "",
) -> Figure:  # fmt: skip
    """What ``draw`` puts on axes, as SVG; ``mark`` names a point that the page moves.

    Names of elements begin with ``key``: several figures stand on one page.
    """
    buffer, width, height = io.StringIO(), 72 * size[0], 72 * size[1]
    with mpl.rc_context({**STYLE, "svg.hashsalt": key}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of signs that the font of the layout lacks
        canvas = Canvas(figsize=size, layout="constrained")
        axes = canvas.subplots()
        draw(axes)
        canvas.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") : svg.rindex("</svg>")].split(">", 1)[1]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    prefix = re.sub(r"\W", "-", key)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", svg).replace("xlink:href", "href")
    for name, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name}, {colour})")
    if mark:
        x0, y0, x1, y1 = axes.get_position().extents
        box = [width * x0, width * x1, height * (1 - y1), height * (1 - y0)]
        ends = " ".join(f"{end:.2f}" for end in box)
        svg += f'<circle id="{mark}" class="mark" r="4.5" cx="-20" cy="-20" data-box="{ends}"/>'
    start = Markup(
        '<svg class="plot" style="max-width:{}px" viewBox="0 0 {:g} {:g}" role="img" '
        'aria-label="{}">'
    ).format(round(1.7 * width), width, height, f"{title}. {text}")
    return Figure(title, text, start + Markup(svg) + Markup("</svg>"))


def _percent(axis: Any) -> None:
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.4g}\N{NO-BREAK SPACE}%"))
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def _finish(axes: Any, xlabel: str, ylabel: str, percent: str = "xy") -> None:
    axes.set(xlabel=xlabel)
    axes.set_title(ylabel, loc="left", fontsize=9)
    for name in percent:
        _percent(getattr(axes, f"{name}axis"))


def reliability(frame: Any, label: str) -> Figure:
    """Observed shares against predicted probabilities, on axes that end where the data do."""
    x, y = frame["predicted"], frame["observed"]
    inside = int(((frame["lower"] <= x) & (x <= frame["upper"])).sum())

    def draw(axes: Any) -> None:
        ends = min(x.min(), frame["lower"].min()), max(x.max(), frame["upper"].max())
        room = 0.04 * (ends[1] - ends[0])
        limits = max(ends[0] - room, -0.01), min(ends[1] + room, 1.01)
        axes.plot(limits, limits, "--", color=COLOURS["soft"], lw=1)
        axes.vlines(x, frame["lower"], frame["upper"], color=CLASSES[0], lw=1.5)
        axes.plot(x, y, color=CLASSES[0], lw=1, alpha=0.5)
        axes.plot(x, y, "o", color=CLASSES[0], ms=6, mec=COLOURS["paper"])
        axes.set(xlim=limits, ylim=limits)
        _finish(axes, "predicted probability", "observed share")

    text = (
        f"Predicted probability of {label} against how often it came, in {len(frame)} bins. The "
        f"interval of the observed share holds the prediction in {inside} of {len(frame)}."
    )
    return drawn("reliability", "Reliability", text, draw)


def separation(P: Array, codes: Array, names: list[str], label: str) -> Figure:
    """Histograms of the probabilities of the rows of two classes."""

    def draw(axes: Any) -> None:
        edges = np.linspace(P.min(), P.max(), 21) if np.ptp(P) > 0 else 10
        for k in (1, 0):
            share = np.full((codes == k).sum(), 1.0 / max((codes == k).sum(), 1))
            colour = CLASSES[1 - k]
            axes.hist(P[codes == k], edges, weights=share, color=colour, alpha=0.55, label=names[k])
        axes.legend()
        _finish(axes, f"predicted probability of {label}", "share of rows")

    text = f"Distribution of the predicted probability of {label}, for each true class."
    return drawn("separation", "Separation", text, draw)


def roc(frame: Any) -> Figure:
    """The ROC curve of each class."""
    text = "Share of a class found against false alarms."
    return _curve("roc", "ROC curve", text, frame, ("fpr", "false alarms"), ("tpr", "found"), 1.0)


def precision_recall(frame: Any, share: float) -> Figure:
    """The precision-recall curve of each class; ``share`` is the precision of a guess."""
    text, y = "Share of alarms that are right against share found.", "right among alarms"
    name = "Precision and recall"
    return _curve("pr", name, text, frame, ("recall", "found"), ("precision", y), share)


def _curve(
    key: str, title: str, text: str, frame: Any, x: tuple[str, str], y: tuple[str, str], end: float
) -> Figure:
    classes = list(dict.fromkeys(frame["class"]))[: len(CLASSES)]

    def draw(axes: Any) -> None:
        if len(classes) == 1 or key == "roc":
            first = 0.0 if key == "roc" else end
            axes.plot([0, 1], [first, end], "--", color=COLOURS["soft"], lw=1)
        for name in classes:
            part = frame[frame["class"] == name]
            axes.plot(part[x[0]], part[y[0]], label=_named(name))
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
        _finish(axes, x[1], y[1])
        if len(classes) > 1:
            axes.legend(fontsize=8)

    return drawn(key, title, text, draw, SMALL, f"at-{key}" if len(classes) == 1 else "")


def _named(name: Any, most: int = 24) -> str:
    """A label of a legend; matplotlib hides those that begin with an underscore."""
    text = str(name) if len(str(name)) <= most else f"{str(name)[: most - 1]}…"
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text


def cost(frame: Any) -> Figure:
    """Cost of errors against the threshold; the page draws it anew when costs change."""
    errors = (frame["fp"] + frame["fn"]).to_numpy()

    def draw(axes: Any) -> None:
        axes.plot(frame.index, errors / max(errors.max(), 1) / 1.05, gid="line")
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
        _finish(axes, "threshold", "share of the largest cost", "y")

    text = "Cost of errors per row for each threshold."
    return drawn("cost", "Cost of errors", text, draw, SMALL, "at-cost")


def partial(
    frame: Any, name: str, classes: Array, label: str, limits: tuple[float, float]
) -> Figure:
    """Average probability as a column changes."""
    several = frame.index.nlevels > 1
    parts = {k: frame.loc[k] for k in classes[: len(CLASSES)]} if several else {"": frame}

    def draw(axes: Any) -> None:
        for j, (key, part) in enumerate(parts.items()):
            values, colour = list(part.index), CLASSES[j]
            numbers = all(isinstance(value, float | int) for value in values)
            x, dots = values if numbers else range(len(values)), not numbers or len(values) <= 5
            axes.plot(x, part["mean"], "o" if dots else "-", color=colour, label=_named(key))
            if "lower" in part and not several and dots:
                axes.vlines(x, part["lower"], part["upper"], color=colour)
            elif "lower" in part and not several:
                axes.fill_between(x, part["lower"], part["upper"], color=colour, alpha=0.16, lw=0)
            if dots:
                texts = [short(v, 6) if isinstance(v, float) else str(v) for v in values]
                axes.set_xticks(x, [_named(text, max(3, 44 // len(texts))) for text in texts])
                axes.margins(x=0.12)
            else:
                axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set(ylim=limits)
        _finish(axes, "", "probability" if several else f"P({label})", "y")
        if several:
            axes.legend(fontsize=8)

    text = f"Average probability as {name} changes and all else stays."
    return drawn(f"partial {name}", name, text, draw, SMALL)


def limits_of(frames: list[Any]) -> tuple[float, float]:
    """Ends of an axis of probabilities that all partial effects share."""
    ends = [frame[name] for frame in frames for name in ("mean", "lower", "upper")
            if name in frame and (name == "mean" or frame.index.nlevels == 1)]  # fmt: skip
    low, high = min(end.min() for end in ends), max(end.max() for end in ends)
    room = 0.06 * ((high - low) or 1.0)
    return max(low - room, 0.0), min(high + room, 1.0)


def groups(frame: Any, factor: str, effect: str, most: int = 150) -> Figure:
    """Effects of at most ``most`` groups of a factor in order, with intervals."""
    frame = frame.sort_values("mean", kind="stable")
    frame = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, most).round().astype(int))]

    def draw(axes: Any) -> None:
        x = range(1, len(frame) + 1)
        axes.axhline(0.0, ls="--", color=COLOURS["soft"], lw=1)
        if "lower" in frame:
            axes.vlines(x, frame["lower"], frame["upper"], color=CLASSES[0], alpha=0.45, lw=1)
        axes.plot(x, frame["mean"], "o", color=CLASSES[0], ms=3)
        axes.set_xticks([])
        _finish(axes, "groups in order", f"{effect}, log odds", "")

    text = f"Effects of {len(frame)} groups, {effect}."
    return drawn(f"groups {factor}", f"Groups of {factor}", text, draw)


def novelty(values: Array) -> Figure:
    """Histogram of novelty, with the height that all bars have where rows are alike."""

    def draw(axes: Any) -> None:
        axes.hist(values, np.linspace(0, 1, 21), weights=np.full(values.size, 1 / values.size),
                  color=CLASSES[0], alpha=0.55)  # fmt: skip
        axes.axhline(1 / 20, ls="--", color=COLOURS["soft"], lw=1)
        _finish(axes, "novelty of a row", "share of rows")

    text = "Distribution of novelty over rows left out; the dashed line is what rows alike give."
    return drawn("novelty", "Novelty", text, draw, SMALL)


def convergence(paths: list[Array], names: list[str], quantity: str) -> Figure | None:
    """The objective of each machine after each pass, less its last value."""
    paths = [path[np.isfinite(path)] for path in paths[: len(CLASSES)]]
    if max((path.size for path in paths), default=0) < 2:
        return None

    def draw(axes: Any) -> None:
        for name, path in zip(names, paths):
            axes.plot(range(1, path.size + 1), path - path[-1], label=_named(name))
        later = np.concatenate([path[min(1, path.size - 1) :] - path[-1] for path in paths])
        room = 0.1 * (np.ptp(later) or 1.0)  # the first pass may be far below
        axes.set(ylim=(later.min() - room, later.max() + room))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        _finish(axes, "pass over the rows", f"{quantity}, less the last", "")
        if len(paths) > 1:
            axes.legend(fontsize=8)

    text = f"The {quantity} after each pass, less that after the last."
    return drawn("convergence", "Convergence", text, draw, SMALL)
