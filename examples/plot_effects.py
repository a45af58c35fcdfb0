"""
Effects in probabilities
========================

Coefficients are in log odds, and a kernel classifier has none.  ``average_effects`` gives the
average change of the probability when one column changes, with an interval.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.plot import EffectsDisplay

rng = np.random.default_rng(0)
n = 600
X = pd.DataFrame(
    {
        "age": rng.normal(50, 12, n),
        "dose": rng.gamma(2.0, 1.0, n),
        "smoker": rng.random(n) < 0.3,
        "site": rng.choice(["north", "south", "west"], n),
    }
)
f = (
    0.04 * (X["age"] - 50)
    + 1.2 * np.log(X["dose"])
    + 0.8 * X["smoker"]
    + 0.7 * (X["site"] == "west")
)
y = np.where(f + rng.logistic(size=n) > 0.5, "ill", "well")

# %%
# The effect of a column of numbers is for a change by one standard deviation, by one unit, or
# between two values, or it is a slope.  A column of categories changes from its first level to
# each of the others.

model = BayesianLinearSVC().fit(X, y)
print(model.average_effects(X, change={"age": (40, 60), "smoker": "sd", "site": "sd"}).round(3))

# %%
# The table is the same for every classifier, so that classifiers can be compared.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True, layout="constrained")
for ax, machine in zip(axes, (model, BayesianSVC(random_state=0).fit(X, y))):
    EffectsDisplay.from_estimator(machine, X, label="well", ax=ax)
    ax.set_title(type(machine).__name__)
plt.show()
