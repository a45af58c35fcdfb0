"""Wide tables: more columns than rows, priors that select among them, missing cells in them."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_selection import SelectFromModel

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.inference import VB, Gibbs
from bayesvm.linalg.covariances import DiagonalCovariance
from bayesvm.priors import Fixed, LaplaceZero, Ridge, SpikeSlab


def table(n, p, seed=0, informative=3, effect=1.5):
    """Labels in turn, and columns of noise of which the first few are shifted by the label."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    X = rng.standard_normal((n, p))
    X[:, :informative] += effect * y[:, None]
    return X, y


@pytest.mark.parametrize(
    ("prior", "bound"), [(Ridge(), "augmented"), (Fixed(0.3), "augmented"), (Fixed(0.3), "tight")]
)
def test_a_wide_fit_is_that_of_all_columns_at_once(prior, bound):
    X, y = table(24, 270)
    wide = BayesianLinearSVC(prior, VB(tol=1e-11, bound=bound), covariance="model").fit(X, y)
    # more rows than columns, but the same 24: the model is solved with a matrix of the columns
    copies = np.arange(288) % 24
    rows = BayesianLinearSVC(prior, VB(tol=1e-11, bound=bound), covariance="model")
    rows.fit(X[copies], y[copies], sample_weight=np.full(288, 1 / 12))
    # fits end within 10 sqrt(tol) = 3e-5 standard deviations of where the next step would go
    assert np.max(np.abs(wide.coef_ - rows.coef_) / rows.coef_std_) < 1e-3
    np.testing.assert_allclose(wide.coef_std_, rows.coef_std_, rtol=1e-3)
    if isinstance(prior, Ridge):  # directions that no row informs are integrated out exactly
        assert wide.elbo_ > rows.elbo_
    else:
        np.testing.assert_allclose(wide.elbo_, rows.elbo_, rtol=1e-7)


@pytest.mark.parametrize("kind", [BayesianLinearSVC, MixedSVC])
def test_coef_cov_with_more_columns_than_rows(kind):
    X, y = table(20, 300)
    model = kind().fit(X, y)
    assert model.coef_cov_.shape == (300, 300)
    np.testing.assert_allclose(np.sqrt(np.diag(model.coef_cov_)), model.coef_std_[0], rtol=1e-8)
    new = table(7, 300, seed=1)[0]
    X0 = BayesianLinearSVC(fit_intercept=False, standardize=False).fit(X, y)
    std = X0.decision_function(new, return_std=True)[1]
    np.testing.assert_allclose(std**2, np.einsum("ij,jk,ik->i", new, X0.coef_cov_, new), rtol=1e-8)


# a row tells the logistic likelihood log 2 nats at most, and the choice of a column costs log 5001
@pytest.mark.parametrize(
    ("prior", "likelihood", "n"), [("spike_slab", "logistic", 30), ("laplace_zero", "hinge", 16)]
)
def test_selection_by_vb_on_more_than_5000_columns(prior, likelihood, n):
    X, y = table(n, 5001, informative=2, effect=4.0)
    model = BayesianLinearSVC(prior, likelihood=likelihood, random_state=0).fit(X, y)
    assert model.converged_
    chosen = np.flatnonzero(model.inclusion_proba_ > 0.5)
    assert chosen.size
    assert set(chosen) <= {0, 1}
    assert model.inclusion_proba_.sum() < 10


def test_the_default_chance_of_inclusion_follows_rows_and_columns():
    def default(n, p, **options):
        X, y = table(n, p)
        scheme = Gibbs(draws=2, burn_in=0, chains=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = BayesianLinearSVC("spike_slab", scheme, random_state=0, **options).fit(X, y)
        term = model.machines_[0].model.terms[-1]
        odds = term.prior.odds(term.prior.init(p), p)
        return np.sum(1 / (1 + np.exp(-odds)))

    # half of the columns, or n labels over the log2(p) bits that it takes to name a column
    assert default(60, 8) == pytest.approx(4.0)
    assert default(50, 1024) == pytest.approx(50 / 10)
    assert default(50, 4096) == pytest.approx(50 / 12)


@pytest.mark.parametrize("kind", [SpikeSlab, LaplaceZero])
@pytest.mark.parametrize("scheme", [VB(), Gibbs(draws=60, burn_in=20, chains=2)], ids=["vb", "mc"])
def test_a_chance_of_inclusion_for_each_column(kind, scheme):
    X, y = table(50, 6, informative=2, effect=0.4)
    X = np.hstack([X, X[:, :2] + 1e-3 * np.random.default_rng(1).standard_normal((50, 2))])
    # columns 6 and 7 copy 0 and 1: which of a pair is in is for the prior to say
    chance = np.array([0.9, 0.01, 0.2, 0.2, 0.2, 0.2, 0.01, 0.9])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianLinearSVC(kind(chance), scheme, random_state=0).fit(X, y)
        even = BayesianLinearSVC(kind(0.3), scheme, random_state=0).fit(X, y)
    got = model.inclusion_proba_
    assert got[0] > got[6]
    assert got[7] > got[1]
    assert np.max(np.abs(got - even.inclusion_proba_)) > 0.1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpikeSlab([0.5, 1.5]), "for each column, so it must be above 0"),
        (lambda: SpikeSlab([0.5, 0.5], expected_size=1), "got both"),
        (lambda: SpikeSlab([0.5, 0.5], learn_inclusion=True), "one probability for all"),
        (
            lambda: BayesianLinearSVC(SpikeSlab([0.5, 0.5])).fit(*table(20, 3)),
            "has 2 entries but there are 3 columns",
        ),
    ],
)
def test_chances_of_inclusion_that_cannot_be_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def in_units(seed=0):
    """Columns in units of 1e-6 to 1e6; the informative ones are in the large units."""
    X, y = table(80, 8, seed, informative=2)
    return X * np.array([1e6, 1e5, 1, 1, 1e-3, 1e-6, 1e-6, 1e-6]), y


