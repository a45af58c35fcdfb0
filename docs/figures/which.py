"""Boundaries of four estimators on the same rows."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from bayesvm import PCVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC
from bayesvm.terms import Intercept, Process

X, y = make_moons(200, noise=0.25, random_state=1)
terms = [("level", Intercept()), ("x", Process(0)), ("y", Process(1))]
models = [
    BayesianLinearSVC(),
    AdditiveSVC(terms, random_state=0),
    BayesianSVC(random_state=0),
    PCVC(),
]
a, b = np.meshgrid(np.linspace(-1.9, 2.9, 80), np.linspace(-1.4, 1.9, 60))
grid = np.column_stack([a.ravel(), b.ravel()])
fig, axes = plt.subplots(1, 4, figsize=(8.6, 2.3))
for ax, model in zip(axes, models):
    p = model.fit(X, y).predict_proba(grid)[:, 1].reshape(a.shape)
    ax.contourf(a, b, p, levels=np.linspace(0, 1, 21), cmap="RdBu", alpha=0.8)
    ax.contour(a, b, p, levels=[0.5], colors="black", linewidths=1.5)
    ax.scatter(*X.T, c=np.where(y == 1, "#103f6e", "#8c1d18"), s=5)
    if isinstance(model, PCVC):
        ax.scatter(*model.vectors_.T, s=45, facecolor="none", edgecolor="black")
    ax.set(xticks=[], yticks=[])
    ax.set_title(type(model).__name__, fontsize=9)
