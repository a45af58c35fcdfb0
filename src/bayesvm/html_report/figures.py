"""Figures of the report as small SVG pictures, coloured by the page that shows them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup

from ..core.types import Array
from .words import short

LARGE, SMALL = (420, 310), (300, 230)  # sizes of figures, in units of their text
LEFT, RIGHT, TOP, BOTTOM = 42, 14, 28, 42
CURVES = 6  # classes drawn in one figure
POINTS = 150  # of a drawn curve


@dataclass(frozen=True)
class Figure:
    """A picture with its title and what it shows in words; notebooks show it."""

    title: str
    text: str
    svg: Markup
    legend: tuple[str, ...] = ()  # names of colours, where there are several

    def _repr_html_(self) -> str:
        style = files(__package__).joinpath("figures.css").read_text(encoding="utf-8")
        keys = Markup("").join(
            Markup('<li class="k{}">{}</li>').format(j, one) for j, one in enumerate(self.legend)
        )
        return str(
            Markup('<figure class="bv-figure"><style>{}</style>{}<ul>{}</ul></figure>').format(
                Markup(style), self.svg, keys
            )
        )


class Canvas:
    """Marks in the units of two axes, collected as SVG."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], size: tuple[int, int] = LARGE
    ) -> None:
        self.x, self.y, (self.wide, self.high) = x, y, size
        self.parts: list[Markup] = []

    def across(self, x: Any) -> Any:
        low, high = self.x
        return LEFT + (np.asarray(x, float) - low) / (high - low) * (self.wide - LEFT - RIGHT)

    def up(self, y: Any) -> Any:
        low, high = self.y
        return self.high - BOTTOM - (np.asarray(y, float) - low) / (high - low) * self._tall

    @property
    def _tall(self) -> int:
        return self.high - BOTTOM - TOP

    def add(self, text: str, *values: Any, **named: Any) -> None:
        self.parts.append(Markup(text).format(*values, **named))

    def line(self, x: Any, y: Any, kind: str, name: str = "") -> None:
        points = "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(self.across(x), self.up(y)))
        own = Markup(' id="{}"').format(name) if name else ""
        self.add('<path class="{}"{} d="M{}"/>', kind, own, points)

    def band(self, x: Any, low: Any, high: Any, kind: str) -> None:
        a = list(zip(self.across(x), self.up(low)))
        b = list(zip(self.across(x), self.up(high)))[::-1]
        self.add(
            '<path class="{}" d="M{}Z"/>', kind, "L".join(f"{p:.1f},{q:.1f}" for p, q in a + b)
        )

    def dots(self, x: Any, y: Any, kind: str, titles: Any = None, size: float = 4) -> None:
        for j, (a, b) in enumerate(zip(self.across(x), self.up(y))):
            title = "" if titles is None else Markup("<title>{}</title>").format(titles[j])
            self.add(
                '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{:g}">{}</circle>',
                kind, a, b, size, title,
            )  # fmt: skip

    def bars(self, x: Any, y: Any, low: Any, high: Any, kind: str) -> None:
        """Vertical lines from low to high, at x."""
        for a, b, c in zip(self.across(x), self.up(low), self.up(high)):
            self.add('<path class="{}" d="M{:.1f},{:.1f}V{:.1f}"/>', kind, a, b, c)

    def blocks(self, edges: Any, heights: Any, kind: str) -> None:
        at, top, base = self.across(edges), self.up(heights), float(self.up(self.y[0]))
        for a, b, t in zip(at[:-1], at[1:], top):
            self.add(
                '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>',
                kind, a + 0.5, t, max(b - a - 1.0, 0.5), max(base - t, 0.0),
            )  # fmt: skip

    def axes(
        self, xlabel: str, ylabel: str, xticks: Any = None, yticks: Any = None,
        percent: tuple[bool, bool] = (False, False),
    ) -> None:  # fmt: skip
        """Grid lines, numbers and names of the axes; they come before the marks."""
        marks, self.parts = self.parts, []
        xs = ticks(*self.x) if xticks is None else xticks
        ys = ticks(*self.y) if yticks is None else yticks
        base = self.high - BOTTOM
        for value, text in _named(ys, percent[1]):
            b = float(self.up(value))
            self.add('<path class="grid" d="M{},{:.1f}H{}"/>', LEFT, b, self.wide - RIGHT)
            self.add('<text x="{}" y="{:.1f}" class="end">{}</text>', LEFT - 7, b + 4, text)
        for value, text in _named(xs, percent[0]):
            a = float(self.across(value))
            self.add('<text x="{:.1f}" y="{}" class="mid">{}</text>', a, base + 17, text)
        middle = (LEFT + self.wide - RIGHT) / 2
        self.add('<text x="{}" y="{}" class="mid name">{}</text>', middle, self.high - 7, xlabel)
        self.add('<text x="2" y="13" class="name">{}</text>', ylabel)
        self.add('<path class="axis" d="M{},{}H{}"/>', LEFT, base, self.wide - RIGHT)
        self.parts += marks

    def figure(self, title: str, text: str, legend: tuple[str, ...] = ()) -> Figure:
        svg = Markup(
            '<svg class="plot" style="max-width:{}px" viewBox="0 0 {} {}" role="img" '
            'aria-label="{}">{}</svg>'
        ).format(
            round(1.3 * self.wide),
            self.wide,
            self.high,
            f"{title}. {text}",
            Markup("").join(self.parts),
        )
        return Figure(title, text, svg, legend)


