"""Kernel machines on a GPU: time, memory, and equality with the CPU.

Needs the extra ``gpu``; runs from a checkout::

    python benchmarks/gpu.py --out results

``--rows 20000 --points 16 --device cpu`` is a trial without a GPU.
"""

from __future__ import annotations

import argparse
import csv
import gc
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from bayesvm import BayesianSVC
from bayesvm.data import Gpu, block_rows
from bayesvm.gp.inducing import choose_points
from bayesvm.kernels import RBF
from scale_problem import Passes, held_out, simulate

FIELDS = [
    "what",
    "rows",
    "points",
    "seconds",
    "passes",
    "pass_seconds",
    "elbo",
    "auc",
    "brier",
    "log_loss",
    "device_gb",
    "mean_gap",
    "proba_gap",
    "note",
]


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def scores(model: BayesianSVC, X: object, y: np.ndarray) -> dict[str, float]:
    p = np.asarray(model.predict_proba(X).cpu() if hasattr(X, "cpu") else model.predict_proba(X))
    p = p[:, 1]
    return {
        "auc": roc_auc_score(y, p),
        "brier": brier_score_loss(y, p),
        "log_loss": log_loss(y, p),
    }


def floor(n: int, m: int, device: str, passes: int = 10) -> float:
    """Seconds of the bare products of so many passes, in float32, in the engine's blocks."""
    K, size = m + 1, min(n, block_rows(m + 1, 0, Gpu.block_bytes))
    C = torch.rand((size, K), dtype=torch.float32, device=device)
    R = torch.rand((K, K), dtype=torch.float32, device=device)
    w = torch.rand(size, dtype=torch.float32, device=device)
    for timed in (False, True):
        synchronise(device)
        begun = time.perf_counter()
        for _ in range(passes if timed else 1):
            for _ in range(-(-n // size)):
                T = C @ R
                (T * T).sum(1)
                A = C * w[:, None]
                A.T @ A
        synchronise(device)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--points", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device, n = args.device, args.rows
    name = torch.cuda.get_device_name() if device.startswith("cuda") else platform.processor()
    print(f"torch {torch.__version__} on {name}, {n} rows", flush=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    handle = (args.out / "gpu.csv").open("w", newline="")
    table = csv.DictWriter(handle, FIELDS)
    table.writeheader()

    def report(what: str, points: int, **values: object) -> None:
        row = {"what": what, "rows": n, "points": points, **values}
        table.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
        handle.flush()
        print({k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()}, flush=True)

    X, y = simulate(n)
    X_test, y_test = held_out()
    there = torch.from_numpy(X).to(device)
    test = torch.from_numpy(X_test).to(device)
    kernel = 4.0 * RBF(float(np.sqrt(X.shape[1])))
    engine = Gpu(device)

    def fit(rows: object, labels: object, Z: object, **options: object) -> tuple:
        gc.collect()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        options = {"tune": False, "random_state": 0, "engine": engine, **options}
        model = BayesianSVC(kernel, inducing=Z, **options)
        synchronise(device)
        with Passes(lambda: synchronise(device)) as passes:
            begun = time.perf_counter()
            model.fit(rows, labels)
            synchronise(device)
            seconds = time.perf_counter() - begun
        whole = [seconds for rows, seconds, _ in passes.calls if rows == len(y)] or [0.0]
        peak = torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else 0.0
        told = {
            "seconds": seconds,
            "passes": len(whole),
            "pass_seconds": float(np.mean(whole)),
            "elbo": model.elbo_,
            "device_gb": peak,
        }
        return model, told

    def gaps(model: BayesianSVC, other: BayesianSVC) -> dict[str, float]:
        a, b = (k.machines_[0].posterior.mean for k in (model, other))
        p, q = (k.predict_proba(X_test[:20_000]) for k in (model, other))
        return {
            "mean_gap": float(np.abs(a - b).max() / np.abs(b).max()),
            "proba_gap": float(np.abs(p - q).max()),
        }

    some = X[:20_000].astype(float)
    places = {}
    for m in args.points:
        begun = time.perf_counter()
        places[m] = choose_points(some, m, "kmeans", RBF(1.0), np.random.default_rng(0))
        report("k-means on 20,000 rows, host", m, seconds=time.perf_counter() - begun)
    fit(there[:60_000], y[:60_000], places[args.points[0]])  # libraries load, memory is mapped

    for m in args.points:
        report("bare products of 10 passes", m, seconds=floor(n, m, device), passes=10)
        model, told = fit(there, y, places[m])
        report("fit, rows on the device", m, **told, **scores(model, test, y_test))
        again, told = fit(there, y, places[m])
        report("the same again", m, **told, **gaps(again, model))
        host, told = fit(X, y, places[m])
        report("fit, rows on the host", m, **told, **gaps(host, model))
        double, told = fit(there, y, places[m], engine=replace(engine, dtype="float64"))
        report("fit in float64", m, **told, **gaps(model, double), note="gaps of float32 to this")
        if device.startswith("cuda"):
            torch.backends.cuda.matmul.allow_tf32 = True
            report("bare products, TF32", m, seconds=floor(n, m, device), passes=10)
            rough, told = fit(there, y, places[m])
            torch.backends.cuda.matmul.allow_tf32 = False
            report("fit with TF32", m, **told, **gaps(rough, double), **scores(rough, test, y_test))
            del rough
        if m <= 256:
            cpu, told = fit(X, y, places[m], engine="threads")
            report("fit on the host's cores", m, **told, **gaps(model, cpu), note="gaps of the GPU")
            del cpu
        del model, again, host, double

    tuned = min(256, max(args.points))
    for what in ("tuned fit", "tuned fit again"):
        begun = time.perf_counter()
        model = BayesianSVC(n_inducing=tuned, random_state=0, engine=engine).fit(there, y)
        synchronise(device)
        seconds = time.perf_counter() - begun
        report(what, tuned, seconds=seconds, elbo=model.elbo_, **scores(model, test, y_test))
    handle.close()


if __name__ == "__main__":
    main()
