"""Seconds of a pass by threads and rows of a block: what the size of blocks was chosen by.

python benchmarks/scale_blocks.py --out results
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import machine
from bayesvm.blocks import cut
from bayesvm.core.types import Coef, Term
from bayesvm.designs import Intercept, Standardised
from bayesvm.engines import Threads
from bayesvm.kernels import RBF
from bayesvm.likelihoods import Hinge
from bayesvm.likelihoods.tight import Tight
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.model.model import Model
from bayesvm.model.problem import Problem
from bayesvm.priors import Fixed
from bayesvm.processes.whitened import Whitened
from scale_problem import COLUMNS, simulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--points", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    X, y = simulate(args.rows)
    inputs = Standardised(np.zeros(COLUMNS), np.ones(COLUMNS))
    with (args.out / "scale_blocks.csv").open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerow(["rows", "points", "threads", "log2_bytes", "block", "seconds"])
        for m in args.points:
            design = Whitened(4.0 * RBF(COLUMNS**0.5), X[:m].astype(float), inputs)
            terms = (Term("bias", Intercept(), Fixed(1 / 9)), Term("gp", design, Fixed(1.0)))
            model = Model(terms, Tight(Hinge()), "float32")
            K = model.width
            coef = Coef(np.full(K, 0.1), FullCovariance(0.01 * np.eye(K)))
            blocks = cut(X, np.where(y > 0, 1.0, -1.0), np.ones(len(y)), 2**14)
            held = Problem(model, blocks, Threads()).assembled()
            for k in [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= machine.cores()]:
                for log2 in range(20, 25):
                    size = max(2**log2 // (8 * K), 2 * K)
                    now = replace(held.blocks, size=size)
                    problem = replace(held, blocks=now, engine=Threads(k))
                    times = []
                    for _ in range(2):
                        start = time.perf_counter()
                        problem.stats(coef)
                        times.append(time.perf_counter() - start)
                    line = [args.rows, m, k, log2, size, f"{min(times):.4f}"]
                    table.writerow(line)
                    handle.flush()
                    print(*line, flush=True)
                    if time.monotonic() - begun > args.limit:
                        return


if __name__ == "__main__":
    main()
