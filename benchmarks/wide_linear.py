"""A whole default fit of a wide dense problem, in units of one product ``C.T @ C`` of its size.

    python benchmarks/wide_linear.py [--rows 30000] [--columns 800] [--repeats 3]

Columns are independent and Gaussian.  Products before and after each fit are the unit, their
median; both are in one process, so that others on the machine slow both.  Seconds of the processor
are the ones to compare where the load average is above the number of cores.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from bayesvm import BayesianLinearSVC
from linear_speed import clocked, independent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=800)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    C, y, _, _ = independent(args.rows, args.columns)
    BayesianLinearSVC().fit(C[:200, :5], y[:200])  # imports, thread pools
    for _ in range(args.repeats):
        units = [clocked(lambda: C.T @ C)[1:] for _ in range(3)]
        fit = clocked(lambda: BayesianLinearSVC().fit(C, y))[1:]
        units += [clocked(lambda: C.T @ C)[1:] for _ in range(3)]
        wall, cpu = fit / np.median(units, axis=0)
        print(
            f"{args.rows:,} x {args.columns:,}: {fit[0]:.2f} s (processor {fit[1]:.2f} s), "
            f"{wall:.1f} products C.T @ C (processor {cpu:.1f}), load {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main()
