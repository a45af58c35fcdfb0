"""FactorSVC: a classifier and a transformer."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from tests.answers import check_answers

from bayesvm import FactorSVC
from bayesvm.estimators.factor import relation
from bayesvm.estimators.predictions import moments
from bayesvm.factor_models.fitted import match
from bayesvm.factor_models.observed_data import Sheet
from bayesvm.inference import EM, VB, Gibbs
from bayesvm.kernels import RBF, Scaled

SHORT = {"linear": Gibbs(draws=60, burn_in=20, chains=2), "kernel": Gibbs(20, 10, 2)}
KINDS = [(c, i) for c in ("linear", "kernel") for i in ("vb", "gibbs")]


def simulate(n=80, d=30, seed=0, curved=False):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, 2))
    A = rng.laplace(size=(d, 2)) * np.array([1.0, 0.7])
    X = 5.0 + (W @ A.T + 0.5 * rng.standard_normal((n, d))) * rng.uniform(0.5, 20.0, d)
    y = np.where(np.abs(W[:, 0]) > 0.7 if curved else W[:, 0] > 0, "yes", "no")
    return X, y


def fit(classifier="kernel", inference="vb", X=None, y=None, n_factors=2, **options):
    X, y = simulate() if X is None else (X, y)
    inference = SHORT[classifier] if inference == "gibbs" else inference
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return FactorSVC(n_factors, classifier, inference, random_state=0, **options).fit(X, y)


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def kind(request):
    """Classifier, inference and a fit to 60 rows of 80."""
    X, y = simulate()
    return *request.param, fit(*request.param, X[:60], y[:60])


def test_all_kinds_learn_and_answer(kind):
    (_, inference, model), (X, y) = kind, simulate()
    assert model.score(X[60:], y[60:]) > 0.8
    check_answers(model, X)
    scores, spread = model.transform(X, return_std=True)
    assert scores.shape == spread.shape == (80, 2)
    assert np.all(spread > 0)
    # less than the prior's, in the mean over rows: that of one row, from few draws, has an error
    assert np.all(np.square(spread).mean(axis=0) < 1)
    back = model.inverse_transform(scores)
    left = np.square(X - back).sum() / np.square(X - X.mean(axis=0)).sum()
    assert left < 0.4
    assert model.loadings_.shape == model.loadings_std_.shape == (30, 2)
    A = model.loadings_ / model.scale_[:, None]  # the order and signs of factors
    assert np.all(np.diff(np.square(A).sum(axis=0)) <= 0)
    assert np.all(A[np.abs(A).argmax(axis=0), [0, 1]] > 0)
    assert model.noise_precision_.shape == (30,)
    assert model.factor_relevance_.sum() == pytest.approx(1.0)
    if inference == "vb":  # the factor that matters, as simulated
        W = np.random.default_rng(0).standard_normal((80, 2))[:, 0]
        best = np.abs(np.corrcoef(scores.T, W)[:2, 2]).argmax()
        assert model.factor_relevance_.argmax() == best
    path = model.log_likelihood_path_ if inference == "gibbs" else model.elbo_path_
    assert len(path) > 1


def test_a_kernel_sees_what_a_line_cannot():
    X, y = simulate(200, curved=True)
    errors = {
        name: 1 - fit(name, X=X[:120], y=y[:120]).score(X[120:], y[120:])
        for name in ("linear", "kernel")
    }
    assert errors["kernel"] < 0.25 < errors["linear"]


def test_missing_cells(kind):
    (classifier, inference, complete), (X, y) = kind, simulate()
    whole = complete.score(X[60:], y[60:])
    holes = X.copy()
    holes[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    model = fit(classifier, inference, holes[:60], y[:60])
    assert model.score(holes[60:], y[60:]) > whole - 0.15
    few = np.where(np.arange(30) < 2, X[:5], np.nan)  # two cells a row
    assert np.all(model.transform(few, return_std=True)[1] > model.transform(X[:5], True)[1])
    nothing = np.full((1, 30), np.nan)
    np.testing.assert_allclose(model.transform(nothing), 0.0, atol=1e-12)


@pytest.mark.parametrize("classifier", ["linear", "kernel"])
def test_order_and_units_of_columns_do_not_matter(classifier):
    X, y = simulate(n=30, d=6, seed=1)
    rng = np.random.default_rng(1)
    order, unit = rng.permutation(6), np.exp(2.0 * rng.standard_normal(6))
    other = (rng.choice([-1.0, 1.0], 6) * unit * X + rng.standard_normal(6))[:, order]
    one, two = (fit(classifier, X=x, y=y).predict_proba(x) for x in (X, other))
    # climbs that rounding parts end within the tolerance of the fit
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-3)
    a, b = fit(), fit(X=100.0 * simulate()[0] - 7.0, y=simulate()[1])
    np.testing.assert_allclose(100.0 * a.loadings_, b.loadings_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(a.noise_precision_, 1e4 * b.noise_precision_, rtol=1e-6)


@pytest.mark.parametrize(("classifier", "width"), [("linear", 6), ("kernel", 2)])
def test_more_than_two_classes(classifier, width):
    X, y = load_iris(return_X_y=True)
    model = fit(classifier, X=X, y=y)
    # two factors for each class against the rest: the link on standardised moments gives .893
    # where the one before gave .907; in five folds both have .887
    assert model.score(X, y) > 0.88
    check_answers(model, X)
    assert model.transform(X).shape == (150, width)
    assert model.inverse_transform(model.transform(X)).shape == X.shape
    assert len(model.get_feature_names_out()) == width
    assert model.sample_posterior(7).shape == (7, 4, width)
    if classifier == "linear":
        heavy = fit(classifier, X=X, y=y, class_weight={0: 1.0, 1: 1.0, 2: 20.0})
        assert heavy.predict_proba(X)[:, 2].mean() > model.predict_proba(X)[:, 2].mean()
        frame = model.summary()
        assert list(frame.loc["intercept"].reset_index()["name"]) == ["0", "1", "2"]
        assert frame.loc["loading"].shape[0] == 24


def test_number_of_factors_is_found():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((100, 3))
    X = W @ rng.laplace(size=(3, 40)) + rng.standard_normal((100, 40))
    assert fit(n_factors="auto", X=X, y=W[:, 0] > 0, standardize=False).n_factors_ in (3, 4)


@pytest.mark.parametrize("classifier", ["linear", "kernel"])
def test_two_steps_are_the_factor_model_and_a_machine(classifier):
    model = fit(classifier, joint=False)
    other = fit(classifier, joint=False, X=simulate()[0], y=np.tile(["no", "yes"], 40))
    np.testing.assert_allclose(model.loadings_, other.loadings_)  # labels do not matter


def test_chains_in_parallel_draw_the_same():
    X, _ = simulate()
    model, other = (fit("kernel", "gibbs", n_jobs=n) for n in (1, 2))
    one, two = (fitted.predict_proba(X) for fitted in (model, other))
    np.testing.assert_allclose(one, two, atol=1e-9)
    # a row's answer does not depend on its company, but for the rounding of products
    np.testing.assert_allclose(one[3:4], model.predict_proba(X[3:4]), rtol=1e-10)


def test_a_chain_goes_on_from_its_checkpoint(tmp_path):
    X, y = simulate()
    whole = fit("kernel", "gibbs").predict_proba(X)
    path, seen = tmp_path / "chains.npz", []
    stopped = fit(
        "kernel", "gibbs", checkpoint=path, callbacks=[lambda p: seen.append(p) or len(seen) == 25]
    )
    assert np.abs(stopped.predict_proba(X) - whole).max() > 1e-6
    again = fit("kernel", "gibbs", checkpoint=path)
    np.testing.assert_allclose(again.predict_proba(X), whole, atol=1e-9)
    with pytest.raises(ValueError, match="belongs to another fit"):
        fit("kernel", "gibbs", checkpoint=path, n_factors=1)
    with pytest.raises(ValueError, match="Leave checkpoint out"):
        FactorSVC(2, checkpoint=path).fit(X, y)


def test_sparsity_is_learned():
    X, y = simulate()
    for classifier, inference in (("linear", "vb"), ("linear", "gibbs"), ("kernel", "gibbs")):
        assert fit(classifier, inference, nu=None).score(X, y) > 0.85


def test_a_length_scale_for_each_factor():
    model = fit(kernel=Scaled(4.0, RBF((1.5, 1.5))))
    held = model.machines_[0].fitted.state.kernel.kernel.length_scale
    assert held[model._parts[0].slopes().argmax()] == min(held)


def test_draws_and_summary_say_what_is_reported(kind):
    (classifier, inference, model), X = kind, simulate()[0]
    A = model.sample_posterior(1000, random_state=1)
    assert A.shape == (1000, 30, 2)
    # Gibbs: resampled from the draws that means and deviations are of
    gap = (A.mean(axis=0) - model.loadings_) / model.loadings_std_
    assert np.abs(gap).max() < 5 / np.sqrt(1000)
    np.testing.assert_allclose(A.std(axis=0), model.loadings_std_, rtol=5 * np.sqrt(1 / 1000))
    m, v = moments(model, X[:6])
    f = model.sample_posterior(500, X[:6], random_state=1)
    assert f.shape == (500, 6)
    # a chain's own moments are of some forty draws
    slack = 5 / np.sqrt(500 if inference == "vb" else 40)
    assert np.abs((f.mean(axis=0) - m[:, 0]) / np.sqrt(v[:, 0])).max() < slack
    pytest.importorskip("pandas")
    frame = model.summary(0.8)
    part = frame.loc["loading"]
    assert part.shape[0] == 60
    top = part.loc["factorsvc0"]
    column = int(top.index[0][1:])
    assert top["mean"].iloc[0] == model.loadings_[column, 0]
    assert column == np.abs(model.loadings_[:, 0] / model.scale_).argmax()
    assert top["lower"].iloc[0] == model.loadings_interval(0.8)[0][column, 0]
    assert ("r_hat" in frame) == (inference == "gibbs")
    if classifier == "linear":
        coef = frame.loc["coef"]["mean"].to_numpy()
        assert np.square(coef).argmax() == model.factor_relevance_.argmax()
        # f at the mean row, whose scores are zero
        level = moments(model, model.mean_[None])[0][0, 0]
        assert frame.loc["intercept"]["mean"].iloc[0] == pytest.approx(level, abs=0.3)


def test_export_to_arviz(kind):
    pytest.importorskip("arviz_base")
    classifier, inference, model = kind
    group = model.to_arviz(n=50)["posterior"]
    chains, draws = (1, 50) if inference == "vb" else (2, {"linear": 60, "kernel": 20}[classifier])
    assert group["loadings"].shape == (chains, draws, 30, 2)
    assert list(group["factor"].values) == ["factorsvc0", "factorsvc1"]
    assert group["noise_precision"].shape == (chains, draws, 30)
    assert ("coef" in group) == (classifier == "linear")
    assert ("kernel_parameters" in group) == (classifier == "kernel" and inference == "gibbs")
    # factors of every draw stand in the same place, with the same sign
    mean = model.loadings_ / model.scale_[:, None] ** 2
    C = np.einsum("cdfk,fl->cdkl", group["loadings"].values, mean)
    assert np.all(np.einsum("cdkk->cdk", C) > 0)
    crossed = np.abs(C[..., 0, 1]) + np.abs(C[..., 1, 0])
    assert np.all(np.trace(C, axis1=2, axis2=3) >= crossed - 1e-9)


def test_a_warning_points_at_the_line_that_fits():
    X, y = simulate()
    for classifier in ("linear", "kernel"):
        with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations") as caught:
            FactorSVC(2, classifier, max_iter=1, tol=0.0).fit(X, y)
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_factors": 0}, "'n_factors' parameter"),
        ({"n_factors": 2.5}, "'n_factors' parameter"),
        ({"classifier": "cubic"}, "'classifier' parameter"),
        ({"inference": EM()}, "'vb' or 'gibbs'"),
        ({"inference": "gibbs", "joint": False}, "joint=False"),
        ({"nu": None}, "cannot be learned with scores at a point"),
        ({"nu": -1.0}, "nu must be a positive number"),
        ({"columns": 0}, "'columns' parameter"),
        ({"columns": "some"}, "'columns' parameter"),
        ({"inference": VB(bound="tight")}, "fitted with the augmented bound"),
        ({"coef_prior": "x", "classifier": "linear"}, "coef_prior='x' is not known"),
        # of the other classifier
        ({"classifier": "linear", "kernel": "nonsense"}, "kernel"),
        ({"classifier": "linear", "kernel": 3}, "kernel"),
        ({"classifier": "kernel", "coef_prior": object()}, "coef_prior must be"),
        ({"kernel": RBF([1.0] * 10)}, "length scales"),
    ],
)
def test_errors_say_what_to_do(options, message):
    X, y = simulate()
    with pytest.raises(ValueError, match=message):
        FactorSVC(**({"n_factors": 2} | options)).fit(X, y)


def few_of_many(n, d=600, seed=0):
    """Ten columns carry the label; three factors of all columns do not."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1, 1], n)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + rng.standard_normal((n, d))
    X[:, :10] += 1.5 * y[:, None]
    return X, y


