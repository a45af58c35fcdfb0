"""What was found in a table, and what was done about it."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing found in a table."""

    column: str  # empty for what concerns rows
    problem: str
    action: str
    kind: str
