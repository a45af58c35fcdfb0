"""Scores against scikit-learn, their intervals by coverage, curves by counting."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.metrics import auc, brier_score_loss, confusion_matrix, roc_auc_score

from bayesvm.data.storage import THIS_MODEL as MODEL
from bayesvm.data.storage import HeldOut
from bayesvm.html_report import scores, tables
from bayesvm.html_report.scores import BASE, Rows


def held_out(n=200, K=2, seed=0, ties=False, weights=None):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    P = np.round(P, 1) if ties else P
    codes = np.array([rng.choice(K, p=p / p.sum()) for p in P])
    shares = np.bincount(codes, minlength=K) / n
    weights = np.ones(n) if weights is None else weights
    proba = {MODEL: P / P.sum(axis=1, keepdims=True), BASE: np.tile(shares, (n, 1))}
    every = np.arange(n)
    return HeldOut(every, codes, every % 5, weights, every, proba, n)


@pytest.mark.parametrize(("K", "ties"), [(2, False), (2, True), (3, False)])
def test_scores_are_those_of_scikit_learn(K, ties):
    weights = np.random.default_rng(1).integers(1, 4, 200).astype(float)
    held = held_out(K=K, ties=ties, weights=weights)
    found, y, P = scores.scores(held)["value"].unstack(), held.codes, np.clip(held.P, 1e-15, 1)
    loss = -np.average(np.log(P[np.arange(200), y]), weights=weights)
    assert found.loc[MODEL, "log_loss"] == pytest.approx(loss)
    wrong = np.average(P.argmax(axis=1) != y, weights=weights)
    assert found.loc[MODEL, "error"] == pytest.approx(wrong)
    assert found.loc[BASE, "auc"] == 0.5
    if K == 2:
        brier = brier_score_loss(y, P[:, 1], sample_weight=weights)
        area = roc_auc_score(y, P[:, 1], sample_weight=weights)
        assert found.loc[MODEL, "brier"] == pytest.approx(brier)
    else:
        each = [roc_auc_score(y == k, P[:, k], sample_weight=weights) for k in range(K)]
        area = np.mean(each)
    assert found.loc[MODEL, "auc"] == pytest.approx(area)
    folds = scores.by_fold(held)
    own, mass = folds[folds["model"] == MODEL], np.bincount(held.folds, weights)
    assert np.average(own["log_loss"], weights=mass) == pytest.approx(loss)


def test_intervals_hold_the_expected_score():
    """The log loss is 1/2 if p is uniform; 90 % of intervals hold that, within 3 sd."""
    some = [held_out(100, seed=s) for s in range(100)]
    rows = [scores.scores(replace(one, proba={MODEL: one.P})).iloc[0] for one in some]
    hit = np.mean([row["lower"] <= 0.5 <= row["upper"] for row in rows])
    assert abs(hit - 0.9) < 3 * np.sqrt(0.9 * 0.1 / 100)


def test_differences_are_of_the_same_rows():
    some = held_out()
    proba = {**some.proba, "mixed": 0.95 * some.P + 0.05 * some.proba[BASE]}
    frame = scores.scores(replace(some, proba=proba)).xs("log_loss", level="metric")
    one = frame.loc["mixed"]
    assert one["difference"] == pytest.approx(one["value"] - frame.loc[MODEL, "value"])
    wide = one["upper"] - one["lower"]
    assert one["difference_upper"] - one["difference_lower"] < 0.5 * wide
    assert np.all(frame.loc[MODEL, ["difference", "difference_lower", "difference_upper"]] == 0)


def test_reliability_counts_each_row_once():
    some = held_out()
    frame = scores.reliability(some)
    assert frame["rows"].sum() == 200
    assert (frame["rows"] * frame["observed"]).sum() == pytest.approx(some.codes.sum())
    assert (frame["rows"] * frame["predicted"]).sum() == pytest.approx(some.P[:, 1].sum())
    first = frame.iloc[0]
    yes = round(first["rows"] * first["observed"])
    ends = beta.ppf([0.05, 0.95], yes + 0.5, first["rows"] - yes + 0.5)
    assert np.allclose(first[["lower", "upper"]], ends)


def test_thresholds_count_rows():
    some = held_out()
    frame = scores.thresholds(some)
    y, p = some.codes, some.P[:, 1]
    for t in (0.2, 0.5, 0.81):
        (tn, fp), (fn, tp) = confusion_matrix(y, p >= t)
        assert frame.loc[t].tolist() == [tp, fp, fn, tn]
    labels = np.array(["a", "b"])
    assert np.array_equal(scores.confusion(some, labels), confusion_matrix(y, some.P.argmax(1)))
    roc, pr = scores.curves(some, labels)
    assert auc(roc["fpr"], roc["tpr"]) == pytest.approx(roc_auc_score(y, p))
    assert set(roc["class"]) == set(pr["class"]) == {"b"}


def test_columns_alone():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    frame = pd.DataFrame(
        {
            "noise": rng.standard_normal(400),
            "told": np.where(y == 1, "paid", "open"),
            "size": y + rng.standard_normal(400),
            "many": [f"u{k}" for k in range(400)],  # every row its own: nothing is known of it
            "gone": np.nan,
        }
    )
    found = tables.columns(Rows(frame, y, np.array([0, 1])))
    assert found.loc["told", "auc"] == 1.0
    assert found.loc["size", "auc"] == pytest.approx(roc_auc_score(y, frame["size"]))
    assert found.loc["noise", "auc"] < 0.6
    assert found.loc["many", "auc"] == pytest.approx(0.5)
    assert np.isnan(found.loc["gone", "auc"])
    assert found.loc["gone", "missing"] == 1.0
