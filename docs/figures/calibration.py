"""Reliability of three links on simulated labels."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve

from bayesvm import BayesianLinearSVC
from bayesvm.datasets import simulate_luts

X, y, X_test, y_test = simulate_luts(500, 10, np.random.default_rng(0), n_test=20_000)
fig, ax = plt.subplots(figsize=(4.8, 3.4))
ax.plot([0, 1], [0, 1], color="0.6", linestyle="--")
for link in ("calibrated", "probit", "normalised"):
    model = BayesianLinearSVC(likelihood="hinge", probability=link).fit(X, y)
    p = model.predict_proba(X_test)[:, 1]
    share, mean = calibration_curve(y_test == model.classes_[1], p, n_bins=12)
    ax.plot(mean, share, "o-", markersize=4, label=f'"{link}"')
ax.set(xlabel="predicted probability", ylabel="share of positives")
ax.legend()
