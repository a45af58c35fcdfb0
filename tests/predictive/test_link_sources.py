"""The link from f to probabilities is that of the data, wherever the rows are."""

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC
from bayesvm.data import from_iterable, from_memmap

N = 3000
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = X @ [1.0, -1.0, 0.5] + RNG.standard_normal(N) > 1.5  # a sixth of the rows


def from_file(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    return from_memmap(tmp_path / "rows.npy", Y), None


def from_chunks(tmp_path):
    parts = np.split(np.arange(N), [700, 1500])
    return from_iterable(lambda: ((X[k], Y[k]) for k in parts)), None


def from_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(700, 3)), da.from_array(Y, chunks=700)


@pytest.mark.parametrize("make", [from_file, from_chunks, from_dask])
def test_probabilities_do_not_depend_on_where_the_rows_are(make, tmp_path):
    want = BayesianLinearSVC(random_state=0).fit(X, Y).predict_proba(X)
    have = BayesianLinearSVC(random_state=0).fit(*make(tmp_path)).predict_proba(X)
    np.testing.assert_allclose(have, want, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_probabilities_agree_at_a_hundred_thousand_rows(tmp_path):
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100_000, 5))
    y = X @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.standard_normal(len(X)) > 0
    np.save(tmp_path / "rows.npy", X)
    want = BayesianLinearSVC(random_state=0).fit(X, y).predict_proba(X)
    for rows in (
        (from_memmap(tmp_path / "rows.npy", y),),
        (da.from_array(X, chunks=(30_000, 5)), da.from_array(y, chunks=30_000)),
    ):
        have = BayesianLinearSVC(random_state=0).fit(*rows).predict_proba(X)
        np.testing.assert_allclose(have, want, atol=1e-6, rtol=0)
