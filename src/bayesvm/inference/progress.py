"""One fit while it runs: callbacks, printed output, seed and checkpoints."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..core.types import Array, filled, leaves
from ..data.checkpoint import Checkpoint, fingerprint, seed_in


class Progress(NamedTuple):
    """Argument of callbacks.  A callback that returns ``True`` stops the fit."""

    stage: str
    iteration: int
    total: int
    bound: float
    change: float


Watch = Callable[[Progress, Any], bool]  # called with a state; returns whether to stop the fit


def silent(progress: Progress, state: Any) -> bool:
    return False


@dataclass(frozen=True)
class Ascent:
    """Result of a deterministic scheme; ``bound`` is the bound of ``state``.

    ``stopped`` tells whether a callback stopped it.
    """

    state: Any
    bound: float
    path: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    change: float = np.nan
    stopped: bool = False


# ---------------------------------------------------------------------------------------------
# Checkpoints


@dataclass
class Monitor:
    """Reports the progress of a fit and stores its ascents in a checkpoint.

    The ascents of a fit have a fixed order, so they are stored by number.  A resumed fit makes the
    same calls: completed ascents return their stored results, and the next one starts from its
    stored state and reaches the same optimum within the tolerance.  After a callback has stopped
    the fit no ascent is stored, because it would differ from the one of an uninterrupted fit.
    """

    report: Watch
    store: Any = None
    stopped: bool = False
    count: int = 0  # number of ascents so far
    keeps: bool = False  # whether the current ascent is stored

    @classmethod
    def of(cls, watch: Watch) -> Monitor:
        """A monitor: ``watch`` itself, or a monitor without a checkpoint for a plain function."""
        return watch if isinstance(watch, Monitor) else cls(watch)

    def __call__(self, progress: Progress, state: Any) -> bool:
        self.stopped = self.stopped or bool(self.report(progress, state))
        return self.stopped

    def begin(self, like: Any) -> Ascent | None:
        """Begin an ascent; returns its stored result, with a state shaped like ``like``, if any."""
        self.count, self.keeps = self.count + 1, self.store is not None and not self.stopped
        held = self.store.get(f"ascent{self.count}") if self.keeps else {}
        if not held:
            return None
        try:
            path = held["path"].tolist()
            bound, n_iter, converged, change = held["numbers"].tolist()
            state = filled(like, held, "state")
            return Ascent(state, bound, path, int(n_iter), bool(converged), change)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"checkpoint {self.store.path!r} does not hold what this fit has written: {error}. "
                "Delete the file or choose another name."
            ) from error

    def keep(self, run: Ascent, now: bool = False) -> None:
        """Store the ascent; the file is written every few seconds, or ``now``."""
        if not self.keeps:
            return

        def arrays() -> dict[str, Array]:
            numbers = (run.bound, run.n_iter, run.converged, run.change)
            values = {"path": run.path, "numbers": numbers}
            made = {name: np.array(x, dtype=float) for name, x in values.items()}
            return {**made, **dict(leaves(run.state, "state"))}

        self.store.put(f"ascent{self.count}", arrays, now=now)


# ---------------------------------------------------------------------------------------------
# One fit: callbacks and the terminal, seed, checkpoint


WORDS = {  # names of stages in the terminal, if different
    "kernel": "kernel search",
    "amplitude": "amplitude of the kernel",
    "points": "inducing points",
    "start": "start of the fit",
    "vb": "fit by vb",
    "em": "fit by em",
    "svi": "fit by svi",
}


def generator(seed: Any) -> np.random.Generator:
    """A NumPy generator from scikit-learn's ``random_state``."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_random_state(seed).randint(2**31 - 1))


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """A random generator for one purpose and, with ``key``, for one chain, sweep or block.

    NumPy treats ``(seed, k)`` and ``(seed, k, 0)`` as the same entropy, but spawn keys of
    different lengths differ.  They begin with the purpose, so no two uses share a stream.
    """
    word = zlib.crc32(purpose.encode())
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(word, *key)))


class Run:
    """One fit of an estimator while it runs: its progress, seed and checkpoint.

    ``params`` are the estimator's, ``get_params(deep=False)``.  Calling a run passes progress to
    the callbacks and, if ``verbose``, prints it at most once per second.  A stage whose iteration
    count restarts begins a new part.  After a callback has returned ``True`` the run is
    ``stopped``: callbacks are not called again, and the remaining parts of the fit end at once.
    """

    def __init__(self, name: str, params: Mapping[str, Any]) -> None:
        self.name, self.params, self.stopped = name, params, False
        self.path = params.get("checkpoint")
        self.seed: Any = params.get("random_state")
        self.begun = self.last = self.printed = time.monotonic()
        self.parts: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        if self.path is not None and not isinstance(self.seed, Integral):
            # resume with the seed of the checkpoint, so that draws are the same
            held = seed_in(self.path)
            self.seed = generator(self.seed).integers(2**31 - 1) if held is None else held

    def __call__(self, progress: Progress, state: Any = None) -> bool:
        if self.stopped:
            return True
        if self.params.get("verbose"):
            self._print(progress)
        # every callback gets the last step, even if an earlier callback stops the fit
        for callback in self.params.get("callbacks") or ():
            returned = callback(progress)
            self.stopped |= isinstance(returned, bool | np.bool_) and bool(returned)
        return self.stopped

    def _print(self, progress: Progress) -> None:
        stage, iteration, total, bound, _ = progress
        name, now, is_new = WORDS.get(stage, stage), time.monotonic(), stage not in self.counts
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now
        if iteration <= self.counts.get(stage, iteration):  # the stage begins or restarts
            self.parts[stage] = self.parts.get(stage, 0) + 1
        self.counts[stage] = iteration
        if is_new or now - self.printed > 1.0:
            self.printed = now
            part = "" if self.parts[stage] == 1 else f", part {self.parts[stage]}"
            print(f"[bayesvm] {name}{part}: {iteration} of at most {total}, bound {bound:.6g}")

    def print_times(self) -> None:
        """Print the time of each stage; the remaining time is attributed to the link."""
        now = time.monotonic()
        self.seconds["link and reports"] = now - self.last
        parts = ", ".join(f"{name} {s:.1f}" for name, s in self.seconds.items())
        print(f"[bayesvm] done in {now - self.begun:.1f} s: {parts}")

    def generator(self, purpose: str) -> np.random.Generator:
        """The random generator for one part of the fit."""
        if isinstance(self.seed, np.random.Generator):
            return self.seed
        return stream(int(check_random_state(self.seed).randint(2**31 - 1)), purpose)

    def checkpoint(self, data: Callable[[], Iterable[Any]]) -> Checkpoint | None:
        """The checkpoint, if any; it belongs to a fit with equal parameters and ``data``.

        After a stop there is none, because the rest of the fit is cut short.
        """
        if self.path is None or self.stopped:
            return None
        # the seed is stored separately; parameters that do not change the result are left out
        no_matter = {"verbose", "callbacks", "checkpoint", "warm_start", "n_jobs", "engine"}
        given = {k: self.params[k] for k in self.params.keys() - no_matter - {"random_state"}}
        given["dtype"] = getattr(self.params.get("engine"), "dtype", None)  # changes the rounding
        about = {
            "estimator": self.name,
            "parameters": fingerprint(dict(sorted(given.items()))),
            "data": fingerprint(*data()),
            "seed": str(int(self.seed)),
        }
        return Checkpoint(self.path, about)