@pytest.mark.parametrize("classifier", ["linear", pytest.param("kernel", marks=pytest.mark.slow)])
def test_columns_of_the_labels_are_found_among_many(classifier):
    """With all columns errors are near a half: factors are those of the other variation."""
    X, y = few_of_many(260, 400)
    some, new = slice(60), slice(60, None)
    options = {"n_factors": 3, "random_state": 0, "classifier": classifier}
    plain = FactorSVC(columns="all", **options).fit(X[some], y[some])
    model = FactorSVC(**options).fit(X[some], y[some])
    assert plain.score(X[new], y[new]) < 0.7
    assert model.score(X[new], y[new]) > 0.85
    assert np.isin(np.arange(10), model.columns_).sum() >= 8
    losses = model.columns_loss_
    assert set(losses) == {0, 10, 30, 100, 400}
    assert losses[len(model.columns_)] < 0.5 * losses[400]
    # calibrated on rows left out: not surer than it is right
    p = model.predict_proba(X[new])
    loss = -np.mean(np.log(p[np.arange(200), (y[new] > 0).astype(int)]))
    assert loss < 1.3 * losses[len(model.columns_)] + 0.1
    rest = np.setdiff1d(np.arange(400), model.columns_)
    assert not model.loadings_[rest].any()
    assert np.isnan(model.noise_precision_[rest]).all()
    assert np.isfinite(model.noise_precision_[model.columns_]).all()
    back = model.inverse_transform(model.transform(X[new]))
    np.testing.assert_allclose(back[:, rest], np.tile(model.mean_[rest], (200, 1)))


