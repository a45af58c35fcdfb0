"""How often intervals hold the minimiser of the expected hinge loss, by two covariances."""

import matplotlib.pyplot as plt
import numpy as np

from bayesvm import BayesianLinearSVC

levels = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
slope, sets = np.array([2.0, 0.0, 0.0]), 60


def draw(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, rng.random(n) < 1 / (1 + np.exp(-X @ slope))


def fitted(X, y, covariance):
    return BayesianLinearSVC("ridge", likelihood="hinge", covariance=covariance).fit(X, y)


target = fitted(*draw(100_000, 999), "model").coef_
fig, ax = plt.subplots(figsize=(4.8, 3.3))
ax.plot([0.4, 1], [0.4, 1], color="0.6", linestyle="--")
for covariance in ("robust", "model"):
    held = np.zeros(len(levels))
    for seed in range(sets):
        model = fitted(*draw(200, seed), covariance)
        for k, level in enumerate(levels):
            lower, upper = model.coef_interval(level=level)
            held[k] += np.mean((lower < target) & (target < upper)) / sets
    ax.plot(levels, held, "o-", label=f'covariance="{covariance}"')
ax.set(xlabel="nominal level", ylabel="coverage", ylim=(0, 1))
ax.legend()
