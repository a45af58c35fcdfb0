"""What a kernel is, how kernels combine, and the kernels that need no length scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np

from ..core import arrays
from ..core.types import Array


class Kernel(Protocol):
    """A positive definite function of two rows."""

    @property
    def theta(self) -> Array: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def with_theta(self, theta: Array) -> Kernel: ...
    def __call__(self, A: Array, B: Array | None = None) -> Array: ...
    def diag(self, A: Array) -> Array: ...
    def pull(self, G: Array, A: Array, B: Array | None = None, K: Array | None = None) -> Array: ...
    def pull_diag(self, g: Array, A: Array) -> Array: ...
    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]: ...


class Algebra:
    """Sums, products and weights of kernels."""

    def __add__(self, other: Any) -> Sum:
        return Sum(self, as_kernel(other))

    def __radd__(self, other: Any) -> Sum:
        return Sum(as_kernel(other), self)

    def __mul__(self, other: Any) -> Any:
        return Scaled(float(other), self) if isinstance(other, Real) else Product(self, other)

    __rmul__ = __mul__


def as_kernel(value: Any) -> Any:
    """A number is a constant kernel."""
    return Constant(float(value)) if isinstance(value, Real) else value


def require_positive(owner: Any, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not isinstance(value, Real) or not 0 < float(value) < math.inf:
            raise ValueError(
                f"{type(owner).__name__}({name}) must be a positive number; got {value!r}."
            )


# ---------------------------------------------------------------------------------------------
# Kernels of kernels


@dataclass(frozen=True)
class Scaled(Algebra):
    """A kernel times a positive weight, its variance: ``4.0 * RBF()``.

    Parameters
    ----------
    weight : float
        The weight.
    kernel : Kernel
        What is weighted.
    """

    weight: float
    kernel: Any

    def __post_init__(self) -> None:
        require_positive(self, "weight")

    @property
    def theta(self) -> Array:
        return np.concatenate([[math.log(self.weight)], self.kernel.theta])

    @property
    def names(self) -> tuple[str, ...]:
        return ("weight", *self.kernel.names)

    def with_theta(self, theta: Array) -> Scaled:
        return Scaled(math.exp(theta[0]), self.kernel.with_theta(theta[1:]))

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self.weight * self.kernel(A, B)

    def diag(self, A: Array) -> Array:
        return self.weight * self.kernel.diag(A)

    def pull(self, G: Array, A: Array, B: Array | None = None, K: Array | None = None) -> Array:
        K = self(A, B) if K is None else K
        inner = self.weight * self.kernel.pull(G, A, B, K / self.weight)
        return np.concatenate([[arrays.dot(G, K)], inner])

    def pull_diag(self, g: Array, A: Array) -> Array:
        own = self.weight * arrays.dot(g, self.kernel.diag(A))
        return np.concatenate([[own], self.weight * self.kernel.pull_diag(g, A)])

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        return self.kernel.pull_points(self.weight * G, A, B)  # type: ignore[no-any-return]


class _Pair(Algebra):
    """Two kernels side by side: their parameters one after the other."""

    left: Any
    right: Any

    @property
    def theta(self) -> Array:
        return np.concatenate([self.left.theta, self.right.theta])

    @property
    def names(self) -> tuple[str, ...]:
        left = (f"left.{name}" for name in self.left.names)
        return (*left, *(f"right.{name}" for name in self.right.names))

    def with_theta(self, theta: Array) -> Any:
        k = self.left.theta.size
        return type(self)(self.left.with_theta(theta[:k]), self.right.with_theta(theta[k:]))  # type: ignore[call-arg]


@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two kernels, that of two independent functions: ``RBF() + Linear()``."""

    left: Any
    right: Any

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self.left(A, B) + self.right(A, B)

    def diag(self, A: Array) -> Array:
        return self.left.diag(A) + self.right.diag(A)

    def pull(self, G: Array, A: Array, B: Array | None = None, K: Array | None = None) -> Array:
        return np.concatenate([self.left.pull(G, A, B), self.right.pull(G, A, B)])

    def pull_diag(self, g: Array, A: Array) -> Array:
        return np.concatenate([self.left.pull_diag(g, A), self.right.pull_diag(g, A)])

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        one, two = self.left.pull_points(G, A, B), self.right.pull_points(G, A, B)
        return one[0] + two[0], one[1] + two[1]


