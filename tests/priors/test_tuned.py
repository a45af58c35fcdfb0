"""A tuned ridge is a prior of known precision, once its variance is chosen."""

import numpy as np
import pytest

from bayesvm.core.types import Own
from bayesvm.priors import Fixed, TunedRidge

OWN = Own(np.array([0.7, -1.4, 0.2]), np.array([0.3, 0.05, 1.1]))


def test_all_of_it_is_that_of_a_known_precision():
    tuned, fixed = TunedRidge(0.4), Fixed(2.5)
    s = tuned.init(3)
    np.testing.assert_array_equal(tuned.precisions(s, 3), fixed.precisions((), 3))
    assert tuned.bound(s, OWN) == fixed.bound((), OWN)
    assert tuned.log_prob(s, OWN) == fixed.log_prob((), OWN)
    assert tuned.stretch(s, OWN)(0.3) == fixed.stretch((), OWN)(0.3)
    assert tuned.spread(s, 3) == pytest.approx(fixed.spread((), 3))
    assert tuned.cooled(s, 2.0).precision == pytest.approx(1.25)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(tuned.scatter(s, 3, 2, rng), [0.4, 0.4])
    for state in (tuned.update(s, OWN), tuned.mode(s, OWN), tuned.draw(s, OWN.mean, rng)):
        assert state == s
    assert tuned.stretched(s, 0.4) == s


def test_a_state_survives_a_vector():
    tuned = TunedRidge()
    s = tuned.init(3)._replace(variance=0.3)
    assert tuned.restore(s, tuned.vector(s)).variance == pytest.approx(0.3)


def test_it_is_open_without_a_variance():
    assert TunedRidge().is_open
    assert not TunedRidge(2.0).is_open
    assert not Fixed(1.0).is_open


@pytest.mark.parametrize("variance", [0.0, -1.0, np.inf, "one"])
def test_a_variance_is_positive(variance):
    with pytest.raises(ValueError, match="positive number"):
        TunedRidge(variance)
