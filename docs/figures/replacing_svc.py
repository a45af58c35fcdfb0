"""Probabilities of SVC with Platt scaling and of BayesianSVC."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from bayesvm import BayesianSVC

X, y = make_moons(150, noise=0.3, random_state=0)
models = {
    "SVC, Platt scaling": CalibratedClassifierCV(SVC(C=1, gamma=1), ensemble=False).fit(X, y),
    "BayesianSVC": BayesianSVC(random_state=0).fit(X, y),
}
a, b = np.meshgrid(np.linspace(-3.5, 4.5, 140), np.linspace(-3, 3.5, 110))
grid = np.column_stack([a.ravel(), b.ravel()])
fig, axes = plt.subplots(1, 2, figsize=(7.2, 2.9), sharey=True)
for ax, (name, model) in zip(axes, models.items()):
    p = model.predict_proba(grid)[:, 1].reshape(a.shape)
    shade = ax.contourf(a, b, p, levels=np.linspace(0, 1, 21), cmap="RdBu", alpha=0.8)
    ax.contour(a, b, p, levels=[0.5], colors="black", linewidths=1.2)
    ax.scatter(
        *X.T, c=np.where(y == 1, "#103f6e", "#8c1d18"), s=9, edgecolor="white", linewidth=0.4
    )
    ax.set(title=name, xticks=[], yticks=[])
fig.colorbar(shade, ax=axes, ticks=[0, 0.5, 1], label="probability")