@dataclass(frozen=True)
class Product(_Pair):
    """The product of two kernels: rows are alike if they are alike to both."""

    left: Any
    right: Any

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self.left(A, B) * self.right(A, B)

    def diag(self, A: Array) -> Array:
        return self.left.diag(A) * self.right.diag(A)

    def pull(self, G: Array, A: Array, B: Array | None = None, K: Array | None = None) -> Array:
        return np.concatenate(
            [self.left.pull(G * self.right(A, B), A, B), self.right.pull(G * self.left(A, B), A, B)]
        )

    def pull_diag(self, g: Array, A: Array) -> Array:
        to_left = self.left.pull_diag(g * self.right.diag(A), A)
        return np.concatenate([to_left, self.right.pull_diag(g * self.left.diag(A), A)])

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        one = self.left.pull_points(G * self.right(A, B), A, B)
        two = self.right.pull_points(G * self.left(A, B), A, B)
        return one[0] + two[0], one[1] + two[1]


# ---------------------------------------------------------------------------------------------
# Kernels without length scales


@dataclass(frozen=True)
class Constant(Algebra):
    """The same value everywhere: an unknown level.

    Parameters
    ----------
    value : float, default=1.0
        Prior variance of the level.
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, "value")

    @property
    def theta(self) -> Array:
        return np.array([math.log(self.value)])

    names = ("value",)

    def with_theta(self, theta: Array) -> Constant:
        return Constant(math.exp(theta[0]))

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return arrays.constant(A, self.value, (A if B is None else B).shape[0])

    def diag(self, A: Array) -> Array:
        return arrays.constant(A, self.value)

    def pull(self, G: Array, A: Array, B: Array | None = None, K: Array | None = None) -> Array:
        return np.array([self.value * float(arrays.total(G))])

    def pull_diag(self, g: Array, A: Array) -> Array:
        return np.array([self.value * float(arrays.total(g))])

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        B = A if B is None else B
        return np.zeros(A.shape), np.zeros(B.shape)


@dataclass(frozen=True)
class White(Algebra):
    """Independent noise: its variance for a row with itself, zero for any two rows.

    Rows are two unless they are the same *entry*: ``k(A)`` has the variance on its diagonal,
    ``k(A, B)`` is zero whatever the rows hold.

    Parameters
    ----------
    variance : float, default=1.0
        Prior variance of the noise.
    """

    variance: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self, "variance")

    @property
    def theta(self) -> Array:
        return np.array([math.log(self.variance)])

    names = ("variance",)

    def with_theta(self, theta: Array) -> White:
        return White(math.exp(theta[0]))

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        if B is not None:
            return arrays.constant(A, 0.0, B.shape[0])
        return self.variance * np.eye(A.shape[0])

    def diag(self, A: Array) -> Array:
        return arrays.constant(A, self.variance)

    def pull(self, G: Array, A: Array, B: Array | None = None, K: Array | None = None) -> Array:
        return np.array([self.variance * np.trace(G) if B is None else 0.0])

    def pull_diag(self, g: Array, A: Array) -> Array:
        return np.array([self.variance * float(arrays.total(g))])

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        B = A if B is None else B
        return np.zeros(A.shape), np.zeros(B.shape)


@dataclass(frozen=True)
class Function(Algebra):
    """Any function ``k(A, B)`` that returns a matrix; it has no parameters to learn.

    Parameters
    ----------
    function : callable
        Takes two arrays of rows and returns ``(len(A), len(B))`` kernel values.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.kernels import Function
    >>> Function(lambda A, B: A @ B.T)(np.array([[2.0]]))
    array([[4.]])
    """

    function: Callable[[Array, Array], Array]

    theta = np.empty(0)
    names: Any = ()

    def with_theta(self, theta: Array) -> Function:
        return self

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        B = A if B is None else B
        out = np.asarray(self.function(A, B), dtype=float)
        if out.shape != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"the kernel function must return shape {(A.shape[0], B.shape[0])} for rows of "
                f"shapes {A.shape} and {B.shape}; it returned {out.shape}."
            )
        return out

    def diag(self, A: Array) -> Array:
        few = 64  # a diagonal costs few times as much as it should, not n times
        parts = [np.diag(self(A[i : i + few])) for i in range(0, A.shape[0], few)]
        return np.concatenate(parts) if parts else np.empty(0)

    def pull(self, G: Array, A: Array, B: Array | None = None, K: Array | None = None) -> Array:
        return np.empty(0)

    def pull_diag(self, g: Array, A: Array) -> Array:
        return np.empty(0)

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        raise TypeError("a kernel function has no gradient in its points")
