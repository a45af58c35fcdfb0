"""Sparse kernel machines: signs and order of columns, and a table that needs many vectors."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_moons

from bayesvm import PCVC, RVC
from bayesvm.kernels import RBF

MOONS, SIDE = make_moons(120, noise=0.25, random_state=0)


@pytest.mark.parametrize("model", [RVC(random_state=0), PCVC()], ids=["rvc", "pcvc"])
@pytest.mark.parametrize("data", ["moons", "three classes", "mirrored"])
def test_signs_and_order_of_columns_do_not_matter(model, data):
    X, y = MOONS, SIDE
    if data == "three classes":
        rng = np.random.default_rng(0)
        X = np.round(rng.standard_normal((50, 3)), 1)  # with ties
        y = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])
    if data == "mirrored":
        X = np.linspace(-1.0, 1.0, 41)[:, None] * [1.0, 0.5]
        X[:, 1] **= 2
        y = (X[:, 0] > 0).astype(int)
    p = X.shape[1]
    T = X + 0.1 * np.random.default_rng(1).standard_normal(X.shape)
    first = clone(model).fit(X, y).predict_proba(T)
    for change in (lambda A: -A, lambda A: A[:, ::-1] * (-1.0) ** np.arange(p)):
        other = clone(model).fit(change(X), y).predict_proba(change(T))
        assert_allclose(other, first, atol=1e-6)  # solvers stop at tolerances, from other rounding


def ends_of_tic_tac_toe():
    """All 958 boards at which a game may end, one-hot, and whether the first player won."""
    sides = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    boards = np.array(list(itertools.product([1, -1, 0], repeat=9)))
    lines = boards[:, sides].sum(axis=2)
    first, second = (lines == 3).any(axis=1), (lines == -3).any(axis=1)
    lead = boards.sum(axis=1)
    full = (boards != 0).all(axis=1)
    over = (first & ~second & (lead == 1)) | (second & ~first & (lead == 0))
    over |= full & ~first & ~second & (lead == 1)
    # the last stone made every line that there is: two lines of a winner must share a cell
    boards, first = boards[over], first[over]
    X = np.concatenate([boards == s for s in (1, -1, 0)], axis=1).astype(float)
    return X, first.astype(int)


def test_rvc_learns_tic_tac_toe_from_half_of_the_boards():
    """From no vectors at all the evidence leads to a local maximum, with 30 % errors."""
    X, y = ends_of_tic_tac_toe()
    assert X.shape == (958, 27)
    assert y.sum() == 626
    half = np.random.default_rng(0).permutation(958) < 479
    model = RVC(RBF(40.0), tune=False).fit(X[half], y[half])
    assert np.mean(model.predict(X[~half]) != y[~half]) < 0.05  # a linear rule has 2 %