@pytest.mark.parametrize("prior", ["laplace_zero", "spike_slab", "ridge"])
def test_feature_importances_do_not_depend_on_units(prior):
    X, y = in_units()
    selector = SelectFromModel(
        BayesianLinearSVC(prior, random_state=0),
        max_features=2,
        threshold=-np.inf,
        importance_getter="feature_importances_",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(np.flatnonzero(selector.fit(X, y).get_support())) == {0, 1}


def holes(X, share, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


@pytest.mark.parametrize("share", [0.0, 0.05], ids=["complete", "with holes"])
def test_missing_cells_of_a_wide_table_need_no_matrix_of_the_columns(share):
    X, y = table(6, 1000)
    X = holes(X, share) if share else X
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = BayesianLinearSVC(missing="model", max_iter=2).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # one matrix of 1000 columns has 8 MB; r^2 = 25 numbers a column for five factors are 0.2 MB,
    # and there are some ten such arrays beside
    assert peak < 4e6
    new = holes(table(5, 1000, seed=2)[0], 0.1)
    assert np.isfinite(model.predict_proba(new)).all()
    mean, std = model.impute(new)
    assert ((std > 0) == np.isnan(new)).all()
    assert np.isfinite(mean).all()


def test_wide_cells_are_filled_in_from_the_factors_of_their_row():
    rng = np.random.default_rng(0)
    z, loadings = rng.standard_normal((60, 2)), rng.standard_normal((2, 400))
    full = z @ loadings + 0.3 * rng.standard_normal((60, 400))
    y = np.where(z[:, 0] > 0, 1, -1)
    X = holes(full, 0.05)
    model = BayesianLinearSVC(missing="model").fit(X, y)
    row, column, mean, std = model.imputed_
    left = full[row, column] - mean
    # the noise has 0.3 of a spread of about 1.4; estimates from 60 rows add a tenth of its square
    assert np.sqrt(np.mean(left**2)) < 0.4
    # honest: about as large as claimed
    assert 0.7 < np.sqrt(np.mean((left / std) ** 2)) < 1.4
    assert model.score(X, y) > 0.9


# ----- sparse rows of so many columns that coefficients are independent in the posterior


def counts(n=1500, p=1200):
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(n, p, density=0.02, random_state=rng))
    X.data = np.ceil(4.0 * X.data)
    f = X[:, :20] @ rng.standard_normal(20)
    return X, np.where(f + rng.logistic(size=n) > 0.5, 1, 0)


def test_coefficients_of_very_many_sparse_columns_are_independent():
    """The fit ends within 1e-7 of its bound and 0.01 standard deviations of the mean."""
    X, y = counts()
    fitted, closer = BayesianLinearSVC().fit(X, y), BayesianLinearSVC(tol=1e-11).fit(X, y)
    assert isinstance(fitted.machines_[0].posterior.coef.cov, DiagonalCovariance)
    assert fitted.converged_
    assert fitted.elbo_ == pytest.approx(closer.elbo_, rel=1e-7)
    a, b = (model.machines_[0].posterior for model in (fitted, closer))
    assert np.all(np.abs(a.mean - b.mean) < 0.01 * np.sqrt(b.variance()))
    p, q = fitted.predict_proba(X)[:, 1], closer.predict_proba(X)[:, 1]
    np.testing.assert_allclose(p, q, atol=1e-3)
    X.data[17] = 1e25  # a row may be very far
    assert np.all(np.isfinite(BayesianLinearSVC().fit(X, y).predict_proba(X)))
