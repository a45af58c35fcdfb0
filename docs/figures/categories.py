"""Average effects of numbers and of categories in one table."""

import numpy as np
import pandas as pd

from bayesvm import BayesianLinearSVC
from bayesvm.plot import EffectsDisplay

rng = np.random.default_rng(0)
n = 400
X = pd.DataFrame(
    {
        "age": rng.normal(50, 10, n).round(),
        "sex": rng.choice(["female", "male"], n),
        "site": rng.choice(["arm", "back", "face"], n),
        "dose": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
    }
)
f = (X["age"] - 50) / 10 + 2 * (X["site"] == "face") - 1 + X["dose"].fillna(0)
y = np.where(f + rng.logistic(size=n) > 0, "ill", "well")
EffectsDisplay.from_estimator(BayesianLinearSVC().fit(X, y), X)
