"""What ArviZ is given: draws that belong together, the likelihood of rows, predictive labels."""

import importlib.util

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_expit
from sklearn.datasets import make_moons

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC, make_pipeline
from bayesvm.inference import Gibbs
from bayesvm.inspection import arviz
from bayesvm.priors import Bridge, Lasso
from bayesvm.terms import Columns, Groups, Intercept, Process

pytest.importorskip("arviz_base")

QUICK = Gibbs(draws=100, burn_in=50, chains=2)
RNG = np.random.default_rng(0)
GROUPS = np.repeat(np.arange(20), 8)
X = RNG.standard_normal((160, 2)) * [1, 10]
F = X[:, 0] + 1.5 * RNG.standard_normal(20)[GROUPS]
Y = np.where(F + RNG.logistic(size=160) > 0, "b", "a")
SIGN = np.where(Y == "b", 1.0, -1.0)


def values(tree, group):
    """Variables of a group by name."""
    return {name: tree[group][name].values for name in tree[group].data_vars}


def names(tree):
    """Groups of a data tree or of InferenceData."""
    return set(tree.children if hasattr(tree, "children") else tree.groups())


@pytest.mark.parametrize("inference", ["vb", QUICK], ids=["vb", "gibbs"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_likelihood_is_that_of_the_draws_beside_it(inference):
    model = MixedSVC(inference=inference, prior="ridge", random=[0], random_state=0)
    tree = model.fit(X, Y, groups=GROUPS).to_arviz(X, Y, groups=GROUPS, n=50)
    post = values(tree, "posterior")
    f = post["intercept"][..., None] + post["coef"] @ X.T
    u = post["effect_group"][:, :, GROUPS]  # (chains, draws, rows, effects)
    f = f + u[..., 0] + u[..., 1] * X[:, 0]
    assert_allclose(post["f_obs"], f, atol=1e-8)
    assert_allclose(values(tree, "log_likelihood")["y"], log_expit(SIGN * f), atol=1e-8)
    assert_array_equal(values(tree, "observed_data")["y"], Y == "b")
    if inference is QUICK:  # variances are those of variance_components_
        components = model.variance_components_["mean"].to_numpy()
        rho = post["correlation_group"][..., 0, 1].mean()
        ours = [*post["variance_group"].mean(axis=(0, 1)), rho]
        assert_allclose(np.sort(ours), np.sort(components), rtol=1e-9)


def test_draws_are_of_the_posterior_under_the_model():
    wide = BayesianLinearSVC(likelihood="hinge", prior="ridge", random_state=0).fit(X, Y)
    model = BayesianLinearSVC(likelihood="hinge", prior="ridge", covariance="model", random_state=0)
    narrow = model.fit(X, Y)
    trees = [values(each.to_arviz(X, Y), "posterior") for each in (wide, narrow)]
    assert_allclose(trees[0]["coef"], trees[1]["coef"])
    assert_allclose(trees[0]["coef"][0].std(axis=0), narrow.coef_std_[0], rtol=0.1)
    assert "log_likelihood" not in names(wide.to_arviz(X, Y))  # of a hinge: none of labels


def test_terms_add_up():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(g=GROUPS)
    terms = [
        ("level", Intercept()),
        ("line", Columns(["b"])),
        ("curve", Process(["a"], n_inducing=8)),
        ("who", Groups("g")),
    ]
    model = AdditiveSVC(terms, random_state=0).fit(frame, Y)
    tree = model.to_arviz(frame, Y, n=500)
    post = values(tree, "posterior")
    f = post["level"] + post["line"] * X[:, 1] + post["smooth_curve"]
    f = f + post["effect_g"][:, :, GROUPS, 0]
    assert_allclose(post["f_obs"], f, atol=1e-8)
    mean, sd = (part["curve"] for part in model.partial(frame, return_std=True))
    assert np.abs(post["smooth_curve"][0].mean(axis=0) - mean).max() < 5 * sd.max() / np.sqrt(500)
    assert "variance_g" in post


def test_prior_draws_have_the_scale_that_was_learned():
    model = BayesianLinearSVC(prior="ridge", random_state=0).fit(X, Y)
    tree = model.to_arviz(X, n=4000)
    prior = values(tree, "prior")
    variance = model.machines_[0].ascent.state.priors[1].variance
    sd = np.sqrt(variance) / X.std(axis=0)
    assert_allclose(prior["coef"][0].std(axis=0), sd, rtol=4 / np.sqrt(8000))
    y = values(tree, "prior_predictive")["y"]
    assert abs(y.mean() - 0.5) < 4 * 0.5 / np.sqrt(4000)  # rows of a draw are dependent
    kernel = BayesianSVC(tune=False, random_state=0).fit(X, Y)
    f = arviz.f_at(kernel, X[:30], [arviz.from_prior(kernel.machines_[0], 4000, RNG)[None]], RNG)
    level = 1.0 / kernel.machines_[0].model.terms[0].prior.precision
    scaled = (X - X.mean(0)) / X.std(0)
    assert_allclose(f.var(axis=1).ravel(), level + kernel.kernel_.diag(scaled[:30]), rtol=0.15)
    lasso = BayesianLinearSVC(prior="lasso", random_state=0).fit(X, Y)
    assert "prior" not in names(lasso.to_arviz(X))


def test_variances_of_groups_are_those_of_the_report():
    model = MixedSVC(random="slope", random_state=0).fit(X[:, :1], Y, groups=GROUPS)
    report = model.variance_components_.filter(like="var(", axis=0)
    found = values(model.to_arviz(n=1000), "posterior")["variance_group"][0]
    assert_allclose(found.mean(axis=0), report["mean"], rtol=0.1)
    ends = np.quantile(found, [0.05, 0.95], axis=0)
    assert_allclose(ends.T, report[["lower", "upper"]], rtol=0.15)
    assert np.abs(np.corrcoef(found[:, 0], np.arange(1000))[0, 1]) < 0.1  # in no order


@pytest.mark.parametrize("prior", [Lasso(), Bridge(0.5), "laplace_zero"], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scales_that_were_drawn_have_their_name(prior):
    scheme = Gibbs(draws=50, burn_in=20, chains=2)
    model = BayesianLinearSVC(prior, scheme, random_state=0).fit(X, Y)
    posterior = values(model.to_arviz(), "posterior")
    assert "coef_variance" not in posterior  # of a Laplace slab: twice the squared scale
    if prior != "laplace_zero":
        alpha = 1.0 if isinstance(prior, Lasso) else 0.5
        rate = model.machines_[0].draws.hyper["coef"][..., 0]
        assert_allclose(posterior["coef_scale"] ** -alpha, rate, rtol=1e-10)
    assert "coef_scale" in posterior


def test_refusals_and_pipelines():
    model = make_pipeline(BayesianLinearSVC()).fit(X, Y)
    with pytest.raises(ValueError, match="needs the rows X"):
        model[-1].to_arviz(y=Y)
    with pytest.raises(ValueError, match="labels c that are not among the classes"):
        model.to_arviz(X, ["c"] * 160)
    with pytest.raises(ValueError, match="one label for each of the 160 rows"):
        model.to_arviz(X, Y[:3])
    assert model.to_arviz(X, Y)["posterior"]["f_obs"].shape == (1, 1000, 160)
    # without groups f would have an effect of a new group in every draw, which loo cannot use
    mixed = MixedSVC().fit(X, Y, groups=GROUPS)
    with pytest.raises(ValueError, match="give groups= as in fit"):
        mixed.to_arviz(X, Y)
    assert "f_obs" in mixed.to_arviz(X)["posterior"]
    pytest.importorskip("formulae")
    data = pd.DataFrame({"x": X[:, 0], "g": GROUPS, "y": Y})
    mixed = MixedSVC.from_formula("y ~ x + (1 | g)", data)
    assert mixed.to_arviz(data, data.y)["log_likelihood"]["y"].shape[-1] == 160
    with pytest.raises(ValueError, match="a data frame X with the columns of groups"):
        mixed.to_arviz(data[["x"]], data.y)


# ----- ArviZ itself

HAS_CLASSIC = importlib.util.find_spec("arviz") is not None and arviz._classic()


def test_what_the_installed_arviz_reads(monkeypatch):
    model = BayesianLinearSVC(random_state=0).fit(X, Y)
    monkeypatch.setattr(arviz, "_classic", lambda: False)
    tree = model.to_arviz(X, Y)
    assert type(tree).__name__ == "DataTree"
    if HAS_CLASSIC:
        monkeypatch.setattr(arviz, "_classic", lambda: True)
        data = model.to_arviz(X, Y)
        assert type(data).__name__ == "InferenceData"
        assert names(data) == names(tree)


MODELS = {
    "linear": BayesianLinearSVC(prior="ridge", probability="normalised", random_state=0),
    "mixed": MixedSVC(inference=Gibbs(200, 50, chains=2), probability="normalised", random_state=0),
    "additive": AdditiveSVC(
        [("level", Intercept()), ("a", Process([0])), ("b", Process([1]))],
        probability="normalised",
        random_state=0,
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_loo_agrees_with_moments_left_out(name):
    """Pareto-smoothed importance sampling, and closed forms: two ways to the same number."""
    az = pytest.importorskip("arviz")
    groups = {"groups": GROUPS} if name == "mixed" else {}
    Z, y = make_moons(160, noise=0.4, random_state=0) if name == "additive" else (X, Y)
    model = MODELS[name].fit(Z, y, **groups)
    ours = np.log(model.fit_.left_out.proba)
    theirs = az.loo(model.to_arviz(Z, y, n=4000, **groups), pointwise=True)
    within = model.to_arviz(Z, y, **groups)["log_likelihood"]["y"].values.mean(axis=(0, 1)).sum()
    total = theirs.elpd_loo if hasattr(theirs, "elpd_loo") else theirs.elpd
    assert abs(ours.sum() - total) < 0.2 * (within - total)
    each = theirs.loo_i if hasattr(theirs, "loo_i") else theirs.elpd_i
    assert_allclose(ours, np.ravel(each), atol=0.1)
