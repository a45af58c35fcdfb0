"""Fits to very many rows: rows and labels in, a function that gives probabilities out."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from scale_problem import COLUMNS

SCALE = float(np.sqrt(COLUMNS))  # length scale of fits that are not tuned
BATCH = 1024
CHUNK = 100_000  # rows whose features are made at once for others


def bayesvm(X: Any, y: Any, points: int, threads: int, **options: Any) -> tuple[Callable, dict]:
    from bayesvm import BayesianSVC
    from bayesvm.data import Threads
    from bayesvm.inference.problem import Problem
    from bayesvm.kernels import RBF

    passes, wall, busy, plain = [0.0], [0.0], [0.0], Problem.stats

    def stats(problem: Problem, coef: Any, curved: bool = False) -> Any:
        passes[0] += problem.n / len(y)
        begun, spent = time.perf_counter(), time.process_time()
        out = plain(problem, coef, curved)
        wall[0] += time.perf_counter() - begun
        busy[0] += time.process_time() - spent
        return out

    Problem.stats = stats  # type: ignore[method-assign]
    if options.pop("file", False):
        from bayesvm.data import from_memmap

        X = from_memmap(X.filename)
    if "memory" in options:
        options["engine"] = Threads(threads, memory=options.pop("memory"))
    how = {"tune": False, "random_state": 0, "n_jobs": threads, **options}
    if not how["tune"]:
        how["kernel"] = 4.0 * RBF(SCALE)
    model = BayesianSVC(n_inducing=points, **how).fit(X, y)
    told = {
        "passes": round(passes[0], 2),
        "pass_seconds": wall[0],
        "pass_cpu_seconds": busy[0],
    }
    return lambda rows: model.predict_proba(rows)[:, 1], told


def linear(X: Any, y: Any, points: int, threads: int) -> tuple[Callable, dict]:
    from bayesvm import BayesianLinearSVC

    model = BayesianLinearSVC(random_state=0, n_jobs=threads).fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1], {"passes": model.n_iter_}


def floor(X: Any, y: Any, points: int, threads: int, passes: float) -> tuple[None, dict]:
    """The bare products of so many passes over columns in float32, and nothing else."""
    K, n = points + 1, len(y)
    size = max(2**21 // (8 * K), 2 * K)  # as the package cuts rows
    C = np.random.default_rng(0).random((4 * threads * size, K), dtype=np.float32)
    R, w = np.ones((K, K), np.float32), C[:size, :1].copy()
    starts = [i % (len(C) - size) for i in range(0, round(passes * n), size)]

    def visit(i: int) -> None:
        block = C[i : i + size]
        block @ R
        A = block * w
        A.T @ A

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(visit, starts):
            pass
    return None, {"passes": passes}


def nystroem(X: Any, y: Any, points: int, threads: int, head: str) -> tuple[Callable, dict]:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    features = Nystroem(gamma=0.5 / SCALE**2, n_components=points, random_state=0)
    features.fit(X[:20_000])
    starts = range(0, len(y), CHUNK)
    if head == "sgd":
        model, passes = SGDClassifier(loss="log_loss", random_state=0), 1 if len(y) > 10**6 else 5
        for _ in range(passes):
            for i in starts:
                rows = features.transform(X[i : i + CHUNK])
                model.partial_fit(rows, y[i : i + CHUNK], classes=[0, 1])
    else:
        C = np.empty((len(y), points), np.float32)
        for i in starts:
            C[i : i + CHUNK] = features.transform(X[i : i + CHUNK])
        model = LogisticRegression(max_iter=200).fit(C, y)
        passes = int(model.n_iter_[0])
    return lambda rows: model.predict_proba(features.transform(rows))[:, 1], {"passes": passes}


def boosting(X: Any, y: Any, points: int, threads: int) -> tuple[Callable, dict]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1], {"passes": model.n_iter_}


def svgp(X: Any, y: Any, points: int, threads: int) -> tuple[Callable, dict]:
    """One epoch of GPyTorch's stochastic variational process, Adam, Bernoulli likelihood."""
    import gpytorch
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    rows, labels = torch.from_numpy(np.array(X)), torch.from_numpy(np.array(y, np.float32))

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self, Z: Any) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            super().__init__(gpytorch.variational.VariationalStrategy(self, Z, q))
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.RBFKernel(ard_num_dims=rows.shape[1])
            kernel.lengthscale = SCALE
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    process = Process(rows[torch.randperm(len(rows))[:points]].clone())
    likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, process, len(rows))
    adam = torch.optim.Adam(process.parameters(), lr=0.01)
    order = torch.randperm(len(rows))
    for i in range(0, len(rows), BATCH):
        some = order[i : i + BATCH]
        adam.zero_grad()
        loss = -bound(process(rows[some]), labels[some])
        loss.backward()
        adam.step()
    process.eval()

    def ask(new: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            parts = torch.from_numpy(new).split(10_000)
            return torch.cat([likelihood(process(p)).mean for p in parts]).numpy()

    return ask, {"passes": 1}


class Fit(NamedTuple):
    """A way to fit, its points, its options, and the seconds of 5,000,000 rows on two cores."""

    call: Callable[..., tuple[Callable | None, dict]]
    points: int
    options: dict[str, Any]
    seconds: float


FITS = {
    "bayesvm_64": Fit(bayesvm, 64, {}, 12),
    "bayesvm_64_made_again": Fit(bayesvm, 64, {"memory": 0}, 14),
    "bayesvm_64_file": Fit(bayesvm, 64, {"memory": 0, "file": True}, 15),
    "floor_64": Fit(floor, 64, {}, 4),
    "bayesvm_64_tuned": Fit(bayesvm, 64, {"tune": True}, 25),
    "bayesvm_256": Fit(bayesvm, 256, {}, 60),
    "floor_256": Fit(floor, 256, {}, 35),
    "bayesvm_256_tuned": Fit(bayesvm, 256, {"tune": True}, 100),
    "bayesvm_1024": Fit(bayesvm, 1024, {}, 800),
    "floor_1024": Fit(floor, 1024, {}, 160),
    "bayesvm_linear": Fit(linear, 0, {}, 8),
    "svgp_64": Fit(svgp, 64, {}, 130),
    "nystroem_256_sgd": Fit(nystroem, 256, {"head": "sgd"}, 70),
    "nystroem_256_logistic": Fit(nystroem, 256, {"head": "logistic"}, 220),
    "boosting": Fit(boosting, 0, {}, 60),
}
