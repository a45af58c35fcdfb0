"""What the experiments on the spam data share: the data, fits as texts, pictures of them."""

from __future__ import annotations

import json
import time
import warnings
from functools import cache
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianLinearSVC
from bayesvm.core.types import Array
from bayesvm.datasets import load_spam
from bayesvm.machines.diagnostics import indicator_r_hat

CERTAIN = 0.95  # "almost certainly" and "certain" of the papers, which give no number
SELECTED = 0.5


# of the columns, so that results can be shown without the data
NAMES = [
    "make", "address", "all", "num3d", "our", "over", "remove", "internet", "order", "mail",
    "receive", "will", "people", "report", "addresses", "free", "business", "email", "you",
    "credit", "your", "font", "num000", "money", "hp", "hpl", "george", "num650", "lab", "labs",
    "telnet", "num857", "data", "num415", "num85", "technology", "num1999", "parts", "pm",
    "direct", "cs", "meeting", "original", "project", "re", "edu", "table", "conference",
    "charSemicolon", "charRoundbracket", "charSquarebracket", "charExclamation", "charDollar",
    "charHash", "capitalAve", "capitalLong", "capitalTotal",
]  # fmt: skip


@cache
def data() -> tuple[Any, Any]:
    """Rows and labels."""
    bunch = load_spam()
    return bunch.data, bunch.target


def fit(model: BayesianLinearSVC, printed: bool = False) -> dict[str, Any]:
    """Fit, time, and return what tables and figures need; coefficients per sd.

    ``printed`` gives the coefficient of column j the scale sd_j, as Polson & Scott print it; the
    estimator must not standardise then.
    """
    X, y = data()
    scale = X.std(axis=0)
    if printed:
        X, scale = (X - X.mean(axis=0)) * scale, scale**2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # R-hat is reported
        start = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - start
    machine = model.machines_[0]
    held, inclusion = machine.draws, machine.inclusion
    out: dict[str, Any] = {
        "seconds": round(seconds, 3),
        "r_hat": np.nan,
        "coef": written(model.coef_[0] * scale),
        "inclusion": "",
        "positive": "",
        "spread": "",
        "worst": "",
        "gap": "",
    }
    if hasattr(model, "duality_gap_"):
        out["gap"] = float(f"{model.duality_gap_:.3g}")
    if inclusion is not None:
        where = machine.model.slices[-1]
        out["inclusion"] = written(inclusion[where])
        out["positive"] = written(machine.sign_proba()[where])
    if held is not None:
        theta = held.theta[..., machine.model.slices[-1]]
        spread = indicator_r_hat(theta != 0)
        out["r_hat"], out["worst"] = round(float(spread.max()), 4), int(spread.argmax())
        flat = theta.reshape(-1, theta.shape[-1])
        inside = np.maximum((flat != 0).sum(axis=0), 1)
        mean = flat.sum(axis=0) / inside
        square = ((flat != 0) * (flat - mean) ** 2).sum(axis=0) / inside
        # of coefficients that are in, in standard deviations of their columns as is ``coef``
        out["spread"] = written(np.sqrt(square) * (scale if printed else 1.0))
    return out


def written(numbers: Any) -> str:
    """Numbers as the text of a cell."""
    return json.dumps([float(f"{x:.5g}") for x in np.asarray(numbers, dtype=float)])


def read(text: Any) -> Array:
    """Undo :func:`written`."""
    return np.array(json.loads(text), dtype=float)


def listed(names: list[str], chance: Array, low: float, high: float = 1.0 + 1e-9) -> str:
    """Names with a probability between, the likeliest first, with the number of them."""
    order = [k for k in np.argsort(-chance, kind="stable") if low <= chance[k] < high]
    return f"{len(order)}: {', '.join(names[k] for k in order)}" if order else "none"


def chances(names: list[str], chance: Array, wanted: tuple[str, ...]) -> str:
    """Probabilities of some columns."""
    known = [name for name in wanted if name in names]
    return ", ".join(f"{name} {chance[names.index(name)]:.2f}" for name in known)
