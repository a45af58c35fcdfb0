"""
Categories and empty cells
==========================

The estimators accept tables with text, categories and empty cells.  The linear classifier uses
indicators, the kernel classifier a kernel over categories.  Here the label depends on
*combinations* of two categories, which a sum of their effects cannot express.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_predict

from bayesvm import BayesianLinearSVC, BayesianSVC

rng = np.random.default_rng(0)
n = 500
X = pd.DataFrame(
    {
        "soil": pd.Categorical(rng.choice(["clay", "loam", "sand"], n)),
        "crop": rng.choice(["barley", "oats", "rye", "wheat"], n),
        "irrigated": rng.random(n) < 0.5,
        "rain": np.where(rng.random(n) < 0.15, np.nan, rng.normal(size=n)),
    }
)
good = {("clay", "wheat"), ("clay", "oats"), ("loam", "barley"), ("sand", "rye"), ("sand", "oats")}
suited = np.array([pair in good for pair in zip(X["soil"], X["crop"])])
f = 3.0 * suited - 1.5 + X["rain"].fillna(0.0) + 1.0 * X["irrigated"] - 0.5
y = np.where(f + rng.logistic(size=n) > 0, "high", "low")

# %%
# Both classifiers take the table.  The kernel classifier finds the combinations.

for model in (BayesianLinearSVC(), BayesianSVC(random_state=0)):
    p = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    loss = -np.log(p[np.arange(n), (y == "low").astype(int)]).mean()
    print(f"{type(model).__name__}: log loss of rows left out {loss:.3f}")

# %%
# Probabilities of the kernel classifier for every pair of soil and crop, without irrigation and
# with the rain unknown.

model = BayesianSVC(random_state=0).fit(X, y)
soils, crops = ["clay", "loam", "sand"], ["barley", "oats", "rye", "wheat"]
grid = pd.DataFrame(
    [(s, c, False, np.nan) for s in soils for c in crops],
    columns=["soil", "crop", "irrigated", "rain"],
)
proba = model.predict_proba(grid)[:, 0].reshape(3, 4)
fig, ax = plt.subplots(figsize=(5, 3.2))
shades = ax.imshow(proba, vmin=0, vmax=1, cmap="viridis")
ax.set_xticks(range(4), crops)
ax.set_yticks(range(3), soils)
for i in range(3):
    for j in range(4):
        mark = "*" if (soils[i], crops[j]) in good else ""
        ax.text(j, i, f"{proba[i, j]:.2f}{mark}", ha="center", va="center", color="w")
fig.colorbar(shades, label="probability of a high yield")
ax.set_title("starred pairs are suited")
fig.tight_layout()
plt.show()
