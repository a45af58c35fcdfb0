"""Kernel machines with probabilities on Breiman's waveforms, from 400 rows to 20,000.

    python benchmarks/run.py kernel                      # or: make bench NAME=kernel
    python benchmarks/kernel.py --only ours svgp --rows 5000 --out kernel.csv

All are tuned by their own means and scored on the same 20,000 rows.  One row of the CSV for every
method and size, written as it comes; those that are there already are not computed again.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesvm import BayesianSVC
from kernel_checks import waveforms

HERE = Path(__file__).resolve().parent
ROWS = (400, 2_000, 5_000, 20_000)
TEST_ROWS = 20_000
FIELDS = (
    *("problem", "rows", "method", "error", "log_loss", "brier"),
    *("seconds", "cpu_seconds", "load", "detail"),
)
Fitted = tuple[Callable[[np.ndarray], np.ndarray], str, float | None, float | None]


def _proba(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: model.predict_proba(X)[:, 1]


def ours(X: np.ndarray, y: np.ndarray, jobs: int) -> Fitted:
    """``BayesianSVC()``: tuned, calibrated."""
    model = BayesianSVC(random_state=0).fit(X, y)
    return _proba(model), f"{len(model.inducing_points_)} points", None, None


def ours_untuned(X: np.ndarray, y: np.ndarray, jobs: int) -> Fitted:
    """The kernel as it is and 100 inducing points."""
    model = BayesianSVC(n_inducing=100, tune=False, random_state=0).fit(X, y)
    return _proba(model), f"{model.n_iter_} passes", None, None


def svc(X: np.ndarray, y: np.ndarray, jobs: int) -> Fitted:
    """The default machine, which has labels only."""
    model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    return (lambda A: model.predict(A).astype(float)), "no probabilities", None, None


def svc_platt(X: np.ndarray, y: np.ndarray, jobs: int) -> Fitted:
    """The default machine with Platt's method, five folds."""
    svm = make_pipeline(StandardScaler(), SVC())
    return _proba(CalibratedClassifierCV(svm, ensemble=False).fit(X, y)), "", None, None


def svc_grid_platt(X: np.ndarray, y: np.ndarray, jobs: int) -> Fitted:
    """32 points by five folds, then Platt's method."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = {
        "svc__C": [0.1, 1.0, 10.0, 100.0],
        "svc__gamma": [2.0**k / X.shape[1] for k in (3, 2, 1, 0, -1, -3, -5, -7)],
    }
    svm = make_pipeline(StandardScaler(), SVC())
    search = GridSearchCV(svm, grid, cv=folds, n_jobs=jobs).fit(X, y)
    model = CalibratedClassifierCV(search.best_estimator_, cv=folds, ensemble=False, n_jobs=jobs)
    return _proba(model.fit(X, y)), str(search.best_params_), None, None


def gpc(X: np.ndarray, y: np.ndarray, jobs: int) -> Fitted:
    """Laplace's method, marginal likelihood."""
    kernel = ConstantKernel(4.0) * RBF(np.sqrt(X.shape[1]))
    model = make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel)).fit(X, y)
    return _proba(model), "", None, None


