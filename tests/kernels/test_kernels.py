"""Kernels against scikit-learn's, and their gradients against central differences."""

import pickle

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as reference
from tests.problems import differences

from bayesvm import kernels
from bayesvm.kernels import (
    RBF,
    Constant,
    Function,
    Linear,
    Matern,
    Polynomial,
    Product,
    Scaled,
    SmoothLocal,
    Sum,
    White,
    column_scales,
    groups_of,
    with_columns,
    with_groups,
)

ARD = (0.7, 1.3, 2.1)
GROUPS = (0, 1, 1)  # of columns that share a length scale
MAKERS = [
    RBF,
    Linear,
    lambda scale: Matern(scale, nu=0.5),
    lambda scale: 2.0 * Matern(scale, nu=2.5) + 0.5 * Polynomial(2, scale),
]
KERNELS = [
    *(with_groups(make(ARD[:2]), GROUPS) for make in MAKERS),
    RBF(1.3),
    RBF(ARD),
    Matern(1.3, nu=0.5),
    Matern(ARD, nu=0.5),
    Matern(1.3, nu=1.5),
    Matern(ARD, nu=1.5),
    Matern(0.9, nu=2.5),
    Matern(ARD, nu=2.5),
    Linear(1.5),
    Linear(ARD),
    Polynomial(2, 1.2, 0.7),
    Polynomial(3, ARD, 1.4),
    Constant(2.5),
    White(0.3),
    Scaled(3.0, RBF(ARD)),
    Sum(RBF(0.8), Scaled(0.5, Linear())),
    SmoothLocal(RBF(ARD), Scaled(0.5, Matern(0.3))),
    Product(Matern(1.1), Polynomial(2)),
    2.0 * (RBF(ARD) * Linear(2.0) + Constant(0.3)) + White(0.1),
    Function(lambda A, B: (A @ B.T) ** 2),
]
ids = [str(k).split(" at 0x")[0][:60] for k in KERNELS]  # no addresses: workers must agree


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    B[0] = A[0]  # a coincident pair
    for a in (A, B):
        a.flags.writeable = False
    return A, B


