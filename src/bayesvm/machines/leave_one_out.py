"""Moments of f at each row with that row left out."""

from __future__ import annotations

import numpy as np

from ..core.types import Array, Local


def leave_one_out(m: Array, v: Array, local: Local, c: Array) -> tuple[Array, Array]:
    r"""Moments of f at each row with one copy of that row removed.

    ``local`` are the likelihood contributions of one copy.  Exact for fixed sites:

    .. math:: m_{-i} = m_i - \frac{v_i g_i}{1 - w_i v_i}, \qquad v_{-i} = \frac{v_i}{1 - w_i v_i}.

    A row of weight two is two rows, of which one stays.
    """
    share = np.minimum(c, 1.0)
    rest = np.maximum(1.0 - share * local.w * v, 1e-6)
    return m - v * share * local.g / rest, v / rest


def leave_one_out_draws(f: Array, log_lik: Array, c: Array) -> tuple[Array, Array]:
    """The same moments from draws of f, ``(n, draws)``, by importance weights 1/likelihood."""
    log_weight = -np.minimum(c, 1.0)[:, None] * log_lik
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    mean = np.einsum("ij,ij->i", weight, f)
    return mean, np.einsum("ij,ij->i", weight, (f - mean[:, None]) ** 2)
