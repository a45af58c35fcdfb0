"""Tables of means, and tables for the console."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def table_of(title: str, heads: Iterable[Any], left: int = 1) -> Any:
    """A table without rows; the first ``left`` columns are aligned to the left, the rest right."""
    from rich.table import Table

    table = Table(title=title)
    for k, head in enumerate(heads):
        table.add_column(str(head), justify="left" if k < left else "right")
    return table


def statements(where: str, more: str = "", width: int = 40, lines: bool = False) -> Any:
    """A table without rows: statements of a paper, and what was found here."""
    from rich.table import Table

    table = Table(title=f"The paper's statements and these numbers{more}", show_lines=lines)
    table.add_column(where, max_width=width)
    table.add_column("here")
    return table


def mean_and_error(
    frame: Any,
    metric: str,
    sets: Iterable[str],
    methods: Iterable[str],
    times: float = 1.0,
    spread: str = "sem",
) -> tuple[Any, Any]:
    """Means by set (rows) and method (columns), of those in the frame, and standard errors."""
    by = times * frame.groupby(["set", "method"])[metric].agg(["mean", spread])
    mean, error = by["mean"].unstack(), by[spread].unstack()
    rows = [name for name in sets if name in mean.index]
    columns = [name for name in methods if name in mean.columns]
    return mean.loc[rows, columns], error.loc[rows, columns]
