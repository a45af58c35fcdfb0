"""The tables of factor models on small sets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch
from tests.experiments.running import said

from papers import factor_models, henao_genes, henao_usps


def small(*args, **kwargs):
    rng = np.random.default_rng(0)
    W = rng.standard_normal((80, 10))
    X = W @ rng.laplace(size=(10, 256)) + rng.standard_normal((80, 256))
    y = np.where(W[:, 0] > 0, 1, -1)
    return Bunch(data=X[:50], target=y[:50], data_test=X[50:], target_test=y[50:])


@pytest.mark.parametrize(
    "method", [*factor_models.METHODS, *factor_models.SKEWED, "VLDFM, fixed", "VNDFM, one scale"]
)
def test_every_method_is_built_and_judged(method):
    bunch = small()
    sweeps = factor_models.sweeps_of(method, quick=True)
    model = factor_models.build(method, 3, 0, select=True, sweeps=sweeps)
    got = factor_models.judge(model, bunch.data, bunch.target, bunch.data_test, bunch.target_test)
    assert set(got) == set(factor_models.MEASURED)
    assert 0 <= got["error"] <= 0.6
    assert got["cpu"] > 0


@pytest.mark.parametrize("module", [henao_usps, henao_genes], ids=["usps", "genes"])
def test_report(module, monkeypatch):
    monkeypatch.setattr(henao_usps, "load_usps", small)
    monkeypatch.setattr(henao_genes, "load_gene_expression", small)
    tasks = module.tasks(True, 0)[:8]
    rng = np.random.default_rng(0)
    rows = [t | dict(zip(factor_models.MEASURED, rng.random(4), strict=True)) for t in tasks]
    rows[0] |= module.solve(tasks[0])
    frame = pd.DataFrame(rows)
    text = said(module, frame)
    assert all(m in text for m in factor_models.METHODS)
