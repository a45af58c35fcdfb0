"""Tables and exports of the kernel machine."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

from bayesvm import BayesianSVC
from bayesvm.inference import Gibbs
from bayesvm.machines.posterior import NoPosterior

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


def test_exported_functions_are_those_of_the_posterior():
    model = BayesianSVC(tune=False, n_inducing=10, random_state=0).fit(X, Y)
    f = model.to_arviz()["posterior"]["f"]
    assert f.shape == (1, 1000, 10)
    mean, sd = model.machines_[0].moments(model.inducing_points_)
    z = (f.values[0].mean(axis=0) - mean) / np.sqrt(sd / 1000)
    assert np.abs(z).max() < 4.5
    np.testing.assert_allclose(f.values[0].var(axis=0), sd, rtol=0.25)


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


def test_a_point_estimate_has_no_draws():
    model = BayesianSVC(tune=False, inference="em").fit(X, Y)
    with pytest.raises(NoPosterior, match="point estimate"):
        model.to_arviz()