def test_all_columns_are_kept_where_few_are_no_better():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((60, 2))
    X = W @ rng.standard_normal((2, 90)) + 2.0 * rng.standard_normal((60, 90))
    y = W[:, 0] + 0.3 * rng.standard_normal(60) > 0
    model, plain = fit("linear", X=X, y=y), fit("linear", X=X, y=y, columns="all")
    assert len(model.columns_) == 90
    assert set(model.columns_loss_) == {0, 10, 30, 90}
    assert plain.columns_loss_ == {}
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert fit().columns_loss_ == {}  # more rows than columns


def test_a_number_of_columns_can_be_given():
    X, y = few_of_many(40, 200)
    for inference in ("vb", "gibbs"):
        model = fit("linear", inference, X, y, columns=15)
        assert len(model.columns_) == 15
        assert list(model.columns_loss_) == [0, 15]
    flat = relation(Sheet.of(X - X.mean(axis=0)), (y > 0).astype(int), np.ones(40), 2)
    share = [np.corrcoef(x, y)[0, 1] ** 2 for x in X.T]  # for two classes that is R^2
    np.testing.assert_allclose(flat, share, rtol=1e-10)


def test_columns_that_say_nothing_are_refused():
    X, y = simulate()
    gone = X.copy()
    gone[:, 4] = np.nan
    with pytest.raises(ValueError, match="all columns have the same value in every row"):
        FactorSVC(2).fit(np.ones_like(X), y)
    with pytest.raises(ValueError, match="without an observed cell cannot load on a factor: x4"):
        FactorSVC(2).fit(gone, y)
    with pytest.raises(ValueError, match="at least two classes"):
        FactorSVC(2).fit(X, np.ones(80))
    with pytest.raises(ValueError, match="whole numbers"):
        FactorSVC(2, "linear", "gibbs").fit(X, y, sample_weight=np.full(80, 0.5))
    with pytest.raises(ValueError, match="scores have 2 columns"):
        fit().inverse_transform(np.ones((1, 3)))