def svgp(X: np.ndarray, y: np.ndarray, jobs: int) -> Fitted:
    """GPyTorch: whitened, 250 points by k-means and then by gradient, Adam, minibatches of 256.

    Its time is that at which its log loss on rows held out is first within 0.005 of the best it
    ever has; looking at those rows is not in the time.
    """
    import gpytorch
    import torch

    torch.manual_seed(0)
    scaler = StandardScaler().fit(X)
    seen, labels = torch.tensor(scaler.transform(X)), torch.tensor(y, dtype=torch.float64)
    held, held_y = waveforms(5_000, 2)
    held_X = torch.tensor(scaler.transform(held))
    clock, cpu = time.perf_counter(), time.process_time()
    m = min(250, len(X))
    Z = KMeans(m, n_init=1, random_state=0).fit(seen.numpy()).cluster_centers_

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            family = gpytorch.variational.CholeskyVariationalDistribution(m)
            strategy = gpytorch.variational.VariationalStrategy(
                self, torch.tensor(Z), family, learn_inducing_locations=True
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            inner = gpytorch.kernels.RBFKernel()
            inner.lengthscale = float(np.sqrt(X.shape[1]))
            self.covar_module = gpytorch.kernels.ScaleKernel(inner)

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model, likelihood = Model().double(), gpytorch.likelihoods.BernoulliLikelihood().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    steps = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    history: list[tuple[float, float, float, dict[str, Any]]] = []
    spent, spent_cpu = time.perf_counter() - clock, time.process_time() - cpu

    def proba(A: Any) -> np.ndarray:
        model.eval()
        with torch.no_grad():
            parts = [likelihood(model(part)).mean for part in torch.split(A, 2_000)]
        model.train()
        return np.clip(torch.cat(parts).numpy(), 1e-12, 1 - 1e-12)

    order = torch.Generator().manual_seed(0)
    most, every = 4_000, 50
    model.train()
    done = 0
    while done < most:
        clock, cpu = time.perf_counter(), time.process_time()
        for _ in range(every):
            rows = torch.randint(len(X), (min(256, len(X)),), generator=order)
            steps.zero_grad()
            loss = -bound(model(seen[rows]), labels[rows])
            loss.backward()
            steps.step()
        done += every
        spent += time.perf_counter() - clock
        spent_cpu += time.process_time() - cpu
        state = {k: v.clone() for k, v in model.state_dict().items()}
        history.append((log_loss(held_y, proba(held_X)), spent, spent_cpu, state))
        best = min(h[0] for h in history)
        last_gain = next(k for k, h in enumerate(history) if h[0] <= best + 1e-3)
        if len(history) - last_gain > 1_500 // every:  # nothing gained for long
            break
    first = next(h for h in history if h[0] <= best + 0.005)
    model.load_state_dict(first[3])
    detail = f"step {every * (history.index(first) + 1)} of {done}, best {best:.4f}"
    return (lambda A: proba(torch.tensor(scaler.transform(A)))), detail, first[1], first[2]


METHODS: dict[str, tuple[Callable[[np.ndarray, np.ndarray, int], Fitted], int]] = {
    "ours": (ours, 10**9),
    "ours_untuned": (ours_untuned, 10**9),
    "svc": (svc, 10**9),
    "svc_platt": (svc_platt, 10**9),
    "svgp": (svgp, 10**9),
    "gpc": (gpc, 2_000),  # most rows: its time grows with their cube
    "svc_grid_platt": (svc_grid_platt, 5_000),  # likewise with nearly their square, 165 times
}


def measure(method: str, rows: int, jobs: int) -> dict[str, Any]:
    """Fit once, score once."""
    X, y = waveforms(rows, 0)
    X_test, y_test = waveforms(TEST_ROWS, 1)
    load = os.getloadavg()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start, cpu = time.perf_counter(), time.process_time()
        predict, detail, wall, own = METHODS[method][0](X, y, jobs)
        wall = time.perf_counter() - start if wall is None else wall
        own = time.process_time() - cpu if own is None else own
    p = predict(X_test)
    blind = detail == "no probabilities"
    return {
        "problem": "waveform",
        "rows": rows,
        "method": method,
        "error": f"{np.mean((p > 0.5) != (y_test == 1)):.4f}",
        "log_loss": "" if blind else f"{log_loss(y_test, p):.4f}",
        "brier": "" if blind else f"{np.mean((p - y_test) ** 2):.4f}",
        "seconds": f"{wall:.2f}",
        "cpu_seconds": f"{own:.2f}",
        "load": f"{load:.1f}",
        "detail": detail,
    }


def thirteen(path: Path) -> list[dict[str, Any]]:
    """Means over Raetsch's sets, from the file that ``raetsch.py`` has left beside.

    Of the two methods that were run on all its divisions, where both were.
    """
    if not path.exists():
        return []
    held: dict[str, dict[tuple[str, str], list[float]]] = {"ours": {}, "svc": {}}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["method"] in held:
                values = [float(row[k]) for k in ("error", "log_loss", "brier", "fit_s")]
                held[row["method"]][row["set"], row["realisation"]] = values
    both = sorted(set(held["ours"]) & set(held["svc"]))
    sets = sorted({name for name, _ in both})
    out = []
    for method, label in (("ours", "ours"), ("svc", "svc_grid_platt")):
        means = [np.mean([held[method][k] for k in both if k[0] == s], axis=0) for s in sets]
        error, loss, brier, seconds = np.mean(means, axis=0)
        row = {"problem": f"{len(sets)} sets", "method": label, "seconds": f"{seconds:.2f}"}
        row |= {"error": f"{error:.4f}", "log_loss": f"{loss:.4f}", "brier": f"{brier:.4f}"}
        out.append(dict.fromkeys(FIELDS, "") | row | {"detail": "means of raetsch.csv"})
    return out


def run(path: Path, only: list[str] | None, rows: list[int], jobs: int, say: Any = print) -> None:
    held: list[dict[str, Any]] = []
    if path.exists():
        with path.open() as file:
            held = [r for r in csv.DictReader(file) if r["problem"] == "waveform"]
    done = {(r["method"], int(r["rows"])) for r in held}
    for n in rows:
        for method in only or METHODS:
            if (method, n) in done or n > METHODS[method][1]:
                continue
            held.append(measure(method, n, jobs))
            _write(path, held)
            last = held[-1]
            say(
                f"{n:6d} {method:15s} error {last['error']}, log loss {last['log_loss'] or '-'}, "
                f"{last['seconds']} s (cpu {last['cpu_seconds']}) {last['detail']}"
            )
    _write(path, held)


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    order = {m: k for k, m in enumerate(METHODS)}
    rows = sorted(rows, key=lambda r: (int(r["rows"]), order[r["method"]]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows, *thirteen(path.parent / "raetsch.csv")])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=METHODS)
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--jobs", type=int, default=-1, help="processes of the grid search")
    parser.add_argument("--out", type=Path, default=Path("kernel.csv"))
    given = parser.parse_args()
    run(given.out, given.only, given.rows, given.jobs)
