"""Experiments of Polson & Scott beyond the chains: starts, relatives, averages, sweeps."""

import json

import numpy as np
import pytest
from scipy.integrate import quad
from tests.experiments.running import run, said, spam_like
from tests.problems import Z

from bayesvm import BayesianLinearSVC
from bayesvm.inference import EM
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Lasso
from papers import polson_averages as averages
from papers import polson_likelihoods as relatives
from papers import polson_sampler as sampler
from papers import polson_spam, spam
from papers import polson_starts as starts


def test_starts_end_near_the_linear_programme(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6)) * np.arange(1, 7)
    y = np.where(X[:, 0] - X[:, 5] / 6 + rng.logistic(size=120) > 0, 1, -1)
    monkeypatch.setattr(spam, "data", lambda: (X, y))
    monkeypatch.setattr(spam, "NAMES", [f"x{k}" for k in range(6)])
    frame = run(starts, starts.tasks(True, 0), tmp_path)
    text = said(starts, frame)
    for _, _, part in starts.cases(frame):
        exact, library = part["objective"][:2]
        assert library == pytest.approx(exact, rel=1e-7)
        assert (part["objective"] > exact - 1e-6).all()  # no run is below the minimum
        assert (part["objective"] < 1.01 * exact).all()
    assert "EM, printed, start 1" in text
    assert "ν = 1.353, scales as printed" in text
    learned = frame[frame["nu"] == starts.LEARNED]
    whole = learned[learned["method"] == starts.WHOLE].iloc[0]
    learned = learned[learned["method"] != starts.WHOLE]
    assert len(learned) == 4
    assert "On the margin: " in text
    for _, _, part in starts.cases(frame):  # a vertex: as many rows fix it as are free
        exact = part[part["method"] == "LP"].iloc[0]
        free = np.count_nonzero(np.abs(spam.read(exact["coef"])) > starts.ZERO)
        assert free <= exact["rank"] <= exact["margin"]
    coef = spam.read(whole["coef"])
    size = np.abs(coef / np.append(1.0, X.std(axis=0)) ** 2).sum()  # |beta| / sd, beta sd recorded
    assert whole["scale"] == pytest.approx((1.0 + size) / 7, rel=1e-3)
    assert "ECME, intercept penalised, exact" in text
    assert "ECME, ν learned, scales as meant" in text
    scheme = EM(learn="mode")
    model = BayesianLinearSVC(Lasso(), scheme, "hinge", intercept_scale=1e6, probability="probit")
    model.fit(X, y)
    slopes, over = model.coef_[0] * X.std(axis=0), model.machines_[0].ascent.state.priors[-1].rate
    loss = np.maximum(1.0 - y * model.decision_function(X), 0.0).sum()
    least = 2.0 * loss + over * (1.0 + np.abs(slopes).sum()) - 6 * np.log(over)
    reached = learned.loc[learned["scales"] == "meant", "objective"]
    assert reached.between(least - 1e-4, least + 0.05).all()  # the library's ECME, nearly


@pytest.mark.parametrize("f", [-2.0, 0.3, 1.4])
def test_noise_is_the_averaged_hinge_and_normalised_ones_sum_to_one(f):
    def density(e):
        return np.exp(relatives.hinge(1.0, f + e) - e * e / 2) / np.sqrt(2 * np.pi)

    exact = quad(density, -12, 12, points=[1 - f], limit=200)[0]
    assert np.exp(relatives.noise(1.0, np.array([f])))[0] == pytest.approx(exact, rel=1e-8)
    for name in ("normalised", "noise, normalised", "logistic"):
        log = relatives.LIKELIHOODS[name]
        total = np.exp(log(1.0, np.array([f]))) + np.exp(log(-1.0, np.array([f])))
        assert total[0] == pytest.approx(1.0)


def test_samplers_of_the_model_with_noise_agree_with_quadrature():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(12), np.where(rng.random(12) < 0.5, 1.0, -1.0)
    C, grid = x[:, None], np.linspace(-6, 6, 2001)
    log = np.array([relatives.noise(y, x * b).sum() for b in grid]) - grid**2 / 2
    weight = np.exp(log - log.max())
    exact = (grid * weight).sum() / weight.sum()

    def total(theta):
        return float(relatives.noise(y, C @ theta).sum())

    draws = {
        "slice": relatives.sampled(total, 1, 100, 1000, rng),
        "augmented": relatives.augmented(C, y, 1500, rng)[100:],
        "componentwise": relatives.componentwise(C, y, 1500, rng)[100:],
    }
    for name, each in draws.items():
        error = each.std() / np.sqrt(ess(each[None])[0])
        assert abs(each.mean() - exact) < Z * error, name


