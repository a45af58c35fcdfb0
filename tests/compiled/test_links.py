"""Sums of links by compiled loops equal those of NumPy, at ordinary and at extreme parameters."""

import numpy as np
import pytest

from bayesvm import compiled
from bayesvm.engines import Threads
from bayesvm.machines import calibration, skewed
from bayesvm.machines.calibration import LinkRows, Scale, fit_link, link_sums, targets
from bayesvm.machines.skewed import fit_skewed, loss_of

pytest.importorskip("numba")
RNG = np.random.default_rng(8)
N = 10 * calibration.SOME + 100  # the last are fewer
M, V = 2.0 * RNG.standard_normal(N), RNG.gamma(2.0, 0.3, N)
C = RNG.choice([0.5, 1.0, 20.0], N)
Y = np.where(RNG.random(N) < 1.0 / (1.0 + np.exp(-np.sinh(0.8 * M) - 0.5)), 1.0, -1.0)


def rows(fast, engine=calibration.ONE_THREAD):
    return LinkRows.of(targets(Y, C), M, V, C, Scale.of(M, C), engine, fast)


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b).max())


def test_logarithm():
    loops = compiled.loops("links")
    for x in (1.0, 1.0 + 1e-9, 1.5, 2.0, np.e, 1e3, 1.7e150):
        assert loops.logarithm.py_func(x) == pytest.approx(np.log(x), rel=1e-15, abs=1e-24)


@pytest.mark.parametrize(
    "x",
    [
        [0.3, -0.2, -1.0, 0.0, 0.0],
        [1.2, 0.5, -0.7, 0.4, -0.3],
        [4.2, -18.0, 5.2, -0.8, -1.8],
        [-3.0, 6.0, -6.0, 3.0, 1.8],
        [9.0, 0.0, -12.0, -3.0, 1.8],
    ],
)
@pytest.mark.parametrize("hessian", [True, False])
def test_sums_of_the_skewed_link(x, hessian):
    with np.errstate(over="ignore"):
        found, expected = (
            loss_of(np.array(x), rows(fast), np.zeros(5), np.ones(5), hessian)
            for fast in (True, False)
        )
    close(found, expected)


def test_what_is_no_number_stays_so():
    x, some = np.array([0.3, -0.2, 0.0, 0.1, 0.1]), rows(True)
    assert np.isnan(loss_of(np.array([np.nan, 0.0, 0.0, 0.0, 0.0]), some, x, x)[0])
    wide = some._replace(v=np.full(N, 1e308))
    x[2] = 8.0  # kappa v overflows
    with np.errstate(over="ignore"):
        close(loss_of(x, wide, x, x), loss_of(x, wide._replace(fast=False), x, x))


@pytest.mark.parametrize("x", [[0.3, -0.2, -1.0], [4.2, -18.0, 5.2], [-3.0, 6.0, -6.0]])
def test_sums_of_the_plain_link(x):
    found, expected = (link_sums(np.array(x), rows(fast), np.zeros(3)) for fast in (True, False))
    close(found, expected)


@pytest.mark.parametrize("fit", [fit_skewed, fit_link])
def test_links_are_those_of_numpy(fit, monkeypatch):
    """Also from rows that cannot be written to, or in float32, which are not compiled for."""
    expected = fit(Y, M, V, C)
    fixed = C.astype(np.float32)
    fixed.flags.writeable = False
    monkeypatch.setattr(skewed, "scored", None)  # of NumPy
    monkeypatch.setattr(calibration, "_summed", None)
    own = getattr(compiled.loops("links"), "skewed_sums" if fit is fit_skewed else "plain_sums")
    for found in (
        fit(Y, M, V, fixed, fast=True),
        fit(Y, M, V, C, fast=True, engine=Threads(3)),
    ):
        np.testing.assert_allclose(found.proba(M, V), expected.proba(M, V), atol=1e-9)
    assert len(own.signatures) == 1


def test_without_numba(monkeypatch):
    monkeypatch.setattr(calibration, "loops", lambda name: None)
    monkeypatch.setattr(skewed, "loops", lambda name: None)
    some = rows(True)
    assert not some.fast
    assert np.isfinite(loss_of(np.zeros(5), some, np.zeros(5), np.ones(5))[0])
