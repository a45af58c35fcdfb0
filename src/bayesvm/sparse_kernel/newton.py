"""Penalised likelihood: EM step, Newton's method, working sets, Laplace's approximation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.types import Array, Contribution
from ..likelihoods import Likelihood, Probit
from ..predictive.leave_one_out import leave_one_out
from .nnls import nnls

PROBIT = Probit()
FLAT = 1e-8  # default prior precision of the bias: a standard deviation of 1e4


@dataclass(frozen=True, eq=False)
class PenalisedLikelihood:
    r"""Log posterior density of the coefficients of a probit (or other) model.

    .. math::

        \sum_i c_i\log\Phi(y_i z_i) - t^\top x - \tfrac12 x^\top Q x, \qquad z = Ax .

    Another ``likelihood`` can replace :math:`\Phi`, except for EM.  The last column is the
    constant, and its coefficient, the bias, is unconstrained.  The others are nonnegative if
    ``signed``: columns of a PCVM are multiplied by the label of their vector,
    :math:`A = [K\,\mathrm{diag}(y), 1]`.
    """

    A: Array  # (n, K)
    y: Array  # (n,) labels -1 and +1
    c: Array  # (n,) weights of the rows
    t: Array  # (K,)
    Q: Array  # (K, K)
    signed: bool = True
    likelihood: Likelihood = PROBIT

    @property
    def free(self) -> Array:
        return np.arange(self.t.size) == self.t.size - 1 if self.signed else self.t == self.t

    def of(self, columns: Array) -> PenalisedLikelihood:
        """The model with a subset of the columns, including the bias."""
        Q = self.Q[np.ix_(columns, columns)]
        return replace(self, A=self.A[:, columns], t=self.t[columns], Q=Q)

    def with_rate(self, rate: float) -> PenalisedLikelihood:
        """The model with the linear penalty ``rate`` on all coefficients except the bias."""
        return replace(self, t=np.append(np.full(self.t.size - 1, rate), 0.0))

    def local(self, z: Array) -> Contribution:
        """Log-likelihood bound of each row, with gradient g and curvature h in z."""
        return self.likelihood.augmented(self.y, z, 0.0).times(self.c)

    def value(self, x: Array, z: Array | None = None) -> float:
        z = self.A @ x if z is None else z
        fit = float(self.c @ self.likelihood.log_prob(self.y, z))
        return fit - float((self.t + 0.5 * (self.Q @ x)) @ x)

    def gradient(self, x: Array) -> Array:
        on = np.flatnonzero(x)
        g = self.local(self.A[:, on] @ x[on]).g
        out: Array = self.A.T @ g - self.t - self.Q[:, on] @ x[on]
        return out

    def curvature(self, h: Array) -> Array:
        """Negative Hessian, ``A' diag(h) A + Q``."""
        B = self.A * np.sqrt(h)[:, None]
        return B.T @ B + self.Q

    def leave_one_out(self, f: Array, v: Array, unit: Array | float) -> tuple[Array, Array]:
        """Leave-one-out moments of f at each row, whose weight is reduced by ``unit``."""
        local = self.likelihood.augmented(self.y, f, 0.0)
        return leave_one_out(f, v, local._replace(w=local.h), np.minimum(self.c, unit))

    def em_step(self, x: Array) -> Array:
        r"""One EM step with the exact M-step.

        E: :math:`\bar h = z + g`, the mean of N(z, 1) on the label's side.  M: least squares on
        :math:`\bar h` under the signs, weights and bias jointly; Chen et al., eqs 11, 12 and 23,
        with the normalisation of (23) and the constraint corrected.
        """
        z = self.A @ x
        target = z + PROBIT.augmented(self.y, z, 0.0).g
        G = (self.A * self.c[:, None]).T @ self.A + self.Q
        return nnls(G, self.A.T @ (self.c * target) - self.t, self.free, x > 0)

    def newton(self, x: Array, tol: float, max_iter: int = 100) -> tuple[Array, int]:
        """Maximise by Newton steps (signed least squares problems); also count the steps.

        Ends when the predicted gain of a full step is below ``tol``, in nats.  Steps are halved
        until the value increases.
        """
        free, z = self.free, self.A @ x
        # the curvature vanishes if all rows are far on the side of their labels
        floor = np.where(free, 0.0, 1e-10 * self.size**2)
        value = self.value(x, z)
        for number in range(max_iter):
            row = self.local(z)
            G = self.curvature(row.h)
            G.flat[:: x.size + 1] += floor
            slope = self.A.T @ row.g - self.t - self.Q @ x
            step = nnls(G, G @ x + slope, free, x > 0) - x
            gain = float(slope @ step)
            if not gain > tol:
                return x, number
            dz, share = self.A @ step, 1.0
            while (
                new := self.value(x + share * step, z + share * dz)
            ) < value + 0.1 * share * gain:
                share *= 0.5
                if share < 1e-8:
                    return x, number
            x, z, value = x + share * step, z + share * dz, new
            x = np.where(free, x, np.maximum(x, 0.0))
        return x, max_iter

    def maximise(self, x: Array, tol: float = 1e-9, slack: float = 1e-6) -> tuple[Array, int]:
        """Maximise over many columns by Newton steps on a working set; also count the steps.

        Columns join the set while their gradient exceeds the penalty by more than a share
        ``slack``: all optimality conditions then hold with that slack.  At most ten columns join at
        once, or a third of the set.
        """
        allowed = slack * np.maximum(self.t, 1e-3 * self.size)
        work, steps = np.flatnonzero((x > 0) | self.free), 0
        for _ in range(10 + x.size):
            part, made = self.of(work).newton(x[work], tol)
            if steps and not made:  # the predicted gain of the new columns is below tol
                break
            x = np.zeros(x.size)
            x[work] = part
            steps += max(made, 1)
            work = np.flatnonzero((x > 0) | self.free)
            gain = self.gradient(x) - allowed
            gain[work] = 0.0
            more = np.argsort(-gain, kind="stable")[: max(10, work.size // 3)]
            more = more[gain[more] > 0]
            if not more.size:
                break
            work = np.sort(np.concatenate([work, more]))
        return x, steps

    @property
    def size(self) -> float:
        """The largest value, except in the constant column."""
        part = self.A[:, :-1]
        return float(max(part.max(initial=0.0), -part.min(initial=0.0)))


def largest_rate(model: PenalisedLikelihood) -> float:
    """The smallest rate at which all weights are zero: the largest gradient at the bias alone."""
    bias = model.of(np.array([model.t.size - 1]))
    x, _ = bias.newton(np.zeros(1), 1e-12)
    g = bias.local(bias.A @ x).g
    return float(np.max(model.A[:, :-1].T @ g, initial=0.0))
