r"""Kernels: values, diagonals, and gradients without arrays larger than the kernel matrix.

A kernel is an immutable object with a vector ``theta`` of log parameters:

======================  ======================================================================
``k(A, B)``             :math:`k(a_i, b_j)`; ``k(A)`` is ``k(A, A)``
``k.diag(A)``           :math:`k(a_i, a_i)`
``k.theta``             log parameters; ``k.names`` are their names; ``k.with_theta(t)`` sets them
``k.pull(G, A, B)``     gradient in ``theta`` of :math:`\sum_{ij} G_{ij}\,k(a_i, b_j)`
``k.pull_diag(g, A)``   gradient in ``theta`` of :math:`\sum_i g_i\,k(a_i, a_i)`
``k.pull_points(...)``  gradients of the double sum in A and in B
======================  ======================================================================

Kernels can be added, multiplied and scaled: ``4.0 * RBF(2.0) + Linear()``.
"""

from .algebra import (
    Constant,
    Function,
    Kernel,
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
from .inner import Linear, Polynomial
from .precomputed import Precomputed
from .stationary import RBF, Matern, squared_distances

__all__ = [
    "RBF",
    "Matern",
    "Linear",
    "Polynomial",
    "Constant",
    "White",
    "Function",
    "Precomputed",
    "Scaled",
    "Sum",
    "SmoothLocal",
    "Product",
    "Kernel",
    "squared_distances",
    "column_scales",
    "groups_of",
    "with_columns",
    "with_groups",
]
