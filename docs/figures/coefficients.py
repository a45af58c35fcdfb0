"""The ten largest coefficients of the first model."""

from sklearn.datasets import load_breast_cancer

from bayesvm import BayesianLinearSVC
from bayesvm.plot import CoefficientDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
CoefficientDisplay.from_estimator(BayesianLinearSVC().fit(X, y), top=10)
