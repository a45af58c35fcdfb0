"""The paper's procedure around the power prior: several starts, the kernel's width learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.svm import SVC

from ..core.random import stream
from ..core.types import Array
from ..inference.progress import Progress, Watch, silent
from . import power, relevance
from .folds import row_losses
from .machine import Sparse
from .newton import local
from .process import Notes
from .widths import can_stretch, scales, stretched

SETTLED = 1e-3  # step of the log width below which it stays
RAISED = 1e-2  # weight given to what another machine left at zero or on the wrong side


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to fit and the candidates among them; ``K`` stands for a kernel if there is none."""

    X: Array | None  # (n, p)
    Z: Array | None  # (m, p)
    K: Array | None  # (n, m)
    y: Array
    c: Array
    sign: Array  # (m,) labels of the candidates

    def signed(self, kernel: Any, columns: Array) -> Array:
        """Signed kernel values with some candidates, and the constant."""
        K = self.K[:, columns] if self.K is not None else kernel(self.X, self.Z[columns])  # type: ignore[index]
        return np.column_stack([K * self.sign[columns], np.ones(self.y.size)])


@dataclass(frozen=True)
class Start:
    """Where a run begins: large weights from chance, or another machine's."""

    kind: str  # "random", "svm" or "rvm"
    doublings: float = 0.0
    seed: int = 0

    def weights(self, A: Array, rows: Rows) -> Array:
        m = A.shape[1] - 1
        if self.kind == "random":
            return stream(self.seed, "start").uniform(0.05, 0.5, m)
        K = A[:, :-1] * rows.sign
        if self.kind == "svm":
            w = np.zeros(m)
            machine = SVC(kernel="precomputed").fit(K, rows.y, sample_weight=rows.c)
            w[machine.support_] = machine.dual_coef_[0]
        else:
            found = relevance.sequential(K, rows.y, rows.c)
            w = np.zeros(m)
            w[found.columns] = found.mean[:-1]
        return np.where(w * rows.sign > RAISED, w * rows.sign, RAISED)


def starts(count: int, support: bool, learn_width: bool) -> list[Start]:
    """Random starts over several widths, support vectors if there are any, relevance vectors."""
    widths = (0.0, -1.0, 1.0) if learn_width else (0.0,)
    chance = [Start("random", widths[k % len(widths)], k) for k in range(count)]
    return [*chance, *([Start("svm")] if support else []), Start("rvm")]


def run(
    kernel: Any,
    rows: Rows,
    start: Start,
    shape: float,
    *,
    solver: str,
    tol: float,
    max_iter: int,
    learn_width: bool,
    watch: Watch = silent,
) -> tuple[Any, Sparse]:
    """One run from one start: the kernel where it ended and the machine."""
    now, settled = stretched(kernel, start.doublings), False
    A = rows.signed(now, np.arange(rows.sign.size))
    x = np.append(start.weights(A, rows), 0.0)

    def move(columns: Array, x: Array) -> Array | None:
        nonlocal now, settled
        if settled:
            return None
        assert rows.X is not None
        assert rows.Z is not None
        here, Z = now, rows.Z[columns]
        w = x[:-1] * rows.sign[columns]
        g = local(rows.signed(here, columns), rows.y, rows.c, x).g
        slope = float(here.pull(np.outer(g, w), rows.X, Z)[scales(here)].sum())

        def at(step: float) -> Array:
            return rows.signed(stretched(here, step / np.log(2.0)), columns)

        step = power.width_step(at, rows.y, rows.c, x, slope)
        settled = abs(step) < SETTLED
        if step == 0.0:
            return None
        now = stretched(here, step / np.log(2.0))
        return at(step)

    moves = move if learn_width and can_stretch(kernel) else None
    how: dict[str, Any] = {"solver": solver, "tol": tol, "max_iter": max_iter}
    sparse = power.fit(A, rows.y, rows.c, x, shape, move=moves, watch=watch, **how)
    return now, sparse


def choose_start(
    kernel: Any,
    folds: Sequence[tuple[Rows, Rows]],
    options: dict[str, Any],
    begin: Sequence[Start],
    watch: Watch = silent,
    notes: Notes | None = None,
) -> tuple[Start, tuple[Array, Array, Array, Array]]:
    """The start whose runs say most of rows left out, and what they say of them.

    Each fold is a pair: rows fitted, and rows held out with the same candidates.
    """
    best, found = np.inf, None
    y, c = (np.concatenate([getattr(outside, of) for _, outside in folds]) for of in ("y", "c"))
    for number, start in enumerate(begin, 1):
        known = notes.recall(f"start{number}") if notes else {}
        new = not known
        if new:
            said = []
            for inside, outside in folds:
                at, sparse = run(kernel, inside, start, **options)
                B = outside.signed(at, np.arange(outside.sign.size))
                said.append(sparse.moments(B[:, :-1]))
            known = dict(zip("mv", map(np.concatenate, zip(*said, strict=True)), strict=True))
            if notes:
                notes.note(f"start{number}", **known)
        m, v = known["m"], known["v"]
        loss = float(c @ row_losses(y, m, v, c))
        if loss < best or found is None:
            best, found = loss, (start, (y, m, v, c))
        if new and watch(Progress("starts", number, len(begin), -loss, best - loss), None):
            break
    assert found is not None
    return found
