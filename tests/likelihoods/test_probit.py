"""The probit likelihood far from its margin."""

import numpy as np
import pytest

from bayesvm import RVC
from bayesvm.likelihoods import Probit


@pytest.mark.parametrize(("how", "v"), [("expected", 0.0), ("tight", 1e-12)])
def test_the_curvature_far_on_the_wrong_side_is_one(how, v):
    """It is ``1 - 1/z**2 + 6/z**4 - ...``, and a difference of equal numbers by its formula."""
    z = -(10.0 ** np.arange(1, 13))
    found = getattr(Probit(), how)(np.ones(12), z, v).h
    np.testing.assert_allclose(found, 1.0 - z**-2.0, atol=6e-4, rtol=0)
    # up to 1e4 the formula loses 1e8 * 2e-16, beyond it 1e-8 is left out
    np.testing.assert_allclose(found[3:], 1.0, atol=3e-8, rtol=0)


@pytest.mark.filterwarnings("ignore")
def test_vectors_of_rows_with_very_unequal_weights():
    """Weights so unequal put rows of little weight 1e8 and more on the wrong side."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((30, 3))
    y = (X[:, 0] + rng.standard_normal(30) > 0).astype(int)
    model = RVC().fit(X, y, sample_weight=10.0 ** rng.uniform(-14, 14, 30))
    assert np.isfinite(model.predict_proba(X)).all()
