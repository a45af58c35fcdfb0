"""
Which variables matter
======================

A spike-and-slab prior gives every column a posterior probability of inclusion.  Two nearly equal
columns share the probability; a mode, or variational Bayes, selects one of them only.
"""

# %%
# Twenty columns, four that matter
# --------------------------------
# Columns 0 and 1 are nearly copies of each other, and only column 0 matters; so do 5, 10 and 15.

import arviz
import matplotlib.pyplot as plt
import numpy as np

from bayesvm import BayesianLinearSVC
from bayesvm.inference import EM, Gibbs
from bayesvm.plot import InclusionDisplay, PathDisplay
from bayesvm.priors import LaplaceZero, Lasso, SpikeSlab

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 20))
X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
f = 1.5 * X[:, 0] + 1.5 * X[:, 5] - 1.5 * X[:, 10] - X[:, 15]
y = np.where(f + rng.logistic(size=300) > 0, 1, -1)

# %%
# Inclusion probabilities
# -----------------------
# By Gibbs sampling and by variational Bayes.  A bar is the probability that a column matters, its
# shade the probability of a positive sign.  Variational Bayes is overconfident.
# The likelihood is logistic, because the hinge overstates the evidence about threefold.

scheme = Gibbs(draws=1000, burn_in=200, chains=2)
gibbs = BayesianLinearSVC(SpikeSlab(expected_size=4), scheme, "logistic", random_state=0).fit(X, y)
vb = BayesianLinearSVC(LaplaceZero(expected_size=4), "vb", "logistic", random_state=0).fit(X, y)
for name, model in (("Gibbs", gibbs), ("VB", vb)):
    print(f"{name:6s}", " ".join(f"{p:.2f}" for p in model.inclusion_proba_))
InclusionDisplay.from_estimators({"spike and slab, Gibbs": gibbs, "Laplace-zero, VB": vb})
plt.show()

# %%
# Agreement of the chains
# -----------------------
# One chain was started with no column and one with all.  The near copies x0 and x1 alternate: while
# one is in, the other is mostly zero.  The dashed line is the joint mode under a Laplace prior.

print(f"largest R-hat of an inclusion indicator: {gibbs.machines_[0].ascent.change:.3f}")
ecme = BayesianLinearSVC(Lasso(), EM(learn="mode"), "logistic").fit(X, y)
columns = [0, 1, 5]
chosen = {"feature": [f"x{j}" for j in columns]}
axes = arviz.plot_trace(gibbs.to_arviz(), var_names=["coef"], coords=chosen, compact=False)
for (_, ax), mode in zip(axes, ecme.coef_[0, columns], strict=True):
    ax.axhline(mode, color="black", linestyle="--")
plt.show()

# %%
# The lasso's path
# ----------------
# Every point is the exact solution of a convex problem.  As a rule the number of columns
# grows with the scale of the prior.  The path has no measure of uncertainty.

PathDisplay.from_estimator(
    BayesianLinearSVC("lasso", "em"), X, y, nus=np.geomspace(0.002, 1.0, 12), top=5
)
plt.show()
