"""Fits to very many rows: rows and labels in, a function that gives probabilities out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scale_problem import COLUMNS, Passes

SCALE = float(np.sqrt(COLUMNS))  # length scale of fits that are not tuned
BATCH = 1024
CHUNK = 100_000  # rows whose features are made at once for others


def bayesvm(X: Any, y: Any, points: int, threads: int, **options: Any) -> tuple[Callable, dict]:
    from bayesvm import BayesianSVC
    from bayesvm.data import Threads
    from bayesvm.kernels import RBF

    if options.pop("file", False):
        from bayesvm.data import from_memmap

        X = from_memmap(X.filename)
    if "memory" in options:
        options["engine"] = Threads(threads, memory=options.pop("memory"))
    how = {"tune": False, "random_state": 0, "n_jobs": threads, **options}
    if not how["tune"]:
        how["kernel"] = 4.0 * RBF(SCALE)
    with Passes() as passes:
        model = BayesianSVC(n_inducing=points, **how).fit(X, y)
    rows, wall, busy = np.reshape(passes.calls, (-1, 3)).sum(axis=0)
    told = {"passes": round(rows / len(y), 2), "pass_seconds": wall, "pass_cpu_seconds": busy}
    return lambda rows: model.predict_proba(rows)[:, 1], told


def nystroem(X: Any, y: Any, points: int, threads: int) -> tuple[Callable, dict]:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression

    features = Nystroem(gamma=0.5 / SCALE**2, n_components=points, random_state=0)
    features.fit(X[:20_000])
    C = np.empty((len(y), points), np.float32)
    for i in range(0, len(y), CHUNK):
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
    """A way to fit, its points and its options."""

    call: Callable[..., tuple[Callable, dict]]
    points: int
    options: dict[str, Any]


FITS = {
    "bayesvm_64": Fit(bayesvm, 64, {}),
    "bayesvm_64_made_again": Fit(bayesvm, 64, {"memory": 0}),
    "bayesvm_64_file": Fit(bayesvm, 64, {"memory": 0, "file": True}),
    "bayesvm_64_tuned": Fit(bayesvm, 64, {"tune": True}),
    "bayesvm_256_tuned": Fit(bayesvm, 256, {"tune": True}),
    "svgp_64": Fit(svgp, 64, {}),
    "nystroem_256_logistic": Fit(nystroem, 256, {}),
    "boosting": Fit(boosting, 0, {}),
}