@pytest.mark.slow
@pytest.mark.parametrize(("classifier", "sets"), [("linear", 16), ("kernel", 8)])
def test_intervals_cover_at_their_rate(classifier, sets):
    """Tables and labels from the prior itself, rank three; loadings, scores and f, nine in ten.

    The truth is put in the order of the reported factors, as users would.  How far factors are
    turned is common to a table, so that rates of tables vary, by up to 0.17 over twenty others.
    """
    rates = []
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        A = np.sqrt(rng.exponential(size=(30, 3))) * rng.standard_normal((30, 3))
        W = rng.standard_normal((160, 3))
        X = W @ A.T + rng.standard_normal((160, 30))
        f = rng.standard_normal() + W @ rng.standard_normal(3)
        if classifier == "kernel":
            C = Scaled(4.0, RBF(np.sqrt(3.0)))(W) + 1.0
            f = rng.multivariate_normal(np.zeros(160), C)
        y = rng.random(160) < 1 / (1 + np.exp(-f))
        chains = {"linear": Gibbs(600, 300, 2), "kernel": Gibbs(200, 100, 1)}[classifier]
        model = FactorSVC(
            3, classifier, chains, "logistic", tune=False, intercept_scale=1.0, standardize=False,
            probability="normalised", random_state=0,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[:100], y[:100])
        at, sign = match(A, model.loadings_)
        scores, sd = model.transform(X[100:], return_std=True)
        inside = np.abs(W[100:, at] * sign - scores) < 1.645 * sd
        ends = [
            np.quantile(draws, [0.05, 0.95], axis=0)
            for draws in (model.sample_posterior(1000), model.sample_posterior(400, X[100:]))
        ]
        truths = (A[:, at] * sign, f[100:])
        both = [np.mean((e[0] < t) & (t < e[1])) for e, t in zip(ends, truths, strict=True)]
        rates.append([*both, inside.mean()])
    assert np.all(np.abs(np.mean(rates, axis=0) - 0.9) < 3 * 0.17 / np.sqrt(sets))


