"""Where a fit starts if an earlier one is to be gone on from."""

from __future__ import annotations

from typing import Any

from ..inference.loop import State
from ..machines.machine import Machine
from ..model.model import Problem


def starts_of(estimator: Any, problem: Problem) -> list[State | None]:
    """A start for each machine, or ``None`` where the earlier fit had another shape."""
    count = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
    old = getattr(estimator, "machines_", None) if estimator.warm_start else None
    if not old or len(old) != count:
        return [None] * count
    return [_start_from(m, problem) if _same_shape(m, problem) else None for m in old]


def _start_from(machine: Machine, problem: Problem) -> State:
    """The state of a fitted machine; hyperparameters only where the prior is still the same."""
    coef, priors = machine.state.coef, machine.state.priors
    pairs = zip(machine.model.terms, problem.model.terms, priors, strict=True)
    return State(
        coef,
        tuple(s if a.prior == b.prior else b.prior.init(b.design.width) for a, b, s in pairs),
    )


def _same_shape(machine: Machine, problem: Problem) -> bool:
    """Whether a fitted state can be the start of another problem."""
    old, new = machine.model, problem.model
    same = [
        a.name == b.name and a.design.width == b.design.width and type(a.prior) is type(b.prior)
        for a, b in zip(old.terms, new.terms, strict=False)
    ]
    same.append(len(old.terms) == len(new.terms))
    return all(same) and machine.shape == problem.shape
