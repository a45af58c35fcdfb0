"""The tables of factor models on small sets."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch
from tests.experiments.running import said

from papers import factor_models, find, henao_genes, henao_usps


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


def test_tasks():
    every = pd.DataFrame(find("henao-usps").tasks(False, 5))
    few = every[every.rows == 150]
    count = few[few.factors == 10].groupby("method").seed.nunique().to_dict()
    assert count == dict.fromkeys(factor_models.METHODS, 10) | dict.fromkeys(
        factor_models.SKEWED, 3
    )
    long = ["LDFM", "LDFM+N", "LDFM, skewed", "NDFM"]
    assert sorted(few[few.sweeps == 600].method.unique()) == long
    every = every[every.rows != 150]
    count = every[(every.factors == 10) & ~every.ard].groupby("method").size()
    assert all(count[m] == (2 if m in factor_models.SWEEPS else 1) for m in factor_models.METHODS)
    assert set(every.factors) == {10, 20, 30}
    genes = pd.DataFrame(find("henao-genes").tasks(False, 0))
    count = genes.groupby(["method", "set"]).size()
    for method in henao_genes.METHODS:
        assert count[method].to_dict() == {
            name: henao_genes.folds_of(method, name) for name in henao_genes.SETS
        }
    assert henao_genes.folds_of("FM+L", "subramanian") == 10
    assert henao_genes.folds_of("NDFM", "gravier") > henao_genes.folds_of("LDFM+N", "gravier")
    assert len(find("henao-genes").tasks(True, 0)) == 24


@pytest.mark.parametrize("module", [henao_usps, henao_genes], ids=["usps", "genes"])
def test_report_and_figure(module, monkeypatch):
    monkeypatch.setattr(henao_usps, "load_usps", small)
    monkeypatch.setattr(henao_genes, "load_gene_expression", small)
    tasks = module.tasks(True, 0)[:8]
    rng = np.random.default_rng(0)
    rows = [t | dict(zip(factor_models.MEASURED, rng.random(4), strict=True)) for t in tasks]
    rows[0] |= module.solve(tasks[0])
    frame = pd.DataFrame(rows)
    text = said(module, frame)
    assert all(m in text for m in factor_models.METHODS)
    assert isinstance(module.draw(frame), plt.Figure)
