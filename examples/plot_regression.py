"""
Support vector regression with intervals
========================================

One fit learns the tube, the scale of the noise and the penalty, and gives prediction intervals with
the stated coverage.
"""

# %%
# Rows with outliers
# ------------------
# One row in ten has noise ten times as large.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import BayesianRidge

from bayesvm import BayesianSVR
from bayesvm.inference import Gibbs

rng = np.random.default_rng(0)
X = rng.standard_normal((1200, 4))
beta = np.array([2.0, -1.0, 0.5, 0.0])
noise = rng.standard_normal(1200) * np.where(rng.random(1200) < 0.1, 10.0, 1.0)
y = 20.0 + X @ beta + noise
train, new = slice(200), slice(200, None)

# %%
# One fit
# -------
# Least squares follows the outliers; the loss here grows only linearly.

model = BayesianSVR().fit(X[train], y[train])
ridge = BayesianRidge().fit(X[train], y[train])
print(model.summary().round(2))
print(f"tube {model.epsilon_:.2f}, scale {model.scale_:.2f}")
for name, b in (("BayesianSVR", model.coef_), ("BayesianRidge", ridge.coef_)):
    print(f"{name:14s} error of the coefficients {np.linalg.norm(b - beta):.2f}")

# %%
# Intervals
# ---------
# They are computed from leave-one-out residuals of the same fit.

for level in (0.5, 0.8, 0.9, 0.95):
    lower, upper = model.predict_interval(X[new], level)
    inside = (lower < y[new]) & (y[new] < upper)
    print(f"{level:.0%}: {inside.mean():.1%} inside, width {np.mean(upper - lower):.1f}")

lower, upper = model.predict_interval(X[new])
order = np.argsort(model.predict(X[new]))
fig, ax = plt.subplots(figsize=(6.5, 3.2))
ax.fill_between(np.arange(1000), lower[order], upper[order], alpha=0.3, label="90 % interval")
ax.plot(np.arange(1000), y[new][order], ".", color="0.3", markersize=2)
ax.set(xlabel="new rows, by prediction", ylabel="y", ylim=(5, 35))
ax.legend()
plt.show()

# %%
# By Gibbs sampling
# -----------------
# The same posterior by draws, with diagnostics of the chains.

drawn = BayesianSVR(inference=Gibbs(draws=300, burn_in=100, chains=2), random_state=0)
print(drawn.fit(X[train], y[train]).summary().round(2))
