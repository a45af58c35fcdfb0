"""Tuned kernel machines on a GPU beside GPyTorch's SVGP: seconds by stage, log loss of new rows.

Needs torch, SciPy and scikit-learn, and GPyTorch for the comparison; runs from a checkout::

    python benchmarks/gpu_tuned.py --out benchmarks/results/DATE

The first fit of a process loads libraries and compiles nothing of ours; it is stated as cold, the
second as warm.  ``--rows 20000 --points 16 --device cpu --batches 4096`` is a trial without a GPU.
SVGP is fitted for one epoch with every batch size at every rate of Adam, its inducing points start
at rows drawn at random, and its rows are on the device.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_info

from bayesvm import BayesianSVC
from bayesvm.data import Gpu
from gpu import floor, synchronise
from scale_problem import COLUMNS, held_out, simulate

FIELDS = [
    *("what", "rows", "points", "seconds", "search", "fit", "link", "log_loss"),
    *("batch", "rate", "load", "note"),
]


class Table:
    """Rows of results, printed and written as they come."""

    def __init__(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.handle = (out / "gpu_tuned.csv").open("w", newline="")
        self.writer = csv.DictWriter(self.handle, FIELDS, lineterminator="\n")
        self.writer.writeheader()

    def add(self, **row: object) -> None:
        row["load"] = f"{os.getloadavg()[0]:.1f}"
        text = {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()}
        text |= {k: f"{row[k]:.6f}" for k in ("log_loss",) if k in row}
        print(*(f"{k}={v}" for k, v in text.items()), flush=True)
        self.writer.writerow(text)
        self.handle.flush()


class Stages:
    """Seconds of the stages of a fit, from the calls of its callback."""

    def __init__(self) -> None:
        self.begun, self.last = time.perf_counter(), {}

    def __call__(self, progress: object) -> bool:
        stage = "fit" if progress.stage == "vb" else "search"
        self.last[stage] = time.perf_counter() - self.begun
        return False

    def told(self, seconds: float) -> dict[str, float]:
        search = self.last.get("search", 0.0)
        fit = self.last.get("fit", search)
        return {"search": search, "fit": fit - search, "link": seconds - fit}


def ours(X: object, y: object, m: int, device: str, **options: object) -> tuple[object, dict]:
    stages = Stages()
    synchronise(device)
    begun = time.perf_counter()
    model = BayesianSVC(n_inducing=m, random_state=0, callbacks=[stages], **options).fit(X, y)
    synchronise(device)
    seconds = time.perf_counter() - begun
    return model, {"seconds": seconds, **stages.told(seconds)}


def svgp(
    X: torch.Tensor, y: torch.Tensor, X_new: torch.Tensor, m: int, batch: int, rate: float
) -> tuple[float, np.ndarray]:
    """Seconds of one epoch of GPyTorch's SVGP, and probabilities of new rows."""
    import gpytorch

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, Z: torch.Tensor) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            how = gpytorch.variational.VariationalStrategy(self, Z, q)
            super().__init__(how)
            self.mean_module = gpytorch.means.ConstantMean()
            own = gpytorch.kernels.RBFKernel(ard_num_dims=COLUMNS)
            own.lengthscale = COLUMNS**0.5  # the size of the cloud, where our search starts too
            self.covar_module = gpytorch.kernels.ScaleKernel(own)
            self.covar_module.outputscale = 16.0

        def forward(self, x: torch.Tensor) -> object:
            given = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(*given)

    torch.manual_seed(0)
    begun = time.perf_counter()
    n, labels = len(X), y.to(X.dtype)
    likelihood = gpytorch.likelihoods.BernoulliLikelihood().to(X.device)
    model = Model(X[torch.randperm(n, device=X.device)[:m]].clone()).to(X.device)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, n)
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=rate)
    order = torch.randperm(n, device=X.device)
    for first in range(0, n, batch):
        rows = order[first : first + batch]
        optimiser.zero_grad()
        loss = -bound(model(X[rows]), labels[rows])
        loss.backward()
        optimiser.step()
    synchronise(str(X.device))
    seconds = time.perf_counter() - begun
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        parts = [likelihood(model(part)).mean for part in X_new.split(20_000)]
    return seconds, torch.cat(parts).double().cpu().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--points", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--beside", type=int, nargs="*", default=[64, 256], help="points of SVGP")
    parser.add_argument("--batches", type=int, nargs="*", default=[8192, 32768, 131072])
    parser.add_argument("--rates", type=float, nargs="*", default=[0.01, 0.03, 0.1])
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    device, table, n = a.device, Table(a.out), a.rows
    X, y = simulate(n)
    X_new, y_new = held_out()
    there = torch.as_tensor(X, device=device)
    labels = torch.as_tensor(y.astype(np.int64), device=device)
    new = torch.as_tensor(X_new, device=device)
    blas = [k["num_threads"] for k in threadpool_info() if k["user_api"] == "blas"]
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    cores = f"BLAS threads {max(blas, default=1)} of {os.cpu_count()}"
    note = f"{name}, torch {torch.__version__}, {cores}"

    def loss(p: np.ndarray) -> float:
        return float(log_loss(y_new, p))

    for m in a.points:
        for what in ("rows on the device, cold", "rows on the device, warm", "rows on the host"):
            host = what == "rows on the host"
            given = (X, y) if host else (there, labels)
            options = {"engine": Gpu(device)} if host else {}
            model, told = ours(*given, m, device, **options)
            p = model.predict_proba(new).cpu().numpy()[:, 1]
            table.add(what=what, rows=n, points=m, **told, log_loss=loss(p), note=note)
        told = {"seconds": floor(n, m, device, 5), "note": "float32 without tensor cores"}
        table.add(what="bare products of 5 passes", rows=n, points=m, **told)
    for m in a.beside:
        svgp(there[:20_000], labels[:20_000], new[:1000], m, 8192, 0.1)  # libraries load
        for batch in a.batches:
            for rate in a.rates:
                seconds, p = svgp(there, labels, new, m, batch, rate)
                told = {"seconds": seconds, "log_loss": loss(p), "batch": batch, "rate": rate}
                table.add(what="GPyTorch SVGP, one epoch", rows=n, points=m, **told)


if __name__ == "__main__":
    main()
