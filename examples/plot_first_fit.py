"""
A first fit
===========

One fit of :class:`bayesvm.BayesianLinearSVC` gives what a support vector machine does not: standard
deviations of the coefficients, class probabilities of new rows, and intervals of these
probabilities.  No penalty is tuned and nothing is cross-validated.
"""

# sphinx_gallery_thumbnail_number = 1

# %%
# Fit
# ---
# The data are 569 tumours with 30 measurements each.  Columns are standardised inside, and the
# penalty is learned with the coefficients.

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from bayesvm import BayesianLinearSVC
from bayesvm.plot import CoefficientDisplay, ProbabilityDisplay

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

model = BayesianLinearSVC().fit(X_train, y_train)
print(f"converged: {model.converged_} after {model.n_iter_} passes, bound {model.elbo_:.2f}")
print(f"test error: {100 * (model.predict(X_test) != y_test).mean():.1f} %")

# %%
# Coefficients
# ------------
# ``summary`` is on the scale of the input.  The figure shows coefficients times the standard
# deviation of their column, so that they can be compared, sorted by the certainty of their sign.

print(model.summary(level=0.9).head())

CoefficientDisplay.from_estimator(model, top=15)
plt.show()

# %%
# Probabilities
# -------------
# ``predict_proba`` comes from the same fit: its link from f to probability is fitted to
# leave-one-out predictions of the training rows.  The figure is for test rows.

proba = model.predict_proba(X_test)
print(f"log loss: {log_loss(y_test, proba):.3f}")

CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=5)
plt.show()

# %%
# Intervals of probabilities
# --------------------------
# Where the posterior of f is wide, so is the interval.  Marks show the label of each tumour: at the
# top malignant, at the bottom benign.

lower, upper = model.predict_interval(X_test, level=0.9)
widest = (upper - lower)[:, 1].argmax()
print(
    f"least certain test row: P(malignant) = {proba[widest, 1]:.2f}, "
    f"between {lower[widest, 1]:.2f} and {upper[widest, 1]:.2f}; it was {y_test[widest]}"
)

ProbabilityDisplay.from_estimator(model, X_test, y_test)
plt.show()
