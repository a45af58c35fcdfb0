"""Base class of kernels, sums, products and scaling, and kernels without length scales."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ..core import arrays
from ..core.types import Array


@dataclass(frozen=True, repr=False)
class Kernel:
    """Base class of kernels, positive definite functions of two rows.

    Subclasses list their positive parameters and component kernels; ``theta`` is the vector of the
    logarithms of all parameters, in that order.
    """

    parameters: ClassVar[tuple[str, ...]] = ()  # positive numbers; a length_scale may be a tuple
    parts: ClassVar[tuple[str, ...]] = ()  # fields that are kernels
    prefixed: ClassVar[bool] = True  # parameter names of a part get its name as a prefix

    def __post_init__(self) -> None:
        for name in self.parameters:
            given = vars(self)[name]
            if name == "length_scale":  # a hashable value
                try:
                    scale = np.asarray(given, dtype=float)
                except (TypeError, ValueError):
                    scale = np.empty(0)
                valid = scale.ndim < 2 and scale.size and np.all((scale > 0) & (scale < np.inf))
                if not valid:
                    raise ValueError(
                        f"{type(self).__name__}(length_scale) needs a positive number or one per "
                        f"column; got {given!r}."
                    )
                value = tuple(scale.tolist()) if scale.ndim else float(scale)
                object.__setattr__(self, name, value)
            elif not isinstance(given, Real) or not 0 < float(given) < math.inf:
                raise ValueError(
                    f"{type(self).__name__}({name}) must be a positive number; got {given!r}."
                )

    def __repr__(self) -> str:
        shown = (f for f in fields(self) if f.repr)
        given = ", ".join(f"{f.name}={_short(getattr(self, f.name))}" for f in shown)
        return f"{type(self).__name__}({given})"

    @abstractmethod
    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Values ``k(a_i, b_j)``; without B, ``k(a_i, a_j)``."""

    @abstractmethod
    def diag(self, A: Array) -> Array:
        """Values ``k(a_i, a_i)``."""

    def pull(self, G: Array, A: Array, B: Array | None = None) -> Array:
        """Gradient in ``theta`` of the sum of ``G * k(A, B)``."""
        return np.zeros(self.theta.size)

    def pull_diag(self, g: Array, A: Array) -> Array:
        """Gradient in ``theta`` of ``g @ k.diag(A)``."""
        return np.zeros(self.theta.size)

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        """Gradients in A and in B of the sum of ``G * k(A, B)``."""
        raise TypeError(
            f"{type(self).__name__} has no gradient in its points: with inducing='optimise' they "
            "could not move; choose inducing='kmeans'."
        )

    @property
    def theta(self) -> Array:
        own = [np.empty(0)]
        for k in self.parameters:
            own.append(np.log(np.ravel(vars(self)[k])))
        for k in self.parts:
            own.append(vars(self)[k].theta)
        return np.concatenate(own)

    @property
    def names(self) -> tuple[str, ...]:
        out: list[str] = []
        for k in self.parameters:
            value = vars(self)[k]
            out += map(f"{k}[{{}}]".format, range(len(value))) if isinstance(value, tuple) else [k]
        for k in self.parts:
            out += map(f"{k}.{{}}".format if self.prefixed else str, vars(self)[k].names)
        return tuple(out)

    def with_theta(self, theta: Array) -> Any:
        """The kernel with log parameters ``theta``."""
        changes: dict[str, Any] = {}
        for k in self.parameters:
            old, size = vars(self)[k], np.size(vars(self)[k])
            new, theta = np.exp(theta[:size]).tolist(), theta[size:]
            changes[k] = tuple(new) if isinstance(old, tuple) else new[0]
        for k in self.parts:
            part: Kernel = vars(self)[k]
            size = part.theta.size
            changes[k], theta = part.with_theta(theta[:size]), theta[size:]
        return replace(self, **changes) if changes else self

    def __add__(self, other: Any) -> Sum:
        return Sum(self, Constant(float(other)) if isinstance(other, Real) else other)

    def __radd__(self, other: Any) -> Sum:
        return Sum(Constant(float(other)), self)

    def __mul__(self, other: Any) -> Any:
        return Scaled(float(other), self) if isinstance(other, Real) else Product(self, other)

    __rmul__ = __mul__


