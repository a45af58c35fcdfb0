"""The multinomial logit likelihood, with one f per class, and its variational bound."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core import arrays
from ..core.types import Array, Contribution


class Shares(NamedTuple):
    """Likelihood contributions of rows to all classes; entries are ``(n, classes)``."""

    w: Array  # precision in f of each class
    g: Array  # gradient in the mean of f
    bound: Array  # (n,)

    def times(self, c: Array) -> Shares:
        """The contributions of rows with weights ``c``."""
        return Shares(c[:, None] * self.w, c[:, None] * self.g, c * self.bound)

    def of(self, k: int, c: Array) -> Contribution:
        """Contributions to class ``k`` of rows with weights ``c``; the bound is of all classes."""
        w = c * self.w[:, k]
        return Contribution(w, c * self.g[:, k], 0.0 * w, w)


def expected(codes: Array, m: Array, v: Array | None) -> Shares:
    r"""Lower bound of :math:`E\log p(y \mid f)`, :math:`p(y = k \mid f) = e^{f_k}/\sum_j e^{f_j}`.

    The f of the classes are independent with means *m* and variances *v*, ``(n, classes)``;
    ``None`` is a variance of zero, for which the bound is exact.  The bound is, for any *a*,

    .. math::

        m_y - \tfrac12\sum_j a_j^2 v_j
        - \log\sum_j e^{m_j + (1 - 2a_j)v_j/2} ,

    It is maximal if *a* is the softmax p in the last term, found by Newton steps.  The gradient
    in the means is then :math:`1_{y=k} - p_k`, and the gradient in the variances minus half of

    .. math:: p_k - 2a_kp_k + a_k^2 = p_k(1 - p_k) + (a_k - p_k)^2 .

    References
    ----------
    Knowles & Minka (2011), *Non-conjugate variational message passing for multinomial and binary
    regression*, the tilted bound.
    """
    xp, K = arrays.of(m), m.shape[1]
    y = arrays.double(codes[:, None] == arrays.like(np.arange(float(K)), m))
    p, log_total = softmax(m)
    own = xp.sum(y * m, axis=1)
    if v is None:
        return Shares(p * (1.0 - p), y - p, own - log_total)
    # Newton's method for log a_j + a_j v_j + u = m_j + v_j / 2 and sum a = 1; a is at most 1
    log_a, u = m - log_total[:, None], log_total[:, None]
    a = p
    for _ in range(30):  # any a gives a bound
        gap, slope = m + (0.5 - a) * v - u - log_a, 1.0 + a * v
        part = a / slope
        more = xp.sum(part * gap + a, axis=1, keepdims=True) - 1.0
        move = more / xp.sum(part, axis=1, keepdims=True)
        log_a, u = xp.clip(log_a + (gap - move) / slope, None, 0.0), u + move
        a, old = xp.exp(log_a), a
        if float(xp.max(xp.abs(a - old))) < 1e-9:
            break
    p, log_total = softmax(m + (0.5 - a) * v)
    w = p * (1.0 - p) + (a - p) ** 2
    return Shares(w, y - p, own - 0.5 * xp.sum(a * a * v, axis=1) - log_total)


def log_prob(codes: Array, f: Array) -> Array:
    """log p(y | f) for f ``(n, classes)``."""
    return expected(codes, f, None).bound


def softmax(x: Any) -> tuple[Any, Any]:
    """Softmax along the last axis, and the log of the sum of exponentials."""
    xp = arrays.of(x)
    top = xp.max(x, axis=-1, keepdims=True)
    e = xp.exp(x - top)
    total = xp.sum(e, axis=-1, keepdims=True)
    return e / total, (top + xp.log(total))[..., 0]
