"""Three rows of two columns: what draws of a factor model must average to, by weighted draws."""

import numpy as np

CELLS = np.array([[1.0, 0.6], [-0.8, 0.3], [0.4, -0.9]])
LABELS = np.array([1.0, -1.0, 1.0])


def _weighted(log_weight, values):
    """Means and their standard errors."""
    w = np.exp(log_weight - log_weight.max())
    w /= w.sum()
    mean = w @ values
    error = np.sqrt(np.square(w) @ np.square(values - mean))
    return mean, error


def _table(size, rng, nu=1.0, a=1.0, b=1.0):
    """Draws of scores, noise precision, and the log density of the table there."""
    W = rng.standard_normal((size, 3))
    A = np.sqrt(rng.exponential(1 / nu, (size, 2))) * rng.standard_normal((size, 2))
    psi = rng.gamma(a, 1 / b, size)
    gap = CELLS - W[:, :, None] * A[:, None, :]
    log_p = 3 * np.log(psi / (2 * np.pi)) - 0.5 * psi * np.square(gap).sum(axis=(1, 2))
    return W, psi, log_p


def linear_answer(likelihood, beta_sd, bias, size=400_000, seed=0):
    """E[psi] and E[f] for f = bias + beta w."""
    rng = np.random.default_rng(seed)
    W, psi, log_p = _table(size, rng)
    f = bias * rng.standard_normal((size, 1)) + beta_sd * rng.standard_normal((size, 1)) * W
    log_p = log_p + likelihood.log_prob(LABELS, f).sum(axis=1)
    return _weighted(log_p, np.column_stack([psi, f]))


def kernel_answer(likelihood, weight, length_scale, bias, size=400_000, seed=0):
    """E[psi] and E[f] for f of a Gaussian process on the score."""
    rng = np.random.default_rng(seed)
    W, psi, log_p = _table(size, rng)
    gap = (W[:, :, None] - W[:, None, :]) / length_scale
    K = weight * np.exp(-0.5 * gap**2) + bias**2 + 1e-9 * np.eye(3)
    f = np.einsum("nij,nj->ni", np.linalg.cholesky(K), rng.standard_normal((size, 3)))
    log_p = log_p + likelihood.log_prob(LABELS, f).sum(axis=1)
    return _weighted(log_p, np.column_stack([psi, f]))
