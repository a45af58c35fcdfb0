"""The import graph of the package: which folder imports which, checked and drawn.

``python docs/import_graph.py`` writes ``docs/_static/imports.svg`` (the documentation does so when
it is built) and exits with an error if a folder imports one above it.  ``tests/test_structure.py``
runs the same functions.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "bayesvm"
PICTURE = ROOT / "docs" / "_static" / "imports.svg"

# Rows of the picture, lowest first.  A folder may import folders of earlier rows, and those to its
# left in its own row.
LAYERS = (
    ("core",),
    ("linalg", "kernels", "likelihoods", "datasets"),
    ("data",),
    ("priors", "designs"),
    ("inference",),
    ("predictive",),
    ("gp",),
    ("sparse_kernel", "factor_models"),
    ("inspection",),
    ("terms", "estimators"),
    ("compare", "plot", "html_report", "export", "cli"),
)
ORDER = tuple(folder for layer in LAYERS for folder in layer)
PUBLIC = ("__init__", "__main__", "terms")  # modules at the top level


def folder_of(path: Path) -> str:
    """The folder, or the module at the top level, that a file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Folders that a file imports, at the top or inside functions."""
    here = path.relative_to(PACKAGE).parent.parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = here[: len(here) - node.level + 1]
            name = [*base, *(node.module.split(".") if node.module else [])]
        elif (node.module or "").split(".")[0] == "bayesvm":
            name = (node.module or "").split(".")[1:]
        else:
            continue
        found |= {name[0]} if name else {alias.name for alias in node.names}
    return found & set(ORDER)


def edges() -> dict[tuple[str, str], list[str]]:
    """Pairs (folder, imported folder) with the files that make them."""
    out: dict[tuple[str, str], list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = folder_of(path)
        if source in ("__init__", "__main__"):
            continue
        for target in sorted(imported(path) - {source}):
            out.setdefault((source, target), []).append(str(path.relative_to(PACKAGE)))
    return out


def upward(graph: dict[tuple[str, str], list[str]]) -> list[str]:
    """Imports that go up; without one there is no cycle between folders."""
    return [
        f"{', '.join(files)} in {source} import {target}, which is above"
        for (source, target), files in graph.items()
        if ORDER.index(target) >= ORDER.index(source)
    ]


def loose() -> list[str]:
    """Modules at the top level, and folders, that are not on the list."""
    modules = [p.stem for p in PACKAGE.glob("*.py") if p.stem not in PUBLIC]
    folders = [p.parent.name for p in PACKAGE.glob("*/__init__.py") if p.parent.name not in ORDER]
    return modules + folders


def draw(graph: dict[tuple[str, str], list[str]]) -> str:
    """The graph as SVG: estimators at the top, arrows from a folder to those it imports."""
    width, height, gap = 104, 28, 74
    place = {}
    for row, layer in enumerate(reversed(LAYERS)):
        for k, name in enumerate(layer):
            x = 380 + (k - (len(layer) - 1) / 2) * (width + 40)
            place[name] = (x, 30 + row * gap)
    lines = []
    for source, target in graph:
        (x0, y0), (x1, y1) = place[source], place[target]
        y0, y1 = y0 + height / 2, y1 - height / 2
        if y1 < y0:  # the same row
            y0, y1 = y0 - height, y1 + height
        near = y1 - y0 < gap
        bend = 0 if near else (40 if x1 >= x0 else -40) * (1 + (hash_of(source, target) % 3))
        middle = (y0 + y1) / 2
        lines.append(
            f'<path d="M{x0:.0f},{y0:.0f} C{x0 + bend:.0f},{middle:.0f} {x1 + bend:.0f},'
            f'{middle:.0f} {x1:.0f},{y1:.0f}" class="{"near" if near else "far"}"/>'
        )
    boxes = [
        f'<g><rect x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" width="{width}" '
        f'height="{height}" rx="6"/><text x="{x:.0f}" y="{y + 5:.0f}">{name}</text></g>'
        for name, (x, y) in place.items()
    ]
    tall = 60 + (len(LAYERS) - 1) * gap
    style = (
        "path{fill:none;stroke-width:1.2} .near{stroke:#3b6ea5} .far{stroke:#3b6ea5;opacity:.22}"
        "rect{fill:#f4f7fb;stroke:#3b6ea5} text{font:13px sans-serif;text-anchor:middle;fill:#222}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {tall}" role="img" '
        f'aria-label="Import graph of the folders"><style>{style}</style>'
        + "".join(lines + boxes)
        + "</svg>\n"
    )


def hash_of(source: str, target: str) -> int:
    """A small number that is the same in every run."""
    return sum(map(ord, source + target))


def main() -> int:
    """Write the picture; the exit status says whether an import goes up."""
    graph = edges()
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(graph), encoding="utf-8")
    wrong = upward(graph) + [f"{name} is not on the list of folders" for name in loose()]
    print("\n".join(wrong) or f"{len(graph)} imports between folders, none upward")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
