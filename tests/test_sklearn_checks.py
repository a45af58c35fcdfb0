"""scikit-learn's own checks of every estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesvm import BayesianLinearSVC
from bayesvm.inference import Gibbs

ESTIMATORS = [
    BayesianLinearSVC(),
    BayesianLinearSVC(prior="fixed", probability="normalised"),
    BayesianLinearSVC(likelihood="logistic"),
    BayesianLinearSVC(inference="em", probability="probit"),
    BayesianLinearSVC(inference="svi", random_state=0),
    BayesianLinearSVC(inference=Gibbs(draws=50, burn_in=20, chains=2), random_state=0),
]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimator_checks(estimator, check):
    check(estimator)
