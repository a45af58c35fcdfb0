"""The four simulated sets of Chen, Tino and Yao in the plane."""

import matplotlib.pyplot as plt
import numpy as np

from bayesvm.datasets import simulate_chen

fig, axes = plt.subplots(1, 4, figsize=(8.4, 2.3))
for ax, name in zip(axes, ("spiral", "overlap", "bumpy", "relevance")):
    X, y, *_ = simulate_chen(name, 200, np.random.default_rng(0))
    ax.scatter(*X[:, :2].T, c=np.where(y > 0, "C0", "C1"), s=8)
    ax.set(title=name, xticks=[], yticks=[])
