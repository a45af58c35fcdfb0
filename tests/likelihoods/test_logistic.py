"""The expected log likelihood of the logistic link, without augmentation."""

import numpy as np
import pytest
from scipy.special import expit, log_expit

from bayesvm.likelihoods import Logistic

M = np.linspace(-30.0, 30.0, 121)


@pytest.mark.parametrize("v", [0.0, 1e-4, 0.005, 0.0051, 1.0, 25.0, 4e4, np.abs(M) / 3e3])
def test_tight_is_exact_at_any_variance(v):
    """Against sums over a fine grid of f: value, slope and curvature."""
    x = np.linspace(-9.0, 9.0, 40_001)
    share = np.exp(-0.5 * x * x)
    share /= share.sum()
    v = np.broadcast_to(v, M.shape)
    local = Logistic().tight(np.ones_like(M), M, v)
    f = M[:, None] + np.sqrt(v)[:, None] * x
    np.testing.assert_allclose(local.bound, log_expit(f) @ share, rtol=1e-7, atol=3e-9)
    np.testing.assert_allclose(local.g, expit(-f) @ share, atol=3e-9)
    np.testing.assert_allclose(local.w, (expit(f) * expit(-f)) @ share, atol=3e-9)