def test_likelihoods(tmp_path):
    tasks = relatives.tasks(True, 0, sets=2, chain=(20, 60))
    frame = run(relatives, tasks, tmp_path)
    text = said(relatives, frame)
    assert len(frame) == 2 * len(relatives.METHODS)
    assert frame["error"].between(0.02, 0.5).all()
    assert "noise, augmented over noise, componentwise, effective a second: ratio" in text


def test_averages(tmp_path):
    tasks = averages.tasks(True, 0, sets=1, chain=(15, 40))
    frame = run(averages, tasks, tmp_path)
    text = said(averages, frame)
    estimates = frame[frame["method"].isin(averages.ESTIMATES)]
    assert estimates["error"].between(0.05, 0.45).all()
    assert estimates["distance"].between(0.0, 1.0).all()  # directions less than 60 degrees apart
    for words in (
        "dense, 1 sets",
        "Rao-Blackwell, 1 sets",
        "Steps: ECME",
        "with scale move, 1 sets",
    ):
        assert words in text


def test_both_steps_for_the_scale_lead_to_the_minimum_of_the_library():
    data = averages.simulated("dense", np.random.default_rng(3))
    C = data.y[:, None] * np.column_stack([np.ones(200), data.X])
    beta = np.random.default_rng(4).standard_normal(11)
    paths = [averages.objectives(C, beta, through) for through in (False, True)]
    for path in paths:
        assert np.diff(path).max() < 1e-8  # no step raises the objective
    model = averages.machine(Lasso(), EM(learn="mode"), 0).set_params(intercept_scale=1e6)
    model.fit(data.X, data.y)
    over, slopes = model.machines_[0].ascent.state.priors[-1].rate, model.coef_[0]
    u = 1.0 - data.y * (data.X @ slopes + model.intercept_[0])
    size = np.abs(slopes).sum()
    least = 2.0 * np.maximum(u, 0.0).sum() + over * (1.0 + size) - 10 * np.log(over)
    for path in paths:
        assert path[-1] == pytest.approx(least, abs=1e-3)


def test_sampler(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((120, 3))) * (rng.random((120, 3)) < 0.6)
    y = np.where(X[:, 2] - X[:, 0] + rng.logistic(size=120) > 0, 1, -1)
    monkeypatch.setattr(spam, "data", lambda: (X, y))
    monkeypatch.setattr(spam, "NAMES", ["george", "cs", "free"])
    tasks = [t for t in sampler.tasks(True, 0) if t["data"] == "spam"]
    tasks = [t for t in tasks if t["part"] != sampler.SPEED or t["prior"] == sampler.PRIORS[0]]
    frame = run(sampler, tasks, tmp_path)
    text = said(sampler, frame)
    assert "george, chain 1: first" in text
    assert "Effective draws (200+800 sweeps" in text
    row = frame[frame["part"] == sampler.MIXING].iloc[0]
    mixed = np.array(json.loads(row["numbers"]))
    assert mixed.shape == (3, 2)
    assert ((mixed[:, 1] > 1) & (mixed[:, 1] < 1600)).all()
    held = int((X[y < 0, 0] > 0).sum())
    assert f"george: in {held} of {(y < 0).sum()} messages that are no spam" in text
    for row in frame[frame["part"] == sampler.RANGE].itertuples():
        for (low, high), (least, most) in json.loads(row.numbers):
            assert least <= low <= high <= most
    times = frame.loc[frame["part"] == sampler.SPEED, "numbers"].map(json.loads)
    assert (times > 0).all()


def test_path_and_draws_of_spam(monkeypatch, tmp_path):
    spam_like(monkeypatch)
    tasks = polson_spam.tasks(True, 0, chain=(20, 60))
    frame = run(polson_spam, tasks, tmp_path)
    nus, coefs, ecme, every, chains = polson_spam.parts(frame)
    assert np.all(np.diff(nus) > 0)
    counts = np.count_nonzero(coefs, axis=1)
    assert counts[0] < counts[-1]
    assert {pi: each.chains for pi, each in chains.items()} == {0.01: 2, 0.5: 2}
    assert len(every) == 1
    assert ecme["nu"] > 0
    text = said(polson_spam, frame)
    assert "mean size" in text
    part = said(polson_spam, frame[frame["scales"] == "meant"])
    assert "scales as meant" in part
    assert "Scales as printed: no table" in part
    assert f"{counts[0]} at 0.001" in text
