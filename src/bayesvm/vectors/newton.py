r"""Ascent of a probit posterior under signs: one EM step, Newton steps, working sets.

Columns are signed, so that every coefficient but the bias, the last, is nonnegative:
:math:`z = Ax` with :math:`A = [\Phi\,\mathrm{diag}(y), 1]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.types import Array, Local
from ..likelihoods import Probit
from .nnls import nnls

PROBIT = Probit()
BIAS = 1e-8  # precision of the bias: flat, but for a trace that keeps separable data finite
ENTER = 10  # columns that may join a working set at once, or a third of those in it
FLOOR = 1e-10  # least curvature of a row: it vanishes where all are far on their side


class Gram(NamedTuple):
    r"""Kernel values of columns with one another, for :math:`\lambda\|f\|^2 = \lambda w^\top K w`.

    The matrix is that of all candidates, shared by all folds; ``at`` says which are columns here.
    """

    K: Array
    at: Array
    sign: Array  # labels of the columns
    weight: float

    def of(self, columns: Array) -> Gram:
        return self._replace(at=self.at[columns], sign=self.sign[columns])

    def matrix(self) -> Array:
        out = self.K[np.ix_(self.at, self.at)] * self.sign
        out *= self.weight * self.sign[:, None]
        return out

    def times(self, x: Array) -> Array:
        on = np.flatnonzero(x)
        w = self.weight * self.sign[on] * x[on]
        out: Array = self.sign * (self.K[np.ix_(self.at, self.at[on])] @ w)
        return out


@dataclass(frozen=True, eq=False)
class Penalty:
    r"""Minus the log prior of x >= 0: :math:`t^\top x + \frac12 x^\top(\mathrm{diag} P + Q)x`.

    The bias is the last column; *Q*, if any, is a Gram matrix of the others.
    """

    t: Array
    P: Array
    gram: Gram | None = None

    def matrix(self) -> Array:
        """The quadratic part."""
        out = np.diag(self.P)
        if self.gram is not None:
            out[:-1, :-1] += self.gram.matrix()
        return out

    def slope(self, x: Array) -> Array:
        out: Array = self.t + self.P * x
        if self.gram is not None:
            out[:-1] += self.gram.times(x[:-1])
        return out

    def at(self, x: Array) -> float:
        return 0.5 * float((self.t + self.slope(x)) @ x)

    def of(self, columns: Array) -> Penalty:
        """That of some columns, the bias among them."""
        gram = None if self.gram is None else self.gram.of(columns[:-1])
        return Penalty(self.t[columns], self.P[columns], gram)


def with_bias(t: Array, P: Array, gram: Gram | None = None) -> Penalty:
    """Add the bias to the penalties of the weights."""
    return Penalty(np.append(t, 0.0), np.append(P, BIAS), gram)


def only_last(K: int) -> Array:
    free = np.zeros(K, dtype=bool)
    free[-1] = True
    return free


def size_of(A: Array) -> float:
    """The largest value of the columns but the constant."""
    return float(np.abs(A[:, :-1]).max(initial=0.0))


def local(A: Array, y: Array, c: Array, x: Array) -> Local:
    return PROBIT.expected(y, A @ x, 0.0).times(c)


def objective(A: Array, y: Array, c: Array, penalty: Penalty, x: Array) -> float:
    """Log posterior density, up to the constant of the prior."""
    return float(c @ PROBIT.log_prob(y, A @ x)) - penalty.at(x)


def em_step(A: Array, y: Array, c: Array, penalty: Penalty, x: Array) -> Array:
    r"""One EM step with the exact M-step.

    E: :math:`\bar h = z + g`, the mean of N(z, 1) on the label's side.  M: least squares on
    :math:`\bar h` under the signs, weights and bias jointly; Chen et al., eqs 11, 12 and 23, with
    the normalisation of (23) and the constraint put right.
    """
    z = A @ x
    target = z + PROBIT.expected(y, z, 0.0).g
    G = (A * c[:, None]).T @ A + penalty.matrix()
    return nnls(G, A.T @ (c * target) - penalty.t, only_last(x.size), x > 0)


def newton(
    A: Array, y: Array, c: Array, penalty: Penalty, x: Array, tol: float, max_iter: int = 100
) -> tuple[Array, int]:
    """Maximise by Newton steps, each a problem of signed least squares; also the steps made.

    Ends when a whole step promises less than ``tol``, in nats.  Steps are halved until they gain,
    so the objective never falls.
    """
    free, t, Q = only_last(x.size), penalty.t, penalty.matrix()
    floor = FLOOR * np.append(np.full(x.size - 1, size_of(A) ** 2), 1.0)

    def density(z: Array, x: Array) -> float:
        return float(c @ PROBIT.log_prob(y, z)) - float((t + 0.5 * (Q @ x)) @ x)

    z = A @ x
    value = density(z, x)
    for step_number in range(max_iter):
        row = PROBIT.expected(y, z, 0.0).times(c)
        B = A * np.sqrt(row.h)[:, None]
        G = B.T @ B + Q
        G.flat[:: x.size + 1] += floor
        slope = A.T @ row.g - t - Q @ x
        step = nnls(G, G @ x + slope, free, x > 0) - x
        gain = float(slope @ step)
        if not gain > tol:
            return x, step_number
        dz, share = A @ step, 1.0
        while True:
            new_x, new_z = x + share * step, z + share * dz
            new = density(new_z, new_x)
            if new >= value + 0.1 * share * gain:
                break
            share *= 0.5
            if share < 1e-8:
                return x, step_number
        x, z, value = np.where(free, new_x, np.maximum(new_x, 0.0)), new_z, new
    return x, max_iter


def maximise(
    A: Array,
    y: Array,
    c: Array,
    penalty: Penalty,
    x: Array,
    tol: float = 1e-9,
    slack: float = 1e-6,
) -> tuple[Array, int]:
    """Maximise over all columns by Newton steps on a working set; also the steps made.

    Columns join while their slope exceeds the penalty by more than ``slack`` of it: all optimality
    conditions then hold to that slack.
    """
    K = x.size
    allowed = slack * np.maximum(penalty.t, 1e-3 * size_of(A))
    work = np.flatnonzero((x > 0) | only_last(K))
    steps = 0
    for _ in range(10 + K):
        part, made = newton(A[:, work], y, c, penalty.of(work), x[work], tol)
        if steps and not made:  # those that joined promise less than the tolerance
            break
        x = np.zeros(K)
        x[work] = part
        steps += max(made, 1)
        work = np.flatnonzero((x > 0) | only_last(K))
        row = local(A[:, work], y, c, x[work])
        gain = A.T @ row.g - penalty.slope(x) - allowed
        gain[work] = 0.0
        more = np.argsort(-gain, kind="stable")[: max(ENTER, work.size // 3)]
        more = more[gain[more] > 0]
        if not more.size:
            break
        work = np.sort(np.concatenate([work, more]))
    return x, steps


def largest_rate(A: Array, y: Array, c: Array) -> float:
    """The rate at which the last weight dies: the largest slope of the bias-only machine."""
    x = np.zeros(A.shape[1])
    one = np.ones((A.shape[0], 1))
    x[-1:], _ = newton(one, y, c, with_bias(np.empty(0), np.empty(0)), x[-1:], 1e-12)
    g = local(one, y, c, x[-1:]).g
    return float(np.max(A[:, :-1].T @ g, initial=0.0))
