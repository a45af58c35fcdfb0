"""
A kernel machine that knows where it is unsure
==============================================

:class:`bayesvm.BayesianSVC` puts a Gaussian process where a support vector machine has a function.
One fit learns the kernel, finds the posterior of f and calibrates probabilities.  Here is what it
draws in two dimensions, and what a column that means nothing looks like to it.
"""

# %%
# Fit
# ---
# Two interleaved half circles with noise.  Neither ``C`` nor ``gamma`` is searched for.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC
from bayesvm.plot import CalibrationDisplay

X, y = make_moons(200, noise=0.25, random_state=0)
X_test, y_test = make_moons(2000, noise=0.25, random_state=1)
model = BayesianSVC(random_state=0).fit(X, y)
print(model.kernel_)
print(f"test error {100 * (model.predict(X_test) != y_test).mean():.1f} %, ", end="")
print(f"log loss {log_loss(y_test, model.predict_proba(X_test)):.3f}")

# %%
# The band of decision
# --------------------
# Left, probabilities: the black line is where both classes are equally likely, and in the hatched
# band the 90 % interval of the probability holds one half: the label is not settled.  Right, the
# posterior standard deviation of f: small along the data, that of the prior far from them.

ends = [(x.min() - 0.8, x.max() + 0.8) for x in X.T]
across, up = np.meshgrid(*(np.linspace(*e, 70) for e in ends))
cells = np.column_stack([across.ravel(), up.ravel()])
proba = model.predict_proba(cells)[:, 1].reshape(across.shape)
lower, upper = (a[:, 1].reshape(across.shape) for a in model.predict_interval(cells, level=0.9))
sd = model.decision_function(cells, return_std=True)[1].reshape(across.shape)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
shades = left.contourf(across, up, proba, np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.7)
left.contourf(across, up, (lower < 0.5) & (upper > 0.5), [0.5, 1.5], colors="none", hatches=["///"])
left.contour(across, up, proba, [0.5], colors="k")
fig.colorbar(shades, ax=left, label="P(y = 1)")
shades = right.contourf(across, up, sd, 12, cmap="viridis")
fig.colorbar(shades, ax=right, label="standard deviation of f")
unsure = model.support_
right.scatter(*X[unsure].T, s=45, facecolors="none", edgecolors="w")
for ax in (left, right):
    ax.scatter(*X.T, c=y, cmap="RdBu_r", edgecolors="k", s=18)
left.set_title("probability, and where the label is open")
right.set_title("spread; circles are rows inside the margin")
plt.show()

# %%
# Are the probabilities true?
# ---------------------------
# On rows that were not seen:

CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=8)
plt.show()

# %%
# Columns that mean nothing
# -------------------------
# Four columns of noise are added.  Where the evidence is very strong, every column gets a length
# scale of its own; a long one says that f hardly changes along it.

rng = np.random.default_rng(0)
noisy = BayesianSVC(random_state=0).fit(np.hstack([X, rng.standard_normal((200, 4))]), y)
scales = np.broadcast_to(noisy.kernel_.kernel.length_scale, 6)

fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.barh(["first", "second", *(f"noise {k}" for k in range(1, 5))], 1 / np.asarray(scales))
ax.invert_yaxis()
ax.set_xlabel("1 / length scale, in units of the column's spread")
plt.show()
