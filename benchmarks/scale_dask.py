"""Seconds and bytes of a pass on a local cluster of two processes: the model of docs/scale.md.

    python benchmarks/scale_dask.py --out results --rows 1000000 5000000 20000000

Rows are drawn on the workers and stay there.  Seconds of the processor are those of the workers,
and apart from them those of scheduler and client.  Bytes are all that went through the loopback of
the machine meanwhile: model and posterior, tasks, sums, and rows (also apart) that a worker takes
over from a slower one.  Lines that are in the table are not measured again.
"""

from __future__ import annotations

import argparse
import csv
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, futures_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from bayesvm.core.types import Coef, Term
from bayesvm.data import Dask, cut
from bayesvm.data.sources import DaskRows
from bayesvm.designs import Intercept, Standardised
from bayesvm.gp.inducing import Whitened
from bayesvm.inference.model import Model
from bayesvm.inference.problem import Problem
from bayesvm.kernels import RBF
from bayesvm.likelihoods import Hinge
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.priors import Fixed

COLUMNS, PARTITION, WORKERS = 18, 250_000, 2
RAISED = {
    "MALLOC_TRIM_THRESHOLD_": 2**30,
    "MALLOC_MMAP_THRESHOLD_": 2**28,
    "OMP_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
}
KEY = ["thresholds", "rows", "partitions", "points", "kept"]
FIELDS = [
    *KEY,
    "passes",
    "seconds",
    "cpu_seconds",
    "here_cpu_seconds",
    "bytes_sent",
    "bytes_of_rows",
    "bytes_per_partition",
    "model_bytes",
    "load",
]


def make_model(points: int) -> Model:
    Z = np.random.default_rng(0).standard_normal((points, COLUMNS))
    inputs = Standardised(np.zeros(COLUMNS), np.ones(COLUMNS))
    design = Whitened(4.0 * RBF(COLUMNS**0.5), Z, inputs)
    terms = (Term("bias", Intercept(), Fixed(1 / 9)), Term("gp", design, Fixed(1.0)))
    return Model(terms, Hinge(is_tight=True), "float32")


def _clock() -> float:
    return time.process_time()


def _sent() -> int:
    """Bytes through the loopback since the machine was started."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


def _moved(dask_worker: Any) -> int:
    """Bytes of rows that a worker has fetched from another, to share the work."""
    return sum(n for log in dask_worker.transfer_incoming_log for n in log["keys"].values())


def measure(
    client: Client, model: Model, n: int, size: int, passes: int, kept: bool
) -> dict[str, Any]:
    """One pass of ``n`` rows, averaged over a few, after one that warms up."""
    rng, K = da.random.default_rng(0), model.width
    X = rng.standard_normal((n, COLUMNS), chunks=(size, -1), dtype=np.float32)
    rows = DaskRows.of(X.persist())
    client.rebalance(futures_of(rows.array))  # an idle worker would fetch partitions, pass by pass
    y, c = da.where(rows.array[:, 0] > 0, 1.0, -1.0).compute(), np.ones(n)
    problem = Problem(model, cut(rows, 2**21 // (8 * K)), Dask(), y, c)
    problem = problem.assembled() if kept else problem
    coef = Coef(np.zeros(K), FullCovariance(10.0 * np.eye(K)))
    first = DaskRows.of(rows.array[: 2 * size])
    blocks = cut(first, 2**21 // (8 * K))
    few = Problem(model, blocks, Dask(), y[: 2 * size], c[: 2 * size])
    few.stats(coef)  # workers import what they need
    spent, moved, sent = client.run(_clock), client.run(_moved), _sent()
    begun, here = time.perf_counter(), time.process_time()
    for _ in range(passes):
        stats = problem.stats(coef)
    seconds, here = time.perf_counter() - begun, time.process_time() - here
    sent, busy, after = _sent() - sent, client.run(_clock), client.run(_moved)
    return {
        "rows": n,
        "partitions": len(rows.lengths),
        "points": K - 1,
        "kept": int(kept),
        "passes": passes,
        "seconds": round(seconds / passes, 3),
        "cpu_seconds": round(sum(busy[k] - spent[k] for k in busy) / passes, 3),
        "here_cpu_seconds": round(here / passes, 3),
        "bytes_sent": sent // passes,
        "bytes_of_rows": sum(after[k] - moved[k] for k in after) // passes,
        "bytes_per_partition": len(pickle.dumps(stats)),
        "model_bytes": 8 * K * (K + 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 5 * 10**6, 2 * 10**7])
    parser.add_argument("--partition", type=int, default=PARTITION, help="rows of a partition")
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--thresholds", choices=("dask", "raised"), default="raised")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--kept", action="store_true", help="columns stay on the workers too")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "scale_dask.csv"
    lines: list[dict[str, Any]] = []
    if path.exists():
        with path.open() as handle:
            lines = list(csv.DictReader(handle))
    known = {tuple(line.get(name, "") for name in KEY) for line in lines}
    if args.thresholds == "raised":  # see docs/scale.md
        dask.config.set({"distributed.nanny.pre-spawn-environ": RAISED})
    model = make_model(args.points)
    with (
        LocalCluster(
            WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        Client(local) as client,
    ):
        for n in args.rows:
            key = (args.thresholds, n, -(-n // args.partition), args.points, int(args.kept))
            if tuple(map(str, key)) in known:
                continue
            line = {"thresholds": args.thresholds}
            line |= measure(client, model, n, args.partition, args.passes, args.kept)
            lines.append(line)
            with path.open("w", newline="") as handle:
                table = csv.DictWriter(handle, FIELDS)
                table.writeheader()
                table.writerows(lines)
            print(line, flush=True)


if __name__ == "__main__":
    main()
