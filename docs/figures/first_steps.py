"""A probability and its interval against one column."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from bayesvm import BayesianLinearSVC

X, score = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X, y = X[["bmi"]], score > score.median()
model = BayesianLinearSVC().fit(X, y)
grid = pd.DataFrame({"bmi": np.linspace(18, 40, 200)})

fig, ax = plt.subplots(figsize=(6.4, 3.0))
for level in (0.9, 0.5):
    lower, upper = (end[:, 1] for end in model.predict_interval(grid, level=level))
    ax.fill_between(grid["bmi"], lower, upper, color="C0", alpha=0.2, linewidth=0)
ax.plot(grid["bmi"], model.predict_proba(grid)[:, 1], color="C0")
rng = np.random.default_rng(0)
for fast, name, height in ((True, "fast", 1.04), (False, "slow", -0.04)):
    rows = X.loc[y == fast, "bmi"]
    noise = rng.uniform(-0.02, 0.02, len(rows))
    ax.plot(rows, height + noise, ".", markersize=3, color=f"C{1 - fast}", label=name)
ax.set(xlabel="body mass index", ylabel="probability of fast progression", xlim=(18, 40))
ax.legend(loc="center right", markerscale=3)
