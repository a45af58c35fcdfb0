"""Probability, boundary and its uncertainty of a kernel machine on two moons."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from bayesvm import BayesianSVC

X, y = make_moons(160, noise=0.22, random_state=3)
model = BayesianSVC(random_state=0).fit(X, y)

a, b = np.meshgrid(np.linspace(-2.0, 3.0, 160), np.linspace(-1.6, 2.1, 120))
grid = np.column_stack([a.ravel(), b.ravel()])
p = model.predict_proba(grid)[:, 1].reshape(a.shape)
lower, upper = (end[:, 1].reshape(a.shape) for end in model.predict_interval(grid, level=0.9))

fig, ax = plt.subplots(figsize=(6.4, 4.2))
shade = ax.contourf(a, b, p, levels=np.linspace(0, 1, 21), cmap="RdBu", alpha=0.75)
unsure = (lower < 0.5) & (upper > 0.5)
ax.contourf(a, b, unsure, levels=[0.5, 1], colors=["white"], alpha=0.45)
ax.contour(a, b, p, levels=[0.5], colors="black", linewidths=1.8)
ax.scatter(*X[y == 0].T, s=18, c="#8c1d18", edgecolor="white", linewidth=0.6)
ax.scatter(*X[y == 1].T, s=18, c="#103f6e", edgecolor="white", linewidth=0.6)
ax.set(xticks=[], yticks=[])
for spine in ax.spines.values():
    spine.set_visible(False)
bar = fig.colorbar(shade, ax=ax, ticks=[0, 0.5, 1], shrink=0.8)
bar.set_label("probability of the blue class")
bar.outline.set_visible(False)
