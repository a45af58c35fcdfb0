"""What the answers of any classifier have to do with one another."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal


def check_answers(model, X, **given):
    """Probabilities, labels, f, intervals and draws at rows agree; returns the probabilities."""
    n, k = len(X), len(model.classes_)
    p, f = model.predict_proba(X, **given), model.decision_function(X, **given)
    assert p.shape == (n, k)
    assert np.all(p >= 0)
    assert_allclose(p.sum(axis=1), 1.0)
    labels = model.predict(X, **given)
    assert_array_equal(labels, model.classes_[p.argmax(axis=1)])
    best = (f > 0).astype(int) if k == 2 else f.argmax(axis=1)
    assert_array_equal(labels, model.classes_[best])
    if not model.machines_[0].posterior.has_spread:
        return p
    low, high = model.predict_interval(X, 0.9, **given)
    inner = model.predict_interval(X, 0.5, **given)
    assert np.all((low >= 0) & (low <= p) & (p <= high) & (high <= 1))
    assert np.all((low <= inner[0]) & (inner[1] <= high))
    mean, sd = model.decision_function(X, return_std=True, **given)
    assert mean.shape == sd.shape == f.shape
    assert np.all(np.isfinite(mean) & (sd > 0))
    draws = model.sample_posterior(4, X, random_state=0, **given)
    assert draws.shape == ((4, n) if k == 2 else (4, k, n))
    return p
