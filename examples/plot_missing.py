"""
Missing cells
=============

Dropping incomplete rows loses labels; filling in means ignores the uncertainty of missing cells.
With ``missing="model"`` missing cells have a distribution, learned together with the classifier.
"""

# %%
# The table
# ---------
# Five correlated columns.  The third has the largest effect, and is missing in two rows of five,
# more often where the first is large: missing at random, because the first is observed.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from bayesvm import BayesianLinearSVC
from bayesvm.inference import Gibbs
from bayesvm.plot import MissingDisplay

rng = np.random.default_rng(0)
common = rng.standard_normal((1000, 2))
whole = common @ rng.standard_normal((2, 5)) + 0.7 * rng.standard_normal((1000, 5))
y = np.where(whole @ [0.3, 0.0, 1.5, -0.5, 0.0] + rng.logistic(size=1000) > 0, 1, 0)
X = whole.copy()
X[rng.random(1000) < 1 / (1 + np.exp(0.4 - whole[:, 0])), 2] = np.nan
X[rng.random(1000) < 0.1, 4] = np.nan
train, test = slice(0, 400), slice(400, None)
print(f"incomplete rows: {np.isnan(X).any(axis=1).mean():.0%}")

# %%
# Three ways to fit it
# --------------------
# The log loss on new rows with missing cells.  In the last line no cell is missing.

joint = BayesianLinearSVC(missing="model").fit(X[train], y[train])
means = make_pipeline(SimpleImputer(), BayesianLinearSVC()).fit(X[train], y[train])
known = ~np.isnan(X[train]).any(axis=1)
some = BayesianLinearSVC(missing="model").fit(X[train][known], y[train][known])
for name, model in (("modelled", joint), ("means", means), ("complete rows only", some)):
    loss = log_loss(y[test], model.predict_proba(X[test]))
    print(f"{name:20s} {loss:.3f}")
best = BayesianLinearSVC().fit(whole[train], y[train])
print(f"{'nothing missing':20s} {log_loss(y[test], best.predict_proba(whole[test])):.3f}")

# %%
# Missing and imputed cells
# -------------------------

MissingDisplay.from_estimator(joint, X[test])
plt.show()

# %%
# Errors of the imputation
# ------------------------
# ``impute`` gives the expected value of each missing cell and its standard deviation; the true
# values are known here.  Training cells are inferred with their labels too (``imputed_``).

mean, std = joint.impute(X[test])
gone = np.isnan(X[test])
z = (whole[test] - mean)[gone] / std[gone]
print(f"missing cells within 2 sd: {np.mean(np.abs(z) < 2):.2f}")

# %%
# The same by Gibbs sampling
# --------------------------
# Cells, their distribution and the coefficients are drawn in turn.  Variational Bayes is
# overconfident, as without missing cells, and shrinks coefficients slightly more.

scheme = Gibbs(draws=400, burn_in=100, chains=2)
drawn = BayesianLinearSVC(missing="model", inference=scheme, random_state=0)
drawn = drawn.fit(X[train], y[train])
for name, model in (("VB", joint), ("Gibbs", drawn)):
    pairs = zip(model.coef_[0], model.coef_std_[0], strict=True)
    print(f"{name:6s}", " ".join(f"{b:+.2f}±{s:.2f}" for b, s in pairs))
