"""Length scales by the evidence of a process, and as one number."""

import numpy as np
from numpy.testing import assert_allclose

from bayesvm.kernels import RBF, Function, Linear
from bayesvm.vectors.widths import by_evidence, can_stretch, stretched


def test_stretching_multiplies_every_length_scale():
    kernel = 2.0 * RBF((1.0, 3.0)) + RBF(0.5)
    wide = stretched(kernel, 1.0)
    assert_allclose(np.exp(wide.theta - kernel.theta), [1, 2, 2, 2])
    assert stretched(kernel, 0.0) is kernel
    assert can_stretch(Linear(1.0))
    assert not can_stretch(Function(lambda a, b: a @ b.T))
    assert not can_stretch(None)


def test_the_evidence_finds_the_column_that_matters():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.where(np.sin(2 * X[:, 1]) > 0, 1.0, -1.0)
    rows = np.arange(150)
    found = by_evidence(RBF(1.7), True, X, rows, [y], np.ones(150), 3, np.random.default_rng(1))
    scale = np.array(found.kernel.length_scale)
    assert scale.argmin() == 1
    assert scale[1] < 0.2 * np.delete(scale, 1).min()
    shared = by_evidence(RBF(1.7), False, X, rows, [y], np.ones(150), 3, np.random.default_rng(1))
    assert isinstance(shared.kernel.length_scale, float)
    assert found.weight > 0
