"""Formulas as MathML, written at build time: browsers draw it without scripts or network."""

import re

from docutils import nodes
from latex2mathml.converter import convert

NAMED = re.compile(r"<mi>([a-z]{2,})</mi>")  # log, exp, max: operators with a little space
OPERATOR = r'<mo form="prefix" lspace="0.12em" rspace="0.12em">\1</mo>'


def to_mathml(text: str, display: str) -> str:
    """MathML of a formula."""
    text = text.replace(r"\{", r"\lbrace ").replace(r"\}", r"\rbrace ")
    made = convert(text, display=display).replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")
    return NAMED.sub(OPERATOR, made)


def visit_math(self, node):
    self.body.append(f'<span class="math">{to_mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def visit_math_block(self, node):
    text = node.astext()
    if "\\\\" in text and r"\begin{" not in text:  # rows of a display, as Sphinx reads them
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    self.body.append(f'<div class="math">{to_mathml(text, "block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
