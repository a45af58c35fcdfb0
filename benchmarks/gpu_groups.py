"""Rows in groups on a GPU: time, and equality with the host.

Needs the extra ``gpu``; runs from a checkout::

    python benchmarks/gpu_groups.py --out results

``--rows 20000 --groups 500 --device cpu`` is a trial without a GPU.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch

from bayesvm import MixedSVC
from bayesvm.data import Gpu

COLUMNS = 18
FIELDS = ["what", "rows", "groups", "effects", "seconds", "again", "passes", "elbo", "mean_gap"]


def simulate(n: int, G: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in float32, their labels, and the groups they are in."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    g = np.concatenate([np.arange(G), rng.integers(0, G, n - G)])
    f = X[:, 0] - X[:, 1] + rng.standard_normal(G)[g] + rng.standard_normal(G)[g] * X[:, 2]
    return X, (f + rng.standard_normal(n) > 0).astype(np.int8), g


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--groups", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device, n = args.device, args.rows
    with (args.out / "gpu_groups.csv").open("w", newline="") as handle:
        table = csv.DictWriter(handle, FIELDS)
        table.writeheader()
        for G in args.groups:
            X, y, g = simulate(n, G)
            there = torch.from_numpy(X).to(device)
            for effects in ("intercept", [2]):
                host = None
                for what, rows, options in (
                    ("host's cores", X, {"engine": "threads"}),
                    ("rows on the device", there, {}),
                    (
                        "rows on the device, float32",
                        there,
                        {"engine": Gpu(device, dtype="float32")},
                    ),
                    ("rows on the host", X, {"engine": Gpu(device)}),
                ):
                    times = []
                    for _ in range(1 if rows is X and "engine" in options else 2):
                        begun = time.perf_counter()
                        model = MixedSVC(random=effects, random_state=0, **options)
                        model.fit(rows, y, groups=g)
                        times.append(time.perf_counter() - begun)
                    mean = model.machines_[0].posterior.mean
                    host = mean if host is None else host
                    row = {
                        "what": what,
                        "rows": n,
                        "groups": G,
                        "effects": "intercept" if effects == "intercept" else "slope",
                        "seconds": f"{times[0]:.3g}",
                        "again": f"{times[-1]:.3g}",
                        "passes": model.n_iter_,
                        "elbo": f"{model.elbo_:.9g}",
                        "mean_gap": f"{np.abs(mean - host).max() / np.abs(host).max():.2g}",
                    }
                    table.writerow(row)
                    handle.flush()
                    print(row, flush=True)


if __name__ == "__main__":
    main()