def test_empty_cells_are_filled_as_well_as_by_the_factor_model_alone():
    """Scores at a point shrink; rows with few cells must still be drawn to their mean."""
    rng = np.random.default_rng(0)
    W, A = rng.standard_normal((300, 3)), rng.laplace(size=(20, 3))
    table = W @ A.T + rng.standard_normal((300, 20))
    labels, hidden = W[:, 0] > 0, rng.random((150, 20)) < 0.8
    holes = np.where(hidden, np.nan, table[150:])
    holes[0] = np.nan
    error = []
    for joint in (True, False):
        model = FactorSVC(3, joint=joint, random_state=0).fit(table[:150], labels[:150])
        mean, sd = model.transform(holes, return_std=True)
        assert not mean[0].any()
        np.testing.assert_allclose(sd[0], 1.0, rtol=0.15)
        error.append(np.sqrt(np.mean((model.inverse_transform(mean) - table[150:])[hidden] ** 2)))
    assert error[0] < 1.05 * error[1]


def test_the_choice_of_columns_reports_progress_and_can_be_stopped():
    rng = np.random.default_rng(0)
    X, seen = rng.standard_normal((40, 60)), []
    y = (X[:, :3].sum(axis=1) > 0).astype(int)

    def stop(progress):
        seen.append(progress)
        return len(seen) == 3

    model = FactorSVC(2, callbacks=[stop], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert [p.stage for p in seen[:3]] == ["number of columns"] * 3
    assert [p.iteration for p in seen[:3]] == [1, 2, 3]
    assert model.columns_loss_ == {}


# ----- equal data, and small tables


def table(seed, n=25, d=6):
    """Two columns matter, one repeats them, three are noise."""
    return make_classification(n, d, n_informative=2, n_redundant=1, random_state=seed)


@pytest.mark.parametrize("classifier", ["linear", "kernel"])
@pytest.mark.parametrize("n_factors", [10, "auto"])
def test_factors_are_no_more_than_the_rank(n_factors, classifier):
    rng = np.random.default_rng(0)
    kinds = rng.integers(4, size=40)
    single = rng.standard_normal((40, 2))
    X = np.hstack([np.eye(4)[kinds], single, single, 3.0 * single + 1.0])
    y = (kinds < 2) ^ (rng.random(40) < 0.1)
    model = FactorSVC(n_factors, classifier).fit(X, y)
    most = 3 + 2  # indicators sum to one; two columns, each three times
    assert model.n_factors_ == most if n_factors == 10 else model.n_factors_ <= most
    assert model.loadings_.shape == (10, model.n_factors_)
    assert model.score(X, y) > 0.8


def test_the_default_fits_tables_of_few_columns():
    X, y = load_iris(return_X_y=True)
    model = FactorSVC().fit(X[::3], y[::3])
    assert model.n_factors_ == 4
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("options", [{}, {"classifier": "linear"}, {"joint": False}])
def test_tables_of_hardly_any_rows(options, holes):
    rng = np.random.default_rng(1)
    for n in (2, 3, 6):
        X = rng.standard_normal((n, 12))
        X[0, 0] = np.nan if holes and n > 2 else X[0, 0]
        y = np.arange(n) == 0
        model = FactorSVC(**options).fit(X, y)
        assert model.n_factors_ <= n
        assert np.all(np.isfinite(model.predict_proba(X)))


@pytest.mark.parametrize("classifier", ["linear", "kernel"])
def test_constant_columns_change_nothing(classifier):
    X, y = table(0)
    wide = np.insert(X, [0, 3], [7.0, 0.0], axis=1)
    one, two = FactorSVC(2, classifier).fit(X, y), FactorSVC(2, classifier).fit(wide, y)
    np.testing.assert_allclose(two.predict_proba(wide), one.predict_proba(X), atol=1e-9)
    assert not two.loadings_[[0, 4]].any()
    np.testing.assert_array_equal(two.inverse_transform(two.transform(wide))[:, 0], 7.0)
