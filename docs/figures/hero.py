"""Probability, boundary and doubt of a kernel machine on two moons."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from bayesvm import BayesianSVC

X, y = make_moons(160, noise=0.22, random_state=3)
model = BayesianSVC(random_state=0).fit(X, y)

a, b = np.meshgrid(np.linspace(-1.9, 2.9, 200), np.linspace(-1.5, 2.0, 150))
grid = np.column_stack([a.ravel(), b.ravel()])
p = model.predict_proba(grid)[:, 1].reshape(a.shape)
lower, upper = (end[:, 1].reshape(a.shape) for end in model.predict_interval(grid, level=0.9))

fig, ax = plt.subplots(figsize=(6.4, 4.1))
ax.contourf(a, b, p, levels=np.linspace(0, 1, 21), cmap="RdBu", alpha=0.85)
doubt = np.minimum(upper - 0.5, 0.5 - lower)  # positive where the interval includes one half
ax.contourf(a, b, doubt, levels=[0, 1], colors=["white"], alpha=0.5)
ax.contour(a, b, doubt, levels=[0], colors="0.35", linewidths=0.8, linestyles=":")
ax.contour(a, b, p, levels=[0.5], colors="black", linewidths=2)
ax.scatter(*X[y == 0].T, s=26, c="#8c1d18", edgecolor="white", linewidth=0.7)
ax.scatter(*X[y == 1].T, s=26, c="#103f6e", edgecolor="white", linewidth=0.7)
ax.set_axis_off()
