"""What the experiments on the spam data share: the data, fits as texts, pictures of them."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianLinearSVC
from bayesvm.core.types import Array
from bayesvm.datasets import load_spam
from bayesvm.inference import Gibbs

from .running import sweeps

CERTAIN = 0.95  # "almost certainly" and "certain" of the papers, which give no number
SELECTED = 0.5
MEASURED = ("seconds", "coef", "inclusion", "positive", "spread", "halves", "gap")  # of every fit


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


@dataclass(frozen=True)
class OneChain(Gibbs):
    """One of several chains, so that each can be a task: the same draws as in a joint fit.

    Chains of even number start from no column, those of odd number from all.
    """

    chains: int = 1
    number: int = 0

    def _chain(self, *given: Any) -> Any:
        *before, _ = given[:6]  # the number of the chain comes sixth
        return super()._chain(*before, self.number, *given[6:])


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
        "coef": written(model.coef_[0] * scale),
        "inclusion": "",
        "positive": "",
        "spread": "",
        "halves": "",
        "gap": "",
    }
    if hasattr(model, "duality_gap_"):
        out["gap"] = float(f"{model.duality_gap_:.3g}")
    if inclusion is not None:
        where = machine.model.slices[-1]
        out["inclusion"] = written(inclusion[where])
        out["positive"] = written(machine.sign_proba()[where])
    if held is not None:
        flat = held.theta[0][:, machine.model.slices[-1]]
        half = len(flat) // 2
        out["halves"] = written(np.stack([flat[:half] != 0, flat[-half:] != 0]).mean(axis=1))
        inside = np.maximum((flat != 0).sum(axis=0), 1)
        mean = flat.sum(axis=0) / inside
        square = ((flat != 0) * (flat - mean) ** 2).sum(axis=0) / inside
        # of coefficients that are in, in standard deviations of their columns as is ``coef``
        out["spread"] = written(np.sqrt(square) * (scale if printed else 1.0))
    return out


@dataclass(frozen=True)
class Joined:
    """Several chains of one model: moments of coefficients, indicators, and their agreement.

    ``mean`` and ``spread`` are of coefficients that are in.
    """

    chains: int
    settings: str
    seconds: float
    inclusion: Array
    positive: Array
    mean: Array
    spread: Array
    r_hat: Array

    @property
    def made(self) -> str:
        """How the chains were made, and how far they agree."""
        worst = int(self.r_hat.argmax())
        return (
            f"{self.chains} chains of {self.settings} in {self.seconds:.0f} s; largest R-hat of an "
            f"inclusion indicator {self.r_hat[worst]:.3f} ({NAMES[worst]})"
        )


def joined(frame: Any) -> Joined:
    """The chains of a frame, a row each, as one sample."""
    coef, inclusion, positive, spread, halves = (
        np.stack([read(text) for text in frame[name]])
        for name in ("coef", "inclusion", "positive", "spread", "halves")
    )
    settings = frame["settings"].iloc[0]
    share = halves.mean(axis=1)  # of the draws in which a column is in
    total = np.maximum(share.sum(axis=0), 1e-12)
    mean = coef.sum(axis=0) / total
    each = np.divide(coef, share, out=np.zeros_like(coef), where=share > 0)
    square = (share * (spread**2 + each**2)).sum(axis=0) / total
    # R-hat of indicators from their shares in half chains, as in `diagnostics.indicator_r_hat`
    half, n = halves.reshape(-1, halves.shape[-1]), sweeps(settings)[1] // 2
    within = np.maximum((half * (1.0 - half)).mean(axis=0) * n / (n - 1), 1.0 / n)
    return Joined(
        len(frame),
        settings,
        float(frame["seconds"].sum()),
        inclusion.mean(axis=0),
        np.where(share.sum(axis=0) > 0, (share * positive).sum(axis=0) / total, 0.5),
        mean,
        np.sqrt(np.maximum(square - mean**2, 0.0)),
        np.sqrt((n - 1) / n + half.var(axis=0, ddof=1) / within),
    )


def written(numbers: Any, digits: int = 5) -> str:
    """Numbers as the text of a cell."""
    shape, each = np.shape(numbers), [float(f"{x:.{digits}g}") for x in np.ravel(numbers)]
    return json.dumps(np.reshape(each, shape).tolist())


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
