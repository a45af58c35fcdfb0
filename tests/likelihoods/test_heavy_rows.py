"""Draws for rows of large weight."""

import numpy as np
import pytest

from bayesvm.likelihoods import Logistic, Probit


def counted(draw, most):
    """A function that draws, and refuses to do so more than ``most`` times."""
    calls = []

    def draw_and_count(at, rng):
        calls.append(at)
        assert len(calls) <= most, "a draw for each copy of a row"
        return draw(at, rng)

    return draw_and_count


@pytest.mark.parametrize("f", [-6.0, 0.0, 0.2, 3.0])
@pytest.mark.parametrize("kind", [Logistic(), Probit()], ids=["logistic", "probit"])
def test_draws_of_a_heavy_row_have_the_moments_of_as_many_rows(kind, f, monkeypatch):
    """A row of weight 10,000 against ten thousand rows, each drawn exactly."""
    from bayesvm.likelihoods import logistic, probit

    n, rows, count = 100_000, 4000, 10_000
    single = kind.draw(np.ones(n), np.full(n, f), np.ones(n), np.random.default_rng(0))
    for module, name in ((logistic, "polya_gamma"), (probit, "truncated_normal_positive")):
        monkeypatch.setattr(module, name, counted(getattr(module, name), 1000))
    rng = np.random.default_rng(1)
    heavy = kind.draw(np.ones(rows), np.full(rows, f), np.full(rows, float(count)), rng)
    for one, many in ((single.w, heavy.w), (single.g, heavy.g)):
        # mean: 5 standard errors of both averages; the spread of a sum is sqrt(count) times
        # that of one, and a variance of 4,000 nearly normal numbers is known to 2.2 %: 5 of those
        error = np.sqrt(one.var() / one.size + many.var() / count**2 / rows)
        assert abs(many.mean() / count - one.mean()) <= 5 * error + 1e-12
        np.testing.assert_allclose(many.var() / count, one.var(), rtol=0.12, atol=1e-12)
