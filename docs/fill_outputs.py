"""Run the Python blocks of pages and write what they print below each prompt.

``python docs/fill_outputs.py docs/quickstart.md ...`` from the root of a checkout brings a page
whose numbers have changed up to date; read the difference before you commit it. Outputs that hold
``...`` and still match are kept.
"""

import contextlib
import doctest
import io
import os
import re
import sys
import tempfile
from pathlib import Path

FENCE = re.compile(r"^```python\n(>>>.*?)^```$|^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def filled(code: str, names: dict) -> str:
    """A block with prompts, its outputs replaced by those of this run."""
    parser, checker, lines = doctest.DocTestParser(), doctest.OutputChecker(), []
    for example in parser.get_examples(code):
        first, *more = example.source.splitlines()
        lines += [f">>> {first}", *(f"... {line}".rstrip() for line in more)]
        if example.exc_msg is not None:
            lines += example.want.splitlines()
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(example.source, "<page>", "single"), names)
        same = example.want and checker.check_output(example.want, said.getvalue(), FLAGS)
        lines += (example.want if same else said.getvalue()).rstrip().splitlines()
    return "\n".join(line.rstrip() or "<BLANKLINE>" for line in lines) + "\n"


def fill(page: Path) -> None:
    """Rewrite one page."""
    text, names, folder = page.read_text(encoding="utf-8"), {"__name__": "page"}, Path.cwd()

    def block(match):
        if match.group(1) is None:
            exec(match.group(2), names)
            return match.group()
        return f"```python\n{filled(match.group(1), names)}```"

    with tempfile.TemporaryDirectory() as scratch:  # a page may write files
        os.chdir(scratch)
        try:
            new = FENCE.sub(block, text)
        finally:
            os.chdir(folder)
    page.write_text(new, encoding="utf-8")
    print(page, "unchanged" if new == text else "changed")


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    for name in sys.argv[1:]:
        fill(Path(name).resolve())
