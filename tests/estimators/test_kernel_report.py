"""Tables and exports of the kernel machine."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.feature_selection import RFE

from bayesvm import BayesianSVC
from bayesvm.estimators.predictions import moments
from bayesvm.inference import Gibbs
from bayesvm.kernels import RBF

X, Y = make_moons(60, noise=0.3, random_state=0)


def test_summary_holds_what_was_learned():
    model = BayesianSVC(random_state=0).fit(X, Y)
    table = model.summary()
    assert list(table.index) == ["weight", "length_scale"]
    assert table.loc["weight", "mean"] == pytest.approx(model.kernel_.weight)
    assert table.loc["length_scale", "mean"] == pytest.approx(model.kernel_.kernel.length_scale)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_summary_and_export_of_parameters_that_were_drawn():
    scheme = Gibbs(draws=60, burn_in=30, chains=2)
    model = BayesianSVC(tune="sample", inference=scheme, random_state=0).fit(X, Y)
    table, drawn = model.summary(level=0.8), np.exp(model.kernel_draws_)
    np.testing.assert_allclose(table["mean"], drawn.mean(axis=(0, 1)))
    np.testing.assert_allclose(table["upper"], np.quantile(drawn, 0.9, axis=(0, 1)))
    assert np.all(table["ess"] > 1)
    group = model.to_arviz()["posterior"]
    assert group["kernel"].shape == (2, 60, 2)
    np.testing.assert_allclose(group["kernel"].sel(parameter="weight").values, drawn[..., 0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_draws_keep_their_chains_and_classes_their_names():
    bunch = load_iris()
    names = bunch.target_names[bunch.target]
    scheme = Gibbs(draws=20, burn_in=10, chains=2)
    model = BayesianSVC(tune=False, n_inducing=8, inference=scheme, random_state=0)
    f = model.fit(bunch.data, names).to_arviz()["posterior"]["f"]
    assert f.dims == ("chain", "draw", "class", "point")
    assert f.shape == (2, 20, 3, 8)
    assert list(f["class"].values) == list(model.classes_)


# ----- importances


def sloped(n=80, seed=0):
    """Three columns, of which the first matters most and the last not at all."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, 3)) * [1.0, 100.0, 0.01]
    return A, (2.0 * A[:, 0] + 0.01 * A[:, 1] + 0.3 * rng.logistic(size=n) > 0).astype(int)


@pytest.mark.parametrize(
    "given",
    [
        {"kernel": RBF(2.0), "tune": False},
        {"kernel": "linear", "tune": False},
        {"kernel": RBF(2.0), "tune": False, "n_inducing": 20},
        {"kernel": RBF(2.0), "tune": False, "inference": "em"},
    ],
    ids=str,
)
def test_importances_are_slopes_in_units_of_columns(given):
    A, y = sloped()
    model = BayesianSVC(random_state=0, **given).fit(A, y)
    each = model.feature_importances_
    assert each.sum() == pytest.approx(1.0)
    assert each[0] > each[1] > 0.0
    assert each[2] < 0.5 * each[0]
    points, unit = model.inducing_points_, A.std(axis=0)
    slopes = []
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-4 * unit[j]
        ends = [moments(model, points + s * step)[0][:, 0] for s in (1, -1)]
        slopes.append(np.sqrt(np.mean(np.square((ends[0] - ends[1]) / 2e-4))))
    want = np.array(slopes) * points.std(axis=0) / unit
    np.testing.assert_allclose(each, want / want.sum(), rtol=1e-3)


def test_importances_are_of_columns_of_the_table_and_selectors_read_them():
    pd = pytest.importorskip("pandas")
    A, y = sloped(120)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": A[:, 0], "text": rng.choice(list("uvw"), 120)})
    frame["few"] = rng.integers(0, 4, 120)
    model = BayesianSVC(random_state=0).fit(frame, y)
    assert model.feature_importances_.argmax() == 0
    assert model.feature_importances_.shape == (3,)
    kept = RFE(BayesianSVC(kernel=RBF(2.0), tune=False), n_features_to_select=1).fit(A, y)
    assert kept.support_.tolist() == [True, False, False]


def test_kernels_without_columns_have_no_importances():
    A, y = sloped()
    K = A @ A.T
    for given, rows in (({"kernel": "precomputed"}, K), ({"kernel": lambda a, b: a @ b.T}, A)):
        model = BayesianSVC(tune=False, **given).fit(rows, y)
        assert not hasattr(model, "feature_importances_")
        with pytest.raises(AttributeError, match="average_effects"):
            model.feature_importances_  # noqa: B018
