"""The ten largest coefficients of the first model."""

from sklearn.datasets import load_diabetes

from bayesvm import BayesianLinearSVC
from bayesvm.plot import CoefficientDisplay

X, score = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
y = score > score.median()
CoefficientDisplay.from_estimator(BayesianLinearSVC().fit(X, y))
