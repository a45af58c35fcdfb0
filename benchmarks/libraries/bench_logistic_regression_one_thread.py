"""The same logistic regression with one BLAS thread, which can be faster than several."""

from __future__ import annotations

from typing import Any

from threadpoolctl import threadpool_limits

from libraries.bench_logistic_regression import fit as fit_all_threads


def fit(X: Any, y: Any, seed: int) -> Any:
    with threadpool_limits(1, user_api="blas"):
        return fit_all_threads(X, y, seed)