def ticks(low: float, high: float, count: int = 5) -> Array:
    """Round numbers between two ends."""
    if not high > low:
        return np.array([low])
    raw = (high - low) / count
    unit = 10.0 ** np.floor(np.log10(raw))
    step = unit * next(k for k in (1, 2, 2.5, 5, 10) if k * unit >= raw * 0.999)
    first = np.ceil(low / step - 1e-9) * step
    out: Array = np.round(np.arange(first, high + step * 1e-6, step), 12) + 0.0  # no minus zero
    return out


def _named(values: Any, percent: bool) -> list[tuple[float, str]]:
    if len(values) and isinstance(values[0], tuple):
        return list(values)
    return [(float(v), f"{100 * v + 0.0:g} %" if percent else short(v, 6)) for v in values]


def _room(values: Any, share: float = 0.06) -> tuple[float, float]:
    """Ends of an axis for values, with some room."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    pad = share * ((high - low) or abs(high) or 1.0)
    return low - pad, high + pad


def _some(count: int, most: int = POINTS) -> Array:
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


UNIT = (0.0, 1.0)
FIFTHS, QUARTERS = np.linspace(0, 1, 6), np.linspace(0, 1, 5)


def reliability(frame: Any, label: str) -> Figure:
    canvas = Canvas(UNIT, UNIT)
    canvas.line([0, 1], [0, 1], "guide")
    x, y = frame["predicted"].to_numpy(), frame["observed"].to_numpy()
    if "sure_lower" in frame:
        for a, b, c in zip(frame["sure_lower"], frame["sure_upper"], y):
            canvas.line([a, b], [c, c], "faint k0")
    canvas.bars(x, y, frame["lower"], frame["upper"], "whisker k0")
    canvas.line(x, y, "thin k0")
    rows = zip(frame["rows"], x, y)
    titles = [f"{n} rows: predicted {p:.1%}, observed {q:.1%}" for n, p, q in rows]
    canvas.dots(x, y, "dot k0", titles)
    canvas.axes("predicted probability", "observed share", FIFTHS, FIFTHS, (True, True))
    inside = int(((frame["lower"] <= x) & (x <= frame["upper"])).sum())
    text = (
        f"Predicted probability of {label} against how often it came, in {len(frame)} bins. The "
        f"interval of the observed share holds the prediction in {inside} of {len(frame)}."
    )
    return canvas.figure("Reliability", text)


def histogram(P: Array, codes: Array, classes: Array, label: str) -> Figure:
    edges = np.linspace(0, 1, 21)
    parts = [np.histogram(P[codes == k], edges)[0] for k in range(2)]
    shares = [part / max(part.sum(), 1) for part in parts]
    canvas = Canvas(UNIT, (0.0, 1.08 * max(float(s.max()) for s in shares)))
    for k in (0, 1):
        canvas.blocks(edges, shares[k], f"block k{1 - k}")
    canvas.axes(f"predicted probability of {label}", "share of rows", FIFTHS, None, (True, True))
    text = f"Distribution of the predicted probability of {label}, for each true class."
    return canvas.figure("Separation", text, (str(classes[1]), str(classes[0])))


def roc(frame: Any) -> Figure:
    canvas = Canvas(UNIT, UNIT, SMALL)
    canvas.line([0, 1], [0, 1], "guide")
    legend = _by_class(canvas, frame, "fpr", "tpr", "at-roc")
    canvas.axes("false alarms", "found", QUARTERS, QUARTERS, (True, True))
    return canvas.figure("ROC curve", "Share of a class found against false alarms.", legend)


def precision_recall(frame: Any, share: float) -> Figure:
    canvas = Canvas(UNIT, UNIT, SMALL)
    if frame["class"].nunique() == 1:
        canvas.line([0, 1], [share, share], "guide")
    legend = _by_class(canvas, frame, "recall", "precision", "at-pr")
    canvas.axes("found", "right among alarms", QUARTERS, QUARTERS, (True, True))
    return canvas.figure(
        "Precision and recall", "Share of alarms that are right against share found.", legend
    )


def _by_class(canvas: Canvas, frame: Any, x: str, y: str, mark: str) -> tuple[str, ...]:
    """Draw the curve of each class, with a mark if there is one; the names of several."""
    names = list(dict.fromkeys(frame["class"]))[:CURVES]
    for k, name in enumerate(names):
        part = frame[frame["class"] == name]
        part = part.iloc[_some(len(part))]
        canvas.line(part[x], part[y], f"curve k{k}")
    if len(names) == 1:
        canvas.add(f'<circle id="{mark}" class="mark" r="5.5" cx="-20" cy="-20"/>')
        return ()
    return tuple(map(str, names))


def cost(frame: Any) -> Figure:
    """Cost of errors against the threshold; the page draws it anew when costs change."""
    per_row = (frame["fp"] + frame["fn"]).to_numpy() / frame.iloc[0].sum()
    canvas = Canvas(UNIT, (0.0, 1.0), SMALL)
    canvas.line(frame.index, per_row / max(per_row.max(), 1e-12) / 1.05, "curve k0", "cost-line")
    canvas.add('<circle id="at-cost" class="mark" r="5.5" cx="-20" cy="-20"/>')
    canvas.axes("threshold", "share of the largest cost", QUARTERS, QUARTERS, (False, True))
    return canvas.figure("Cost of errors", "Cost of errors per row for each threshold.")


def scale_of(frames: list[Any]) -> tuple[float, float]:
    """Ends of an axis of probabilities that all partial effects share."""
    several = frames[0].index.nlevels > 1
    names = ["mean"] if several or "lower" not in frames[0] else ["mean", "lower", "upper"]
    low, high = _room(np.concatenate([frame[k].to_numpy() for frame in frames for k in names]))
    return max(low, 0.0), min(high, 1.0)


def partial(
    frame: Any, name: str, classes: Array, label: str, scale: tuple[float, float]
) -> Figure:
    """Average probability as a column changes."""
    several = frame.index.nlevels > 1
    parts = [frame.loc[k] for k in classes[:CURVES]] if several else [frame]
    values = list(parts[0].index)
    numbers = all(isinstance(v, float | int) for v in values)
    x = np.array(values, float) if numbers else np.arange(len(values), dtype=float)
    dots = not numbers or len(values) <= 5
    across = _room(x, 0.0 if not dots else 0.12)
    canvas = Canvas(across, scale, SMALL)
    for k, part in enumerate(parts):
        mean = part["mean"].to_numpy()
        if "lower" in part and not several:
            if dots:
                canvas.bars(x, mean, part["lower"], part["upper"], f"whisker k{k}")
            else:
                canvas.band(x, part["lower"], part["upper"], f"band k{k}")
        if dots:
            canvas.dots(x, mean, f"dot k{k}", [f"{v}: {m:.1%}" for v, m in zip(values, mean)])
        else:
            canvas.line(x, mean, f"curve k{k}")
    named = None
    if dots:
        words = [short(v, 6) if isinstance(v, float) else str(v) for v in values]
        fits = max(3, 44 // len(words))
        named = [(float(a), w if len(w) <= fits else w[: fits - 1] + "…") for a, w in zip(x, words)]
    canvas.axes("", f"P({label})" if not several else "probability", named, None, (False, True))
    text = f"Average probability as {name} changes and all else stays."
    return canvas.figure(name, text, tuple(map(str, classes[:CURVES])) if several else ())


def groups(frame: Any, factor: str, effect: str) -> Figure:
    """Effects of the groups of a factor in order, with intervals."""
    frame = frame.sort_values("mean", kind="stable")
    frame = frame.iloc[_some(len(frame))]
    names = [k for k in ("mean", "lower", "upper") if k in frame]
    x = np.arange(1.0, len(frame) + 1)
    canvas = Canvas(_room(x, 0.02), _room(frame[names].to_numpy()), LARGE)
    canvas.line(canvas.x, (0.0, 0.0), "guide")
    if "lower" in frame:
        canvas.bars(x, frame["mean"], frame["lower"], frame["upper"], "hair k0")
    canvas.dots(x, frame["mean"], "k0 spot", [str(k) for k in frame.index], 2)
    canvas.axes("groups in order", f"{effect}, log odds", [])
    return canvas.figure(f"Groups of {factor}", f"Effects of {len(frame)} groups, {effect}.")


def novelty(values: Array) -> Figure:
    edges = np.linspace(0, 1, 21)
    shares = np.histogram(values, edges)[0] / values.size
    canvas = Canvas(UNIT, (0.0, max(0.11, 1.1 * float(shares.max()))), SMALL)
    canvas.blocks(edges, shares, "block k0")
    canvas.line([0, 1], [0.05, 0.05], "guide")
    canvas.axes("novelty of a row", "share of rows", FIFTHS, None, (False, True))
    text = "Distribution of novelty over rows left out; the dashed line is what rows alike give."
    return canvas.figure("Novelty", text)


def path(paths: list[Array], names: list[str], quantity: str) -> Figure | None:
    """The objective of each machine after each pass."""
    paths = [p[np.isfinite(p)] for p in paths[:CURVES]]
    if not paths or max(p.size for p in paths) < 2:
        return None
    longest = max(p.size for p in paths)
    paths = [p - p[-1] for p in paths]  # how it settles matters, its size does not
    finite = np.concatenate([p[min(1, p.size - 1) :] for p in paths])
    canvas = Canvas((1.0, float(longest)), _room(finite, 0.1), SMALL)
    for k, values in enumerate(paths):
        some = _some(values.size)
        some = some[(values[some] >= canvas.y[0]) & (values[some] <= canvas.y[1])]
        canvas.line(some + 1.0, values[some], f"curve k{k}")
    whole = np.unique(np.r_[1.0, ticks(1.0, float(longest)).round()])
    canvas.axes("pass over the rows", f"{quantity}, less the last", whole)
    legend = tuple(names[:CURVES]) if len(paths) > 1 else ()
    return canvas.figure(
        "Convergence", f"The {quantity} after each pass, less that after the last.", legend
    )
