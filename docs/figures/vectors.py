"""Rows kept by three kernel machines."""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from bayesvm import PCVC, RVC
from bayesvm.plot import VectorDisplay

X, y = make_moons(300, noise=0.3, random_state=0)
fig, axes = plt.subplots(1, 3, figsize=(8, 2.9), sharex=True, sharey=True)
for ax, model in zip(axes, (PCVC(), RVC(), SVC(C=10, gamma=0.5))):
    display = VectorDisplay.from_estimator(model.fit(X, y), X, y, ax=ax)
    name = type(model).__name__
    ax.set(
        title=f"{name}: {len(model.support_)} vectors", xlabel="", ylabel="", xticks=[], yticks=[]
    )
    if ax.get_legend():
        ax.get_legend().remove()
