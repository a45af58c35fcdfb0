"""Scores of held-out rows on two factors."""

import matplotlib.pyplot as plt
import numpy as np

from bayesvm import FactorSVC

rng = np.random.default_rng(0)
W = rng.standard_normal((240, 3))
A = rng.laplace(size=(500, 3)) * (rng.random((500, 3)) < 0.3)
X = W @ A.T + rng.standard_normal((240, 500))
y = np.where(W[:, 0] > 0, "ill", "well")
model = FactorSVC(n_factors=3, classifier="linear").fit(X[:80], y[:80])
scores = model.transform(X[80:])
weight = model.summary().xs("coef")["mean"].to_numpy()
first, second = np.argsort(-np.abs(weight))[:2]

fig, ax = plt.subplots(figsize=(5.2, 3.3))
for label in ("ill", "well"):
    mine = y[80:] == label
    ax.plot(scores[mine, first], scores[mine, second], "o", alpha=0.7, label=label)
ax.set(xlabel="factor with the largest coefficient", ylabel="factor with the second largest")
ax.legend()
