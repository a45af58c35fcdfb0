"""
A kernel machine with uncertainty
=================================

:class:`bayesvm.BayesianSVC` is a support vector machine with a Gaussian process prior.  One fit
learns the kernel, finds the posterior of f and calibrates probabilities.  The figures show a fit in
two dimensions, and the length scales of columns without effect.
"""

# %%
# Fit
# ---
# Two interleaved half circles with noise.  There is no search for ``C`` or ``gamma``.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC
from bayesvm.plot import DecisionBandDisplay, RelevanceDisplay

X, y = make_moons(200, noise=0.25, random_state=0)
X_test, y_test = make_moons(2000, noise=0.25, random_state=1)
model = BayesianSVC(random_state=0).fit(X, y)
print(model.kernel_)
print(f"test error {100 * (model.predict(X_test) != y_test).mean():.1f} %, ", end="")
print(f"log loss {log_loss(y_test, model.predict_proba(X_test)):.3f}")

# %%
# Where the label is uncertain
# ----------------------------
# Left, probabilities: the black line is where both classes are equally likely, and in the hatched
# band the 90 % interval of the probability contains one half.  Right, the
# posterior standard deviation of f: small near the data, equal to the prior's far from them.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
band = DecisionBandDisplay.from_estimator(model, X, y, level=0.9, ax=left)
grid = np.column_stack([g.ravel() for g in np.meshgrid(band.x, band.y)])
sd = model.decision_function(grid, return_std=True)[1].reshape(band.proba.shape)
shades = right.contourf(band.x, band.y, sd, 12, cmap="viridis")
fig.colorbar(shades, ax=right, label="standard deviation of f")
right.scatter(*X.T, c=y, cmap="RdBu_r", edgecolors="k", s=18)
right.scatter(*X[model.support_].T, s=45, facecolors="none", edgecolors="w")
left.set_title("probability")
right.set_title("standard deviation; circles are rows inside the margin")
plt.show()

# %%
# Calibration
# -----------
# On test rows:

CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=8)
plt.show()

# %%
# Columns without effect
# ----------------------
# Four columns of noise are added.  Where the evidence is very strong, every column gets a
# separate length scale; along a column with a long one f hardly changes.

rng = np.random.default_rng(0)
noise = rng.standard_normal((200, 4))
columns = ["first", "second", "noise 1", "noise 2", "noise 3", "noise 4"]
noisy = BayesianSVC(random_state=0).fit(pd.DataFrame(np.hstack([X, noise]), columns=columns), y)

RelevanceDisplay.from_estimator(noisy)
plt.show()
