"""A whole default fit of a wide dense problem, in units of one product ``C.T @ C`` of its size.

    python benchmarks/wide_linear.py [--rows 30000] [--columns 800] [--repeats 3]

Columns are independent and Gaussian.  Products before and after each fit are the unit, their
median; both are in one process, so that others on the machine slow both.  Seconds of the processor
are the ones to compare where the load average is above the number of cores.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesvm import BayesianLinearSVC


def clocked(fn: Callable[[], Any]) -> np.ndarray:
    """Seconds of the clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    fn()
    return np.array([time.perf_counter() - wall, time.process_time() - cpu])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=800)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    C = rng.standard_normal((args.rows, args.columns))
    f = 2.0 * C @ rng.standard_normal(args.columns) / np.sqrt(args.columns)
    y = rng.random(args.rows) < 1.0 / (1.0 + np.exp(-f))
    BayesianLinearSVC().fit(C[:200, :5], y[:200])  # imports, thread pools
    for _ in range(args.repeats):
        units = [clocked(lambda: C.T @ C) for _ in range(3)]
        fit = clocked(lambda: BayesianLinearSVC().fit(C, y))
        units += [clocked(lambda: C.T @ C) for _ in range(3)]
        wall, cpu = fit / np.median(units, axis=0)
        print(
            f"{args.rows:,} x {args.columns:,}: {fit[0]:.2f} s (processor {fit[1]:.2f} s), "
            f"{wall:.1f} products C.T @ C (processor {cpu:.1f}), load {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main()
