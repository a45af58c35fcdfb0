"""A predictive check by group, of a model without groups and of one with them."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.plot import PredictiveCheckDisplay

rng = np.random.default_rng(0)
clinic = np.repeat(np.arange(12), 40)
X = pd.DataFrame({"age": rng.standard_normal(480)})
y = X["age"] + 1.5 * rng.standard_normal(12)[clinic] + rng.logistic(size=480) > 0

fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True, layout="constrained")
plain = BayesianLinearSVC(random_state=0).fit(X, y)
PredictiveCheckDisplay.from_estimator(plain, X, y, by=clinic, bins=12, ax=left)
mixed = MixedSVC(random_state=0).fit(X, y, groups=clinic)
PredictiveCheckDisplay.from_estimator(mixed, X, y, by=clinic, bins=12, groups=clinic, ax=right)
for ax, title in ((left, "without groups"), (right, "with groups")):
    ax.set(title=title, xlabel="clinic")
left.set_ylabel("share of ill")
right.set_ylabel("")
right.get_legend().remove()
