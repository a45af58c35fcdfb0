"""Errors of ten halves for each model."""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.neighbors import KNeighborsClassifier

from bayesvm import BayesianLinearSVC
from bayesvm.compare import evaluate, five_by_two

models = {
    "linear": BayesianLinearSVC(),
    "1NN": KNeighborsClassifier(1),
    "5NN": KNeighborsClassifier(5),
}
data = {"tumours": load_breast_cancer(), "wine": load_wine()}
frame = evaluate(models, data, five_by_two(), ["error"], n_jobs=1)
fig, axes = plt.subplots(1, 2, figsize=(6.8, 2.6))
for ax, name in zip(axes, data):
    mine = frame[(frame["dataset"] == name) & (frame["metric"] == "error")]
    for row, model in enumerate(models):
        values = mine.loc[mine["estimator"] == model, "value"]
        ax.plot(values, [row] * len(values), "o", alpha=0.5)
    ax.set(
        title=name, xlabel="error of a half", yticks=range(3), yticklabels=models, xlim=(0, None)
    )
    ax.invert_yaxis()
