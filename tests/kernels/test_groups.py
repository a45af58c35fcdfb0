"""Columns that share a length scale, and kernels over categories."""

import numpy as np
import pytest
from tests.problems import differences

from bayesvm.kernels import (
    RBF,
    Linear,
    Matern,
    Polynomial,
    column_scales,
    groups_of,
    with_columns,
    with_groups,
)

GROUPS = (0, 1, 1, 1, 2)
SCALES = (0.7, 1.3, 2.1)
KERNELS = [
    RBF(SCALES),
    Matern(SCALES, nu=0.5),
    Matern(SCALES, nu=1.5),
    Matern(SCALES, nu=2.5),
    Linear(SCALES),
    Polynomial(2, SCALES),
    2.0 * RBF(SCALES) + 0.5 * Matern(SCALES, nu=0.5),
    RBF(SCALES) * Linear(1.5),
]
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((6, 5)), RNG.standard_normal((4, 5))
G, g = RNG.standard_normal((6, 4)), RNG.standard_normal(6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_columns_of_a_group_have_its_length_scale(kernel):
    grouped = with_groups(kernel, GROUPS)
    assert groups_of(grouped) == GROUPS
    assert grouped.names == kernel.names
    one = np.array([SCALES[k] for k in GROUPS])
    if not isinstance(kernel, RBF | Matern):
        return
    plain = type(kernel)(one, **({"nu": kernel.nu} if isinstance(kernel, Matern) else {}))
    np.testing.assert_allclose(grouped(A, B), plain(A, B))
    np.testing.assert_allclose(column_scales(grouped, 5), one)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_are_those_of_finite_differences(kernel):
    kernel = with_groups(kernel, GROUPS)
    want = differences(lambda t: (G * kernel.with_theta(t)(A, B)).sum(), kernel.theta)
    np.testing.assert_allclose(kernel.pull(G, A, B), want, rtol=1e-6, atol=1e-7)
    want = differences(lambda t: g @ kernel.with_theta(t).diag(A), kernel.theta)
    np.testing.assert_allclose(kernel.pull_diag(g, A), want, rtol=1e-6, atol=1e-7)
    if not hasattr(kernel, "left") or "Product" not in repr(kernel):
        to_A, to_B = kernel.pull_points(G, A, B)
        want = differences(lambda x: (G * kernel(x, B)).sum(), A)
        np.testing.assert_allclose(to_A, want, rtol=1e-5, atol=1e-7)
        want = differences(lambda x: (G * kernel(A, x)).sum(), B)
        np.testing.assert_allclose(to_B, want, rtol=1e-5, atol=1e-7)


def test_a_shared_scale_becomes_one_for_each_group():
    kernel = with_columns(with_groups(4.0 * RBF(2.0), GROUPS), 5)
    assert kernel.kernel.length_scale == (2.0, 2.0, 2.0)
    assert kernel.names == ("weight", "length_scale[0]", "length_scale[1]", "length_scale[2]")
    assert with_groups(kernel, None) is kernel


def test_the_gaussian_kernel_of_indicators_counts_mismatches():
    """exp{-sum over columns of [a != b] / l_j^2}, with levels at a squared distance of two."""
    codes = RNG.integers(0, 3, (8, 2))
    one_hot = np.concatenate([np.eye(3)[codes[:, j]] for j in range(2)], axis=1)
    kernel = with_groups(RBF((0.8, 1.7)), (0, 0, 0, 1, 1, 1))
    differ = codes[:, None] != codes
    want = np.exp(-(differ / np.square([0.8, 1.7])).sum(axis=2))
    np.testing.assert_allclose(kernel(one_hot), want)
