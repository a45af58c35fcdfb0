"""Seconds and bytes of a pass on a local cluster of two processes: the model of docs/scale.md.

python benchmarks/scale_dask.py --out results --rows 200000 1000000 5000000
"""

from __future__ import annotations

import argparse
import csv
import os
import pickle
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from bayesvm.designs import Intercept, Standardised, whiten
from bayesvm.engines import Dask
from bayesvm.engines.dask import DaskRows
from bayesvm.gaussian import FullCovariance
from bayesvm.inference.tight import Tight
from bayesvm.kernels import RBF
from bayesvm.likelihoods import Hinge
from bayesvm.model import Model, Problem
from bayesvm.priors import Fixed
from bayesvm.types import Coef, Term

COLUMNS, PARTITION = 18, 250_000
RAISED = {
    "MALLOC_TRIM_THRESHOLD_": 2**30,
    "MALLOC_MMAP_THRESHOLD_": 2**28,
    "OMP_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 5 * 10**6, 2 * 10**7])
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--thresholds", choices=("dask", "raised"), default="raised")
    parser.add_argument("--passes", type=int, default=3)
    args = parser.parse_args()
    if args.thresholds == "raised":  # see docs/scale.md
        dask.config.set({"distributed.nanny.pre-spawn-environ": RAISED})
    Z = np.random.default_rng(0).standard_normal((args.points, COLUMNS))
    inputs = Standardised(np.zeros(COLUMNS), np.ones(COLUMNS))
    design = whiten(4.0 * RBF(COLUMNS**0.5), Z, inputs)
    terms = (Term("bias", Intercept(), Fixed(1 / 9)), Term("gp", design, Fixed(1.0)))
    model = Model(terms, Tight(Hinge()), "float32")
    K = model.width
    coef = Coef(np.zeros(K), FullCovariance(10.0 * np.eye(K)))
    args.out.mkdir(parents=True, exist_ok=True)
    with (
        (args.out / "scale_dask.csv").open("w", newline="") as handle,
        LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as local,
        Client(local) as client,
    ):
        table = csv.writer(handle)
        names = "thresholds,rows,partitions,points,seconds,cpu_seconds,"
        names += "bytes_per_partition,model_bytes,load"
        table.writerow(names.split(","))
        for n in args.rows:
            rng = da.random.default_rng(0)
            X = rng.standard_normal((n, COLUMNS), chunks=(PARTITION, -1), dtype=np.float32)
            rows = DaskRows.of(X.persist())
            y = da.where(rows.array[:, 0] > 0, 1.0, -1.0)
            c = da.ones(n, chunks=(rows.lengths,))
            problem = Problem(model, rows.cut(y, c, 2**21 // (8 * K)), Dask())
            stats = problem.stats(coef)
            spent = client.run(time.process_time)
            begun = time.perf_counter()
            for _ in range(args.passes):
                stats = problem.stats(coef)
            seconds = (time.perf_counter() - begun) / args.passes
            busy = client.run(time.process_time)
            cpu = sum(busy[k] - spent[k] for k in busy) / args.passes
            sent = len(pickle.dumps(stats))
            line = [
                args.thresholds,
                n,
                len(rows.lengths),
                args.points,
                f"{seconds:.3f}",
                f"{cpu:.3f}",
                sent,
            ]
            line += [8 * K * (K + 1), f"{os.getloadavg()[0]:.1f}"]
            table.writerow(line)
            handle.flush()
            print(dict(zip(names.split(","), line, strict=True)), flush=True)


if __name__ == "__main__":
    main()
