"""Checks of formulas given as text, without evaluating them."""

from __future__ import annotations

import re
from typing import Any

# Functions that formulas may call: contrasts, splines and standardisation of the package formulae,
# s(x) of AdditiveSVC, and elementwise functions of NumPy.  None of them reads or writes files.
FUNCTIONS = (
    *("C", "S", "T", "Sum", "Treatment", "I", "center", "scale", "standardize"),
    *("bs", "cc", "cr", "poly", "s", "tp"),
    *("np.abs", "np.cos", "np.exp", "np.expm1", "np.log", "np.log10", "np.log1p", "np.log2"),
    *("np.maximum", "np.minimum", "np.sin", "np.sqrt", "np.square", "np.tan", "np.tanh"),
)


def parser() -> Any:
    """The package formulae, imported on first use."""
    try:
        import formulae
    except ImportError as error:
        raise ImportError(
            "from_formula needs the package formulae: pip install 'bayesvm[formula]'"
        ) from error
    return formulae


def check_text(text: str) -> None:
    """Raise an error for syntax of other packages that is not supported here."""
    left, tilde, _ = text.partition("~")
    left = left.strip() if tilde else ""
    if re.search(r"(?<![\w.])offset\s*\(", text):
        raise ValueError(
            f"the formula {text!r} has an offset(), a column whose coefficient is one; this "
            "library has no offsets, and it would be fitted as a free coefficient. Leave it out, "
            "or name the column itself if its coefficient may be learned."
        )
    if re.search(r"[~+:*]\s*\.\s*($|[-+:*])", text):
        raise ValueError(
            f"the formula {text!r} has '.' for all other columns, which formulas here do not read; "
            "name the columns, such as 'y ~ ' + ' + '.join(names), or give them to fit(X, y)."
        )
    if re.search(r"[<>=!&(]", left) and not left.startswith("`"):
        raise ValueError(
            f"the left side of {text!r} must be a column of the data, as it is; got {left!r}. "
            "Compute it beforehand, such as data.assign(label=...), and write 'label ~ ...'."
        )


def check_functions(text: str) -> None:
    """Refuse a formula that calls anything but :data:`FUNCTIONS`.

    The syntax tree comes from the parser of formulae; nothing is evaluated.
    """
    parser()
    from formulae.parser import Parser
    from formulae.scanner import Scanner

    for call in _calls(Parser(Scanner(text).scan()).parse()):
        # formulae treats x[level](...) as a call of x
        name = getattr(getattr(call.callee, "name", None), "lexeme", str(call.callee))
        if name in FUNCTIONS and call.callee.level is None:
            continue
        numpy = f"Write np.{name}? " if f"np.{name}" in FUNCTIONS else ""
        raise ValueError(
            f"the formula {text!r} calls {name!r}, which formulas do not know. {numpy}They have "
            f"columns, operators and the functions {', '.join(FUNCTIONS)}; compute other columns "
            "beforehand, such as data.assign(new=...)."
        )


def _calls(part: Any) -> list[Any]:
    """All calls in a syntax tree."""
    if isinstance(part, list):
        return [call for one in part for call in _calls(one)]
    if not hasattr(part, "accept"):  # a token or a value
        return []
    inside = [call for one in vars(part).values() for call in _calls(one)]
    return [part, *inside] if hasattr(part, "callee") else inside
