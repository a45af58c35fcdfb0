"""Figures of the report: matplotlib's SVG, coloured by the page that shows it."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from markupsafe import Markup
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..core.types import Array
from .words import plain, short

LARGE, SMALL = (4.6, 3.5), (3.5, 2.7)  # inches
# Colours of the page by name; matplotlib draws with the light ones
COLOURS = {
    "k0": "#0b62b0", "k1": "#b3470a", "k2": "#0a7a5a", "k3": "#9a3d86", "k4": "#7a6200",
    "k5": "#667384", "soft": "#556170", "ink": "#18212c", "rule": "#e2e6eb", "paper": "#ffffff",
}  # fmt: skip
CLASSES = [COLOURS[f"k{j}"] for j in range(6)]  # at most six classes are drawn in one figure
DASHED: Any = {"ls": "--", "color": COLOURS["soft"], "lw": 1}
STYLE: Any = {
    "svg.fonttype": "none", "text.parse_math": False, "axes.unicode_minus": True, "font.size": 9,
    "text.color": COLOURS["ink"], "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": COLOURS["soft"], "xtick.color": COLOURS["soft"],
    "ytick.color": COLOURS["soft"], "axes.grid": True, "axes.grid.axis": "y",
    "axes.axisbelow": True, "grid.color": COLOURS["rule"], "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "ytick.left": False,
    "xtick.bottom": False, "lines.linewidth": 1.8, "legend.frameon": False,
    "legend.fontsize": 8, "axes.prop_cycle": cycler(color=CLASSES), "axes.facecolor": "none",
    "axes.titlelocation": "left", "axes.titlesize": 9, "figure.facecolor": "none",
}  # fmt: skip
styled = mpl.rc_context(STYLE)


@dataclass(frozen=True)
class Figure:
    """A picture with its title and what it shows in words; notebooks show it."""

    title: str
    text: str
    svg: Markup

    def _repr_html_(self) -> str:
        return f"<figure>{self.svg}</figure>"


def new_axes(
    xlabel: str, ylabel: str, percent: str = "xy", size: tuple[float, float] = SMALL
) -> Any:
    """Axes of a new figure, its horizontal label on top; some are in ``percent``."""
    axes = Canvas(figsize=size, layout="constrained").subplots()
    axes.set_xlabel(xlabel)
    axes.set_title(ylabel)
    for name in percent:
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.4g}\N{NO-BREAK SPACE}%"))
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    return axes


def finished(axes: Any, key: str, title: str, text: str, mark: bool = False) -> Figure:
    """The figure of axes as SVG, with a ``mark`` that the page moves.

    Names of elements begin with ``key``: several figures stand on one page.
    """
    buffer, prefix = io.StringIO(), re.sub(r"\W", "-", key)
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend()
    width, height = 72 * axes.figure.get_size_inches()
    with mpl.rc_context({"svg.hashsalt": key}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of signs that the font of the layout lacks
        axes.figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") : svg.rindex("</svg>")].split(">", 1)[1]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", svg).replace("xlink:href", "href")
    for name, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name}, {colour})")
    if mark:
        x0, y0, x1, y1 = axes.get_position().extents
        box = [width * x0, width * x1, height * (1 - y1), height * (1 - y0)]
        ends = " ".join(f"{end:.2f}" for end in box)
        svg += f'<circle id="at-{key}" class="mark" r="4.5" cx="-20" cy="-20" data-box="{ends}"/>'
    start = Markup(
        '<svg class="plot" style="max-width:{}px" viewBox="0 0 {:g} {:g}" role="img" '
        'aria-label="{}">'
    ).format(round(1.7 * width), width, height, f"{title}. {text}")
    return Figure(title, text, start + Markup(svg) + Markup("</svg>"))


def legend_name(name: Any, most: int = 24) -> str:
    """A label of a legend; matplotlib hides those that begin with an underscore."""
    text = str(name) if len(str(name)) <= most else f"{str(name)[: most - 1]}…"
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text


@styled
def reliability(frame: Any, label: str) -> Figure:
    """Observed shares against predicted probabilities, on axes that end where the data do."""
    x, lower, upper = frame["predicted"], frame["lower"], frame["upper"]
    low, high = min(x.min(), lower.min()), max(x.max(), upper.max())
    room = 0.04 * (high - low)
    limits = max(low - room, -0.01), min(high + room, 1.01)
    axes = new_axes("predicted probability", "observed share", size=LARGE)
    axes.plot(limits, limits, **DASHED)
    axes.vlines(x, lower, upper, color=CLASSES[0], lw=1.5)
    axes.plot(x, frame["observed"], color=CLASSES[0], lw=1, alpha=0.5)
    axes.plot(x, frame["observed"], "o", color=CLASSES[0], ms=6, mec=COLOURS["paper"])
    axes.set(xlim=limits, ylim=limits)
    text = (
        f"Predicted probability of {label} against its observed share, in {len(frame)} bins. The "
        f"interval of the observed share includes the prediction in {x.between(lower, upper).sum()}"
        f" of {len(frame)}."
    )
    return finished(axes, "reliability", "Reliability", text)


@styled
def separation(parts: dict[str, Array], label: str) -> Figure:
    """Shares of rows by their predicted probability, for each true class."""
    name = f"predicted probability of {label}"
    axes, every = new_axes(name, "share of rows", size=LARGE), np.concatenate([*parts.values()])
    low, high = every.min(), every.max()
    edges = np.linspace(low, high, 21) if low < high else low + np.array([-0.01, 0.01])
    for key, values in parts.items():
        share = np.full(values.size, 1.0 / max(values.size, 1))
        axes.hist(values, edges, weights=share, alpha=0.55, label=legend_name(key))
    text = f"Distribution of the {name}, for each true class."
    return finished(axes, "separation", "Separation", text)


@styled
def curve(frame: Any, key: str, title: str, x_name: str, y_name: str, chance: Any) -> Figure:
    """A curve of each class over the last two columns; ``chance`` has the heights of a guess."""
    classes = list(dict.fromkeys(frame["class"]))[: len(CLASSES)]
    axes = new_axes(x_name, y_name)
    if chance is not None:
        axes.plot([0, 1], chance, **DASHED)
    for name in classes:
        *_, x, y = (part for _, part in frame[frame["class"] == name].items())
        axes.plot(x, y, label=legend_name(name))
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    return finished(axes, key, title, f"{y_name} against {x_name}.".capitalize(), len(classes) == 1)


@styled
def cost(frame: Any) -> Figure:
    """Cost of errors against the threshold; the page draws it anew when costs change."""
    errors = (frame["fp"] + frame["fn"]).to_numpy()
    axes = new_axes("threshold", "share of the largest cost", "y")
    axes.plot(frame.index, errors / max(errors.max(), 1) / 1.05, gid="line")
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    return finished(axes, "cost", "Cost of errors", "Cost of errors for each threshold.", True)


@styled
def partial(curves: dict[str, Any], classes: Array, label: str) -> dict[str, Figure]:
    """Average probability as one column changes, by name, on one scale of probabilities."""
    out, several = {}, len(classes) > 2
    drawn = ["mean"] if several else ["mean", "lower", "upper"]
    ends = [part[name] for part in curves.values() for name in drawn if name in part]
    low = min((x.min() for x in ends), default=0.0)  # a formula has no curves
    high = max((x.max() for x in ends), default=1.0)
    room = 0.06 * ((high - low) or 1.0)
    for name, frame in curves.items():
        axes = new_axes("", "probability" if several else f"P({label})", "y")
        axes.set(ylim=(max(low - room, 0.0), min(high + room, 1.0)))
        for k in classes[: len(CLASSES)] if several else classes[1:]:
            part = frame.loc[k] if several else frame
            values, colour = list(part.index), CLASSES[len(axes.lines)]
            numbers = all(isinstance(value, float | int) for value in values)
            x, dots = values if numbers else range(len(values)), not numbers or len(values) <= 5
            axes.plot(x, part["mean"], "o" if dots else "-", color=colour, label=legend_name(k))
            if "lower" in part and not several and dots:
                axes.vlines(x, part["lower"], part["upper"], color=colour)
            elif "lower" in part and not several:
                axes.fill_between(x, part["lower"], part["upper"], color=colour, alpha=0.16, lw=0)
            if dots:
                texts = [short(v, 6) if isinstance(v, float) else str(v) for v in values]
                axes.set_xticks(x, [legend_name(text, max(3, 44 // len(x))) for text in texts])
                axes.margins(x=0.12)
            else:
                axes.xaxis.set_major_locator(MaxNLocator(5))
        title = plain(name, 40)
        text = f"Average probability as {title} changes, with all other columns unchanged."
        out[f"partial {name}"] = finished(axes, f"partial {name}", title, text)
    return out
