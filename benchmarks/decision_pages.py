"""Tables of docs/decisions.md, filled from the newest results.

    python benchmarks/decision_pages.py

Places of tables are marked as in docs/benchmarks.md (see ``pages.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd

import novelty
import pages
import prediction_sets

PAGE = pages.ROOT / "docs" / "decisions.md"
TABLES: dict[str, tuple[str, Callable[[pd.DataFrame], str]]] = {
    "prediction_sets": ("prediction_sets.csv", prediction_sets.score_table),
    "novelty_uniform": ("novelty.csv", novelty.uniform_table),
}


def filled(text: str) -> str:
    """The page with its tables; one without results stays as it is."""

    def told(place: re.Match[str]) -> str:
        name, make = TABLES[place[2]]
        path = pages.latest(name)
        return place[0] if path is None else f"{place[1]}{make(pd.read_csv(path))}\n{place[3]}"

    return pages.PLACE.sub(told, text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
