"""The terms of an additive model."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bayesvm import AdditiveSVC
from bayesvm.plot import TermDisplay

rng = np.random.default_rng(0)
n = 600
data = pd.DataFrame({"age": rng.uniform(20, 80, n), "dose": rng.exponential(size=n)})
data["sex"], data["clinic"] = rng.choice(["f", "m"], n), rng.integers(0, 12, n)
effect = rng.standard_normal(12)[data["clinic"]]
f = 2 * np.sin(data["age"] / 10) + data["dose"] + effect - 1
data["ill"] = f + rng.logistic(size=n) > 0
model = AdditiveSVC.from_formula("ill ~ s(age) + dose + sex + (1 | clinic)", data, random_state=0)
fig, axes = plt.subplots(1, 3, figsize=(7.6, 2.7), layout="constrained")
TermDisplay.from_estimator(model, data, ax=axes)
axes[0].set_ylabel("added to f, 90 % band")
