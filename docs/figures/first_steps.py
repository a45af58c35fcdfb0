"""A probability and its interval against one column."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from bayesvm import BayesianLinearSVC

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X[["worst radius"]]
model = BayesianLinearSVC().fit(X, y)
grid = pd.DataFrame({"worst radius": np.linspace(10, 22, 200)})
p = model.predict_proba(grid)[:, 1]

fig, ax = plt.subplots(figsize=(6.4, 3.0))
for level in (0.9, 0.5):
    lower, upper = (end[:, 1] for end in model.predict_interval(grid, level=level))
    ax.fill_between(grid["worst radius"], lower, upper, color="C0", alpha=0.2, linewidth=0)
ax.plot(grid["worst radius"], p, color="C0")
for label, name, height in ((1, "benign", 1.03), (0, "malignant", -0.03)):
    rows = X.loc[y == label, "worst radius"]
    ax.plot(rows, np.full(len(rows), height), "|", color=f"C{1 - label}", label=name)
ax.set(xlabel="worst radius", ylabel="probability of benign", xlim=(10, 22))
ax.legend(loc="center right")
