"""Latent entries of several terms."""

from dataclasses import replace

import numpy as np

from bayesvm.core.types import Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Intercept, Missing, Unstructured
from bayesvm.inference import VB
from bayesvm.inference.latent import start_latents, update_latents
from bayesvm.inference.model import Model
from bayesvm.inference.problem import Problem
from bayesvm.likelihoods import Hinge
from bayesvm.priors import Fixed
from bayesvm.terms import Picked


def test_every_row_counts_once_for_each_of_two_incomplete_terms():
    """Rows incomplete in one term and complete in another were counted twice for the latter."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    y = np.where(X[:, 0] + rng.standard_normal(40) > 0, 1.0, -1.0)
    X[:8, 0] = X[5:15, 2] = np.nan
    none, one = np.zeros(2), np.ones(2)
    designs = [
        Missing(Picked(none, one, where=np.array(where)), none, one, Unstructured())
        for where in ([0, 1], [2, 3])
    ]
    terms = [Term("ab"[k], design, Fixed(1.0)) for k, design in enumerate(designs)]
    model = Model((Term("level", Intercept(), Fixed(0.1)), *terms), Hinge())
    problem = Problem(model, Blocks(X, 13), Serial(), y, np.ones(40))
    state = VB().fit(problem, np.random.default_rng(0)).state
    again = update_latents(replace(problem, latents=state.latents), state.coef, state.coef)
    for latents in (start_latents(problem), state.latents, again):
        for k in (1, 2):
            assert latents[k].sums.n == 40
            sums = latents[k].sums
            known = X[:, 2 * k - 1]  # complete
            np.testing.assert_allclose(sums.total[1], known.sum(), rtol=1e-12)
            np.testing.assert_allclose(sums.square[1, 1], known @ known, rtol=1e-12)
