"""How kernels are printed."""

import numpy as np
import pytest

from bayesvm.kernels import RBF, Function, Linear, Matern, Precomputed, Scaled, SmoothLocal

LONG = tuple(np.arange(1.0, 65.0) / 3.0)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (2.0 * RBF(3.0) + RBF(), "2 * RBF(length_scale=3) + RBF(length_scale=1)"),
        (44.10799042 * RBF(1 / 3), "44.11 * RBF(length_scale=0.3333)"),
        (RBF((1.0, 2.0)), "RBF(length_scale=(1, 2))"),
        (RBF(LONG), "RBF(length_scale=(0.3333, 0.6667, 1, ..., 20.67, 21, 21.33))"),
        (Matern(0.5, nu=2.5), "Matern(length_scale=0.5, nu=2.5)"),
        (3.0 * (RBF() + Linear()), f"3 * (RBF(length_scale=1) + {Linear()})"),
        ((RBF() + Linear()) * RBF(), f"(RBF(length_scale=1) + {Linear()}) * RBF(length_scale=1)"),
        (
            Scaled(4.0, SmoothLocal(RBF(2.0), 0.5 * Matern(0.3, nu=0.5))),
            "4 * (RBF(length_scale=2) + 0.5 * Matern(length_scale=0.3, nu=0.5))",
        ),
    ],
)
def test_kernels_are_printed_as_they_are_written(kernel, text):
    assert repr(kernel) == text


def test_matrices_and_functions_are_short():
    assert len(repr(Precomputed(np.eye(500), 1.0))) < 80
    assert "max" in repr(Function(max))