def _short(value: Any) -> str:
    """A number with four digits, the ends of a long list, or the value itself."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return f"{float(value):.4g}"
    if isinstance(value, tuple):
        each = [_short(x) for x in value]
        each = each if len(each) <= 6 else [*each[:3], "...", *each[-3:]]
        return f"({', '.join(each)}{',' if len(each) == 1 else ''})"
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return repr(value)


def _factor(kernel: Any) -> str:
    """The text of a kernel as a factor of a product."""
    return f"({kernel})" if isinstance(kernel, Sum) else f"{kernel}"


class OfColumns(Kernel):
    """Base class of kernels with length scales: one in all, one per column or one per group."""

    length_scale: Any
    groups: tuple[int, ...] | None

    @property
    def scale(self) -> Array:
        """The length scale, or one per column if columns or groups have separate length scales."""
        scale, groups = np.asarray(self.length_scale), self.groups
        if groups is None or not scale.ndim:
            return scale
        if scale.size != max(groups) + 1:
            raise ValueError(
                f"the kernel has {scale.size} length scales but the rows have {max(groups) + 1} "
                "columns or groups of columns; give one length scale or one for each."
            )
        return scale[list(groups)]

    def divided(self, A: Array) -> Array:
        """Columns divided by their length scales."""
        A, scale = arrays.double(A), self.scale
        if scale.ndim and scale.size != A.shape[1]:
            raise ValueError(
                f"the kernel has {scale.size} length scales but the rows have {A.shape[1]} "
                "columns; give one length scale or one per column."
            )
        return A / arrays.like(scale, A)

    def pull(self, G: Array, A: Array, B: Array | None = None) -> Array:
        # a longer scale is equivalent to smaller entries
        to_A, to_B = self.pull_points(G, A, B)
        each = -(A * to_A).sum(axis=0) - ((A if B is None else B) * to_B).sum(axis=0)
        return self._by_scale(each)

    def _by_scale(self, per_column: Array) -> Array:
        """Gradients in the log length scales, from the contributions of single columns."""
        each = np.asarray(arrays.to_numpy(per_column))
        if not isinstance(self.length_scale, tuple):
            return each.sum(keepdims=True)
        if self.groups is None:
            return each
        return np.bincount(self.groups, each, len(self.length_scale))


def of_columns(kernel: Any) -> list[OfColumns]:
    """All component kernels with length scales."""
    if isinstance(kernel, OfColumns):
        return [kernel]
    found = []
    for name in kernel.parts:
        found += of_columns(vars(kernel)[name])
    return found


def column_scales(kernel: Any, p: int) -> Array:
    """The shortest length scale of a kernel for each of ``p`` columns; one if it has none."""
    out = np.full(p, np.inf)
    for part in of_columns(kernel):
        out = np.minimum(out, part.scale)
    return np.where(np.isinf(out), 1.0, out)


def groups_of(kernel: Any) -> tuple[int, ...] | None:
    """Groups of columns that share a length scale; None if all columns are separate."""
    return next((part.groups for part in of_columns(kernel) if part.groups), None)


def _changed(kernel: Any, change: Callable[[Any], Any]) -> Any:
    """The kernel with every component that has length scales changed by a function."""
    if isinstance(kernel, OfColumns):
        return change(kernel)
    for name in kernel.parts:
        kernel = replace(kernel, **{name: _changed(vars(kernel)[name], change)})
    return kernel


def with_columns(kernel: Any, p: int) -> Any:
    """The kernel with every length scale repeated, one per column or group of columns."""

    def repeated(k: Any) -> Any:
        many = p if k.groups is None else max(k.groups) + 1
        scale = k.length_scale
        return k if isinstance(scale, tuple) else replace(k, length_scale=(scale,) * many)

    return _changed(kernel, repeated)


def with_groups(kernel: Any, groups: tuple[int, ...] | None) -> Any:
    """The kernel with groups of columns that share a length scale, numbered from zero."""
    return kernel if groups is None else _changed(kernel, lambda k: replace(k, groups=groups))


# ---------------------------------------------------------------------------------------------
# Operations on kernels


@dataclass(frozen=True, repr=False)
class Scaled(Kernel):
    """A kernel times a positive weight (its variance): ``4.0 * RBF()``."""

    parameters = ("weight",)
    parts = ("kernel",)
    prefixed = False

    weight: float
    kernel: Any

    def __repr__(self) -> str:
        return f"{_short(self.weight)} * {_factor(self.kernel)}"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        out: Array = self.weight * self.kernel(A, B)
        return out

    def diag(self, A: Array) -> Array:
        return self.weight * self.kernel.diag(A)

    def pull(self, G: Array, A: Array, B: Array | None = None) -> Array:
        own = float((G * self(A, B)).sum())
        return np.concatenate([[own], self.weight * self.kernel.pull(G, A, B)])

    def pull_diag(self, g: Array, A: Array) -> Array:
        own = self.weight * float((g * self.kernel.diag(A)).sum())
        return np.concatenate([[own], self.weight * self.kernel.pull_diag(g, A)])

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        out: tuple[Array, Array] = self.kernel.pull_points(self.weight * G, A, B)
        return out


@dataclass(frozen=True, repr=False)
class _Pair(Kernel):
    """Base class of operations on two kernels; subclasses give the gradients in both values."""

    parts = ("left", "right")

    left: Any
    right: Any

    @abstractmethod
    def _gradients(self, G: Array, values: Callable[[Any], Array]) -> tuple[Array, Array]:
        """Gradients in the values of both parts; ``values(part)`` computes these."""

    def pull(self, G: Array, A: Array, B: Array | None = None) -> Array:
        left, right = self._gradients(G, lambda part: part(A, B))
        return np.concatenate([self.left.pull(left, A, B), self.right.pull(right, A, B)])

    def pull_diag(self, g: Array, A: Array) -> Array:
        left, right = self._gradients(g, lambda part: part.diag(A))
        return np.concatenate([self.left.pull_diag(left, A), self.right.pull_diag(right, A)])

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        left, right = self._gradients(G, lambda part: part(A, B))
        one, two = self.left.pull_points(left, A, B), self.right.pull_points(right, A, B)
        return one[0] + two[0], one[1] + two[1]


@dataclass(frozen=True, repr=False)
class Sum(_Pair):
    """The sum of two kernels, for a sum of independent functions: ``RBF() + Linear()``."""

    def __repr__(self) -> str:
        return f"{self.left} + {self.right}"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self.left(A, B) + self.right(A, B)

    def diag(self, A: Array) -> Array:
        return self.left.diag(A) + self.right.diag(A)

    def _gradients(self, G: Array, values: Callable[[Any], Array]) -> tuple[Array, Array]:
        return G, G


@dataclass(frozen=True, repr=False)
class SmoothLocal(Sum):
    """The sum of a smooth and a local kernel, with parameter names ``smooth`` and ``local``.

    The smooth part has unit variance, so the weight of the local part is the ratio of variances.

    Examples
    --------
    >>> from bayesvm.kernels import RBF, Matern, SmoothLocal
    >>> SmoothLocal(RBF(2.0), 0.5 * Matern(0.3, nu=0.5)).names
    ('smooth.length_scale', 'local.weight', 'local.length_scale')
    """

    @property
    def names(self) -> tuple[str, ...]:
        smooth = map("smooth.{}".format, self.left.names)
        return (*smooth, *map("local.{}".format, self.right.names))


@dataclass(frozen=True, repr=False)
class Product(_Pair):
    """The product of two kernels: rows are similar if they are similar under both kernels."""

    def __repr__(self) -> str:
        return f"{_factor(self.left)} * {_factor(self.right)}"

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self.left(A, B) * self.right(A, B)

    def diag(self, A: Array) -> Array:
        return self.left.diag(A) * self.right.diag(A)

    def _gradients(self, G: Array, values: Callable[[Any], Array]) -> tuple[Array, Array]:
        return G * values(self.right), G * values(self.left)


# ---------------------------------------------------------------------------------------------
# Kernels without length scales


class _Level(Kernel):
    """Base class of kernels whose values do not depend on the rows, with one variance."""

    def diag(self, A: Array) -> Array:
        return arrays.constant(A, vars(self)[self.parameters[0]])

    def pull_diag(self, g: Array, A: Array) -> Array:
        return np.array([vars(self)[self.parameters[0]] * float(g.sum())])

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        return np.zeros(A.shape), np.zeros((A if B is None else B).shape)


@dataclass(frozen=True, repr=False)
class Constant(_Level):
    """Constant kernel, for an unknown level of the function.

    Parameters
    ----------
    value : float, default=1.0
        Prior variance of the level.
    """

    parameters = ("value",)

    value: float = 1.0

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return arrays.constant(A, self.value, (A if B is None else B).shape[0])

    def pull(self, G: Array, A: Array, B: Array | None = None) -> Array:
        return self.pull_diag(G, A)


@dataclass(frozen=True, repr=False)
class White(_Level):
    """White noise kernel: the variance for a row with itself, zero for different rows.

    Two entries with equal values are different rows: ``k(A)`` has the variance on its diagonal,
    ``k(A, B)`` is always zero.

    Parameters
    ----------
    variance : float, default=1.0
        Prior variance of the noise.
    """

    parameters = ("variance",)

    variance: float = 1.0

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        if B is not None:
            return arrays.constant(A, 0.0, B.shape[0])
        return self.variance * np.eye(A.shape[0])

    def pull(self, G: Array, A: Array, B: Array | None = None) -> Array:
        return np.array([self.variance * np.trace(G) if B is None else 0.0])


@dataclass(frozen=True, repr=False)
class Function(Kernel):
    """A user-defined kernel function ``k(A, B)``, without parameters to learn.

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
        return np.array([self(row, row)[0, 0] for row in A[:, None]])
