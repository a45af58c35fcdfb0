"""The mean of a Gaussian process that maximises a concave function of its values at points."""

from __future__ import annotations

from collections.abc import Callable

from ..core.types import Array

STEPS = 20  # of Newton's method, at most
CG_STEPS = 15  # of conjugate gradients for each, at most
CG_TOL = 1e-3  # of the squared residual at which they end
SHARE_LEFT = 0.02  # of the gain of all steps, at which they end: variances change next
SHORTEST = 1e-3  # step that is tried


def ascend_mean(
    rows: Callable[[Array], tuple[float, Array, Array]],
    times: Callable[[Array], Array],
    solve: Callable[[Array], tuple[Array, Array]],
    m: Array,
    alpha: Array,
    enough: float = 0.0,
    share: float = SHARE_LEFT,
) -> tuple[Array, Array]:
    r"""Maximise :math:`\ell(m) - \tfrac12\alpha^\top m` with :math:`m = K\alpha`.

    ``rows(m)`` are the value of the concave function, its gradient *g* and minus its second
    derivatives *h* at the points; ``times(a)`` is K a.  A step of Newton's method solves
    :math:`(I + HK)\,\delta = g - \alpha` by conjugate gradients in the inner product of K.  The
    preconditioner is the inverse for other second derivatives, those of the last pass:
    ``solve(b)`` are :math:`(I + WK)^{-1}b` and K times it.  So no matrix is factorised.

    It ends where a step predicts no more than ``enough``, or than a ``share`` of what all have
    gained.  Returned are m and alpha.
    """
    value, g, h = rows(m)
    here = first = value - 0.5 * float(alpha @ m)
    for _ in range(STEPS):
        step = _newton_step(g - alpha, h, solve)
        rise = times(step)
        expected, rate = 0.5 * float(rise @ (g - alpha)), 1.0
        while True:
            m_new, alpha_new = m + rate * rise, alpha + rate * step
            value, g_new, h_new = rows(m_new)
            there = value - 0.5 * float(alpha_new @ m_new)
            if there >= here or rate < SHORTEST:
                break
            rate *= 0.5
        if not there >= here:
            break
        here, m, alpha, g, h = there, m_new, alpha_new, g_new, h_new
        if expected <= max(enough, share * (here - first)):
            break
    return m, alpha


def _newton_step(r: Array, h: Array, solve: Callable[[Array], tuple[Array, Array]]) -> Array:
    """The solution of (I + H K) delta = r."""
    step = 0.0 * r
    p, Kp = solve(r)
    size = float(r @ Kp)
    most = CG_TOL * size
    for _ in range(CG_STEPS):
        if not size > most:
            break
        q = h * Kp + p
        bend = float(Kp @ q)
        if not bend > 0.0:  # a kernel so small that its products are zero
            break
        length = size / bend
        step, r = step + length * p, r - length * q
        z, Kz = solve(r)
        old, size = size, float(r @ Kz)
        p, Kp = z + (size / old) * p, Kz + (size / old) * Kp
    return step
