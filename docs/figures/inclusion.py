"""Posterior probabilities of inclusion on the breast-cancer data."""

from sklearn.datasets import load_breast_cancer

from bayesvm import BayesianLinearSVC
from bayesvm.inference import Gibbs
from bayesvm.plot import InclusionDisplay
from bayesvm.priors import SpikeSlab

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
sampler = Gibbs(draws=300, burn_in=100, chains=2)
model = BayesianLinearSVC(SpikeSlab(expected_size=5), sampler, "logistic", random_state=0)
InclusionDisplay.from_estimator(model.fit(X, y), top=12)
