"""Coverage asked for, coverage held, and the size of prediction sets."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from bayesvm import BayesianLinearSVC

X, y = load_wine(return_X_y=True, as_frame=True)
X = X[["alcohol", "ash", "magnesium"]]
levels = np.linspace(0.5, 0.99, 12)
held, size = np.zeros((10, 12)), np.zeros((10, 12))
for seed in range(10):
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed, stratify=y)
    model = BayesianLinearSVC(likelihood="logistic").fit(X_train, y_train)
    for k, level in enumerate(levels):
        inside = model.predict_set(X_test, coverage=level)
        held[seed, k] = inside[np.arange(len(y_test)), y_test].mean()
        size[seed, k] = inside.sum(axis=1).mean()

fig, (left, right) = plt.subplots(1, 2, figsize=(6.8, 2.9))
left.plot([0.5, 1], [0.5, 1], color="0.6", linestyle="--")
left.plot(levels, held.mean(axis=0), "o-")
left.set(xlabel="coverage asked for", ylabel="share of sets with the label")
right.plot(levels, size.mean(axis=0), "o-", color="C1")
right.set(xlabel="coverage asked for", ylabel="labels in a set", ylim=(0, 3))