def test_given_values_are_read_by_number_or_by_value(rows):
    A, B = rows
    k = 2.0 * RBF(1.3)
    given = kernels.Precomputed(k(A), unit=4.0)
    some = np.array([[3], [0]])
    np.testing.assert_allclose(given(some), k(A[[3, 0]]) / 4)
    np.testing.assert_allclose(given(some, k(B, A)), k(A[[3, 0]], B) / 4)
    np.testing.assert_allclose(given(k(B, A), some), k(B, A[[3, 0]]) / 4)
    np.testing.assert_allclose(given.diag(some), 0.5)
    np.testing.assert_allclose(given.diag(k(B, A)), 0.5)
    assert "K=" not in repr(given)
    with pytest.raises(ValueError, match="new rows with each other"):
        given(k(B, A))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RBF(1.3), reference.RBF(1.3)),
        (RBF(ARD), reference.RBF(ARD)),
        (Matern(1.3, 0.5), reference.Matern(1.3, nu=0.5)),
        (Matern(ARD, 1.5), reference.Matern(ARD, nu=1.5)),
        (Matern(0.9, 2.5), reference.Matern(0.9, nu=2.5)),
        (Linear(1.0), reference.DotProduct(sigma_0=0.0)),
        (Polynomial(2, 1.0, 0.25), reference.Exponentiation(reference.DotProduct(0.5), 2)),
        (Constant(2.5), reference.ConstantKernel(2.5)),
        (White(0.3), reference.WhiteKernel(0.3)),
        (3.0 * RBF(0.5) + 0.1, 3.0 * reference.RBF(0.5) + reference.ConstantKernel(0.1)),
        (RBF(0.5) * Linear(), reference.RBF(0.5) * reference.DotProduct(0.0)),
    ],
    ids=str,
)
def test_values_are_those_of_scikit_learn(ours, theirs, rows):
    A, B = rows
    np.testing.assert_allclose(ours(A), theirs(A), atol=1e-12)
    np.testing.assert_allclose(ours(A, B), theirs(A, B), atol=1e-7)  # Matern 1/2 has a kink
    np.testing.assert_allclose(ours.diag(A), theirs.diag(A), atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_diagonal_and_symmetry(kernel, rows):
    A, _ = rows
    K = kernel(A)
    np.testing.assert_allclose(np.diag(K), kernel.diag(A), rtol=1e-12)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-8 * np.trace(K)


@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_parameters_go_round(kernel, rows):
    again = kernel.with_theta(kernel.theta)
    assert len(kernel.names) == kernel.theta.size
    np.testing.assert_allclose(again.theta, kernel.theta)
    np.testing.assert_allclose(again(*rows), kernel(*rows), rtol=1e-12)
    if not isinstance(kernel, Function):
        assert pickle.loads(pickle.dumps(kernel)) == kernel


@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
@pytest.mark.parametrize("pair", [True, False], ids=["two sets", "one set"])
def test_gradient_in_parameters(kernel, pair, rows):
    A, B = rows
    B = B if pair else None
    G = np.random.default_rng(1).standard_normal((len(A), len(A if B is None else B)))
    if pair and "nu=0.5" in str(kernel):  # a kink at the coincident pair, where r is rounding error
        np.testing.assert_allclose(
            kernel.pull(np.eye(6, 4)[:, :1] @ np.eye(1, 4), A, B), 0, atol=1e-6
        )
        G[0, 0] = 0.0
    got = kernel.pull(G, A, B)
    want = differences(lambda t: np.sum(G * kernel.with_theta(t)(A, B)), kernel.theta)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    g = G[:, 0]
    want = differences(lambda t: g @ kernel.with_theta(t).diag(A), kernel.theta)
    np.testing.assert_allclose(kernel.pull_diag(g, A), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS[:-1], ids=ids[:-1])
def test_gradient_in_points(kernel, rows):
    A, B = rows
    B = B + 0.1  # no coincident pair: Matern 1/2 has no gradient there
    G = np.random.default_rng(2).standard_normal((len(A), len(B)))
    to_A, to_B = kernel.pull_points(G, A, B)
    np.testing.assert_allclose(
        to_A, differences(lambda x: np.sum(G * kernel(x, B)), A), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(
        to_B, differences(lambda x: np.sum(G * kernel(A, x)), B), rtol=1e-6, atol=1e-6
    )
    square = G @ G.T  # both arguments are the same rows
    one, two = kernel.pull_points(square, A)
    want = differences(lambda x: np.sum(square * kernel(x)), A)
    np.testing.assert_allclose(one + two, want, rtol=1e-6, atol=2e-6)


def test_a_large_mean_costs_no_digits(rows):
    A, B = rows
    G = np.ones((len(A), len(B)))
    for kernel in (RBF(ARD), Matern(1.3)):
        np.testing.assert_allclose(kernel(A + 1e6, B + 1e6), kernel(A, B), atol=1e-8)
        np.testing.assert_allclose(
            kernel.pull(G, A + 1e6, B + 1e6), kernel.pull(G, A, B), atol=1e-7
        )


@pytest.mark.parametrize("make", MAKERS)
def test_columns_of_a_group_have_its_length_scale(make, rows):
    grouped, plain = with_groups(make(ARD[:2]), GROUPS), make((0.7, 1.3, 1.3))
    assert groups_of(grouped) == GROUPS
    assert with_groups(plain, None) is plain
    np.testing.assert_allclose(grouped(*rows), plain(*rows))
    np.testing.assert_allclose(column_scales(grouped, 3), column_scales(plain, 3))


def test_one_length_scale_becomes_one_per_column_or_group(rows):
    A, B = rows
    kernel = 2.0 * RBF(1.3) + Linear(0.7) * Constant(2.0)
    wide = with_columns(kernel, 3)
    assert wide.theta.size == 1 + 3 + 3 + 1
    np.testing.assert_allclose(wide(A, B), kernel(A, B), rtol=1e-13)
    grouped = with_columns(with_groups(4.0 * RBF(2.0), GROUPS), 3)
    assert grouped.kernel.length_scale == (2.0, 2.0)
    assert grouped.names == ("weight", "length_scale[0]", "length_scale[1]")


def test_the_gaussian_kernel_of_indicators_counts_mismatches():
    """exp{-sum over columns of [a != b] / l_j^2}, with levels at a squared distance of two."""
    codes = np.random.default_rng(0).integers(0, 3, (8, 2))
    one_hot = np.concatenate([np.eye(3)[codes[:, j]] for j in range(2)], axis=1)
    kernel = with_groups(RBF((0.8, 1.7)), (0, 0, 0, 1, 1, 1))
    differ = codes[:, None] != codes
    want = np.exp(-(differ / np.square([0.8, 1.7])).sum(axis=2))
    np.testing.assert_allclose(kernel(one_hot), want)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(0.0), r"RBF\(length_scale\) needs a positive number"),
        (lambda: RBF([1.0, -1.0]), "length_scale"),
        (lambda: RBF("wide"), "length_scale"),
        (lambda: Matern(nu=1.0), r"Matern\(nu\) must be 0.5, 1.5 or 2.5; got 1.0"),
        (lambda: Polynomial(degree=0), "degree"),
        (lambda: Polynomial(offset=0.0), "offset"),
        (lambda: -1.0 * RBF(), r"Scaled\(weight\) must be a positive number; got -1.0"),
        (lambda: Constant(np.inf), "Constant"),
        (lambda: White("a"), "White"),
        (lambda: RBF(ARD)(np.ones((2, 2))), "3 length scales but the rows have 2 columns"),
        (
            lambda: with_groups(RBF((1.0, 2.0)), (0, 1, 2))(np.ones((2, 3))),
            "2 length scales but the rows have 3 columns or groups",
        ),
        (lambda: Function(lambda A, B: A)(np.ones((2, 3))), r"must return shape \(2, 2\)"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_reach_of_a_kernel_along_each_column():
    """Its shortest length scale there, whatever it is made of; one where it has none."""
    wide, round_ = RBF((0.5, 3.0)), Matern(2.0)
    np.testing.assert_array_equal(column_scales(4.0 * wide, 2), [0.5, 3.0])
    np.testing.assert_array_equal(column_scales(wide + 2.0 * round_, 2), [0.5, 2.0])
    np.testing.assert_array_equal(column_scales(Constant(3.0), 2), [1.0, 1.0])
