"""What estimators share: callbacks, random streams, notes, draws, warnings."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bayesvm import (
    PCVC,
    RVC,
    AdditiveSVC,
    BayesianLinearSVC,
    BayesianSVC,
    FactorSVC,
    MixedSVC,
)
from bayesvm.data import Serial
from bayesvm.inference import EM, SVI, VB, Gibbs
from bayesvm.likelihoods import Likelihood
from bayesvm.sparse_kernel import Power
from bayesvm.terms import Columns, Intercept

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = (X[:, 0] - X[:, 1] + RNG.standard_normal(60) > 0).astype(int)
CHAINS = Gibbs(draws=30, burn_in=10, chains=2)
SCHEMES = {"vb": VB(tol=0.0), "em": EM(tol=0.0), "gibbs": CHAINS, "svi": SVI()}
FITC = {"approximation": "fitc", "n_inducing": 10, "tune": False}
STOPPED = {
    **{f"linear {name}": BayesianLinearSVC(inference=s) for name, s in SCHEMES.items()},
    "linear tight": BayesianLinearSVC(inference=VB(bound="tight"), tol=0.0),
    "linear, gates": BayesianLinearSVC("laplace_zero", VB(tol=0.0)),
    **{f"mixed {name}": MixedSVC(inference=s) for name, s in SCHEMES.items()},
    **{f"kernel {n}": BayesianSVC(inference=s, tune=False, tol=0.0) for n, s in SCHEMES.items()},
    "kernel fitc": BayesianSVC(tol=0.0, **FITC),
    "kernel fitc gibbs": BayesianSVC(inference=CHAINS, **FITC),
    "additive": AdditiveSVC([("level", Intercept()), ("x", Columns())], inference=VB(tol=0.0)),
    "factor linear": FactorSVC(1, "linear", VB(tol=0.0)),
    "factor linear gibbs": FactorSVC(1, "linear", CHAINS),
    "factor kernel": FactorSVC(1, "kernel", VB(tol=1e-12)),
    "factor kernel gibbs": FactorSVC(1, "kernel", CHAINS),
    "rvc": RVC(tune=False),
    "rvc em": RVC(solver="em", tune=False),
    "pcvc": PCVC(weight_prior=Power(n_starts=0), n_folds=2, tune=False),
}
TUNED = {
    "kernel": BayesianSVC(),
    "kernel, points": BayesianSVC(n_inducing=20),
    "kernel, cv": BayesianSVC(tune="cv"),
    "kernel, bound": BayesianSVC(tune="bound"),
    "kernel, drawn": BayesianSVC(tune="sample", inference=CHAINS, n_inducing=5),
    "pcvc": PCVC(),
    "pcvc, power": PCVC(weight_prior=Power(n_starts=1), n_folds=2),
    "rvc": RVC(),
    "rvc, em": RVC(solver="em"),
}


STOPPED |= {f"tuned {name}": model for name, model in TUNED.items()}


@pytest.mark.parametrize("name", STOPPED)
def test_who_stops_a_fit_is_not_warned_that_it_stopped(name):
    asked = []

    def stop(progress):
        asked.append(progress)
        return True

    model = clone(STOPPED[name]).set_params(callbacks=[stop], random_state=0)
    more = {"groups": np.arange(60) % 6} if isinstance(model, MixedSVC) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, Y, **more)
    assert len(asked) == 1  # no callback is called after one has ended the fit
    if name.startswith("tuned"):
        assert asked[0].stage == ("amplitude" if name == "tuned kernel, cv" else "kernel")
    assert not model.converged_
    assert np.all(np.isfinite(model.predict_proba(X, **more)))


@pytest.mark.parametrize("name", ["kernel", "pcvc", "pcvc, power", "rvc", "rvc, em"])
def test_callbacks_hear_of_every_step_and_change_nothing(name):
    told = []
    model = clone(TUNED[name]).set_params(callbacks=[told.append], random_state=0).fit(X, Y)
    assert sum(p.stage == "kernel" for p in told) > 5
    assert all(p.iteration <= p.total and np.isfinite(p.bound) for p in told)
    quiet = clone(TUNED[name]).set_params(random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), quiet.predict_proba(X), rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_summary_says_where_the_width_is_the_models():
    X = np.random.default_rng(0).standard_normal((90, 2))
    noise = np.random.default_rng(1).logistic(size=90)
    y, three = X[:, 0] + 0.5 * X[:, 1] + 0.3 * noise > 0, np.arange(90) % 3
    first = BayesianLinearSVC().partial_fit(X[:45], y[:45], classes=[False, True])
    fits = {
        "selection prior": BayesianLinearSVC("spike_slab", likelihood="hinge").fit(X, y),
        "multiclass": BayesianLinearSVC().fit(X, three),
        "partial_fit": first.partial_fit(X[45:], y[45:]),
    }
    for why, model in fits.items():
        assert why in model.summary().attrs["note"]
    plain = BayesianLinearSVC("spike_slab", likelihood="hinge", covariance="model").fit(X, y)
    complete = BayesianLinearSVC("fixed", missing="model").fit(X, y)
    for model in (BayesianLinearSVC("fixed").fit(X, y), complete):
        assert "note" not in model.summary().attrs
    assert "those of the posterior" not in plain.summary().attrs["note"]
    for model in (plain, fits["selection prior"]):
        assert "inclusion probabilities are overconfident" in model.summary().attrs["note"]
    few = Gibbs(draws=20, burn_in=10, chains=1)
    drawn = BayesianLinearSVC("spike_slab", few, covariance="model", random_state=0).fit(X, y)
    assert "note" not in drawn.summary().attrs


def test_a_summary_says_where_means_were_filled_in():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((90, 2)), columns=["dose", "age"])
    y, g = frame.dose + 0.5 * frame.age > 0, np.arange(90) % 9
    complete = BayesianLinearSVC().fit(frame, y)
    assert "replaced by column means" not in complete.summary().attrs.get("note", "")
    frame.loc[::5, "dose"] = np.nan
    for model in (BayesianLinearSVC().fit(frame, y), MixedSVC().fit(frame, y, groups=g)):
        note = model.summary().attrs["note"]
        assert "replaced by column means" in note
        assert "'dose'" in note
        assert "missing='model', inference='gibbs'" in note
    additive = AdditiveSVC([("x", Columns(["dose", "age"]))]).fit(frame, y)
    assert "Missing(Columns(...))" in additive.summary().attrs["note"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_summary_says_that_filled_cells_are_not_fully_counted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    y, g = X[:, 0] + 0.5 * X[:, 1] > 0, np.arange(90) % 9
    X[::5, 1] = np.nan
    vb = BayesianLinearSVC(missing="model").fit(X, y)
    mixed = MixedSVC(missing="model").fit(X, y, groups=g)
    for model in (vb, mixed):
        assert "uncertainty of the cells" in model.summary().attrs["note"]
    assert "Variances of the effects" in mixed.summary().attrs["note"]  # beside it
    few = Gibbs(draws=20, burn_in=10, chains=1)
    drawn = BayesianLinearSVC(missing="model", inference=few, random_state=0).fit(X, y)
    assert "cells" not in drawn.summary().attrs.get("note", "")


def test_the_warning_about_chains_names_the_coefficient_that_agrees_least():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"dose": rng.standard_normal(60), "age": rng.standard_normal(60)})
    frame["copy"] = frame["dose"] + 1e-3 * rng.standard_normal(60)
    y, few = frame["dose"] + rng.logistic(size=60) > 0, Gibbs(draws=6, burn_in=1, chains=2)
    with pytest.warns(
        ConvergenceWarning, match=r"R-hat up to [\d.]+, of ('dose'|'age'|'copy'|the intercept)"
    ):
        BayesianLinearSVC(inference=few, random_state=0).fit(frame, y)
    with pytest.warns(ConvergenceWarning, match="too few draws"):
        BayesianLinearSVC(inference=Gibbs(1, 5, 1), random_state=0).fit(frame, y)
    with pytest.warns(ConvergenceWarning, match=r"R-hat up to [\d.]+, of "):
        MixedSVC(inference=few, random_state=0).fit(frame, y, groups=np.arange(60) % 10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_chains_that_had_ended_before_the_fit_was_ended_are_kept():
    model = BayesianLinearSVC(inference=Gibbs(draws=20, burn_in=5, chains=3, leaps=0))
    whole, calls = model.set_params(random_state=0).fit(X, Y), []

    def stop(progress):  # in the third chain
        calls.append(progress)
        return len(calls) == 2 * 25 + 8

    early = clone(model).set_params(callbacks=[stop]).fit(X, Y)
    assert len(calls) == 58
    draws, all_draws = (m.machines_[0].draws.theta for m in (early, whole))
    np.testing.assert_allclose(draws, all_draws[:2], rtol=1e-6, atol=1e-9)


# ----- fields of schemes and engines: honoured, or refused by name


@pytest.mark.parametrize("kind", [AdditiveSVC, BayesianSVC, FactorSVC, MixedSVC])
def test_a_diagonal_covariance_is_refused_where_it_would_be_ignored(kind):
    with pytest.raises(ValueError, match=f"{kind.__name__} needs 'full' or 'auto'"):
        kind(inference=VB(covariance="diagonal")).fit(X, Y)


def test_a_likelihood_without_a_tight_bound_is_refused_by_name():
    class Custom(Likelihood):
        augmented = log_prob = proba = None  # not reached

    with pytest.raises(ValueError, match=r"Custom has no tight\(\)"):
        BayesianSVC(likelihood=Custom()).fit(X, Y)


def test_a_checkpoint_belongs_to_a_precision(tmp_path):
    file = tmp_path / "c.npz"
    model = BayesianLinearSVC(engine=Serial(dtype="float32"), checkpoint=file, random_state=0)
    model.fit(X, Y)
    with pytest.raises(ValueError, match="checkpoint"):
        model.set_params(engine=Serial(dtype="float64")).fit(X, Y)


# ----- a fit that predicts nothing says so


def told(model, *args, **kwargs):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "MixedSVC has effects of groups")
        model.fit(*args, **kwargs)
    return [str(w.message) for w in found]


@pytest.mark.parametrize(
    "model",
    [BayesianLinearSVC(), BayesianSVC(random_state=0), MixedSVC(), BayesianSVC("precomputed")],
    ids=["linear", "kernel", "mixed", "kernel values"],
)
def test_good_fits_are_silent_and_shuffled_labels_are_not(model):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 4)) * np.arange(1, 5)
    f = rows @ rng.standard_normal((4, 2)) / 2.5
    y = (f + rng.gumbel(size=f.shape)).argmax(axis=1)
    rows = rows @ rows.T if model.get_params().get("kernel") == "precomputed" else rows
    assert told(model, rows, y) == []
    shuffled = np.random.default_rng(5).permutation(y)
    (text,) = told(model, rows, shuffled)
    assert "no better than the shares" in text
    few = rows[:90, :90]
    assert told(model, few, shuffled[:90]) == []  # too few to tell
