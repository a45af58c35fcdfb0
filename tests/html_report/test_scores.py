"""Scores against scikit-learn, their intervals by coverage, curves by counting."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.metrics import brier_score_loss, confusion_matrix, log_loss, roc_auc_score

from bayesvm.html_report import scores, tables
from bayesvm.html_report.judged import BASE, MODEL, Judged, Rows, thinned


def judged(n=200, K=2, seed=0, ties=False, weights=None):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    P = np.round(P, 1) if ties else P
    codes = np.array([rng.choice(K, p=p / p.sum()) for p in P])
    shares = np.bincount(codes, minlength=K) / n
    weights = np.ones(n) if weights is None else weights
    proba = {MODEL: P / P.sum(axis=1, keepdims=True), BASE: np.tile(shares, (n, 1))}
    every = np.arange(n)
    return Judged(every, codes, every % 5, weights, every, proba, n)


@pytest.mark.parametrize("ties", [False, True])
def test_scores_of_two_classes(ties):
    weights = np.random.default_rng(1).integers(1, 4, 200).astype(float)
    some = judged(ties=ties, weights=weights)
    found = scores.scores(some)["value"].unstack()
    y, p = some.codes, some.P[:, 1]
    kept = np.clip(some.P, scores.LEAST, 1)
    loss = -np.average(np.log(kept[np.arange(200), y]), weights=weights)
    assert found.loc[MODEL, "log_loss"] == pytest.approx(loss)
    assert found.loc[MODEL, "brier"] == pytest.approx(brier_score_loss(y, p, sample_weight=weights))
    assert found.loc[MODEL, "auc"] == pytest.approx(roc_auc_score(y, p, sample_weight=weights))
    wrong = np.average(some.P.argmax(axis=1) != y, weights=weights)
    assert found.loc[MODEL, "error"] == pytest.approx(wrong)
    assert found.loc[BASE, "auc"] == 0.5


def test_scores_of_three_classes():
    some = judged(K=3)
    found = scores.scores(some)["value"].unstack().loc[MODEL]
    assert found["auc"] == pytest.approx(roc_auc_score(some.codes, some.P, multi_class="ovr"))
    assert found["log_loss"] == pytest.approx(log_loss(some.codes, some.P))
    folds = scores.by_fold(some)
    assert folds[folds["model"] == MODEL]["log_loss"].mean() == pytest.approx(found["log_loss"])


def test_a_row_of_weight_two_is_two_rows():
    some = judged(40)
    twice = Judged(*(np.repeat(getattr(some, k), 2) for k in ("rows", "codes", "folds")),
                   np.ones(80), np.repeat(some.units, 2),
                   {k: np.repeat(P, 2, axis=0) for k, P in some.proba.items()}, 80)  # fmt: skip
    weighted = Judged(some.rows, some.codes, some.folds, np.full(40, 2.0), some.units, some.proba,
                      40)  # fmt: skip
    pd.testing.assert_frame_equal(scores.scores(twice), scores.scores(weighted))


def test_intervals_hold_the_expected_score():
    """The log loss is 1/2 if p is uniform; 90 % of intervals hold that, within 3 sd."""
    some = [judged(100, seed=s) for s in range(100)]
    rows = [scores.scores(replace(one, proba={MODEL: one.P})).iloc[0] for one in some]
    hit = np.mean([row["lower"] <= 0.5 <= row["upper"] for row in rows])
    assert abs(hit - 0.9) < 3 * np.sqrt(0.9 * 0.1 / 100)


def test_differences_are_of_the_same_rows():
    some = judged()
    proba = {**some.proba, "mixed": 0.95 * some.P + 0.05 * some.proba[BASE]}
    frame = scores.scores(replace(some, proba=proba)).xs("log_loss", level="metric")
    one = frame.loc["mixed"]
    assert one["difference"] == pytest.approx(one["value"] - frame.loc[MODEL, "value"])
    wide = one["upper"] - one["lower"]
    assert one["difference_upper"] - one["difference_lower"] < 0.5 * wide
    assert np.all(frame.loc[MODEL, ["difference", "difference_lower", "difference_upper"]] == 0)


def test_reliability_counts_each_row_once():
    some = judged()
    frame = scores.reliability(some)
    assert frame["rows"].sum() == 200
    assert (frame["rows"] * frame["observed"]).sum() == pytest.approx(some.codes.sum())
    assert (frame["rows"] * frame["predicted"]).sum() == pytest.approx(some.P[:, 1].sum())
    first = frame.iloc[0]
    yes = round(first["rows"] * first["observed"])
    ends = beta.ppf([0.05, 0.95], yes + 0.5, first["rows"] - yes + 0.5)
    assert np.allclose(first[["lower", "upper"]], ends)


def test_thresholds_count_rows():
    some = judged()
    frame = scores.thresholds(some)
    y, p = some.codes, some.P[:, 1]
    for t in (0.2, 0.5, 0.81):
        (tn, fp), (fn, tp) = confusion_matrix(y, p >= t)
        assert frame.loc[t].tolist() == [tp, fp, fn, tn]
    labels = np.array(["a", "b"])
    assert np.array_equal(scores.confusion(some, labels), confusion_matrix(y, some.P.argmax(1)))
    roc, pr = scores.curves(some, labels)
    area = np.trapezoid(roc["tpr"], roc["fpr"]) if hasattr(np, "trapezoid") else None
    assert area is None or area == pytest.approx(roc_auc_score(y, p))
    assert set(roc["class"]) == set(pr["class"]) == {"b"}


def test_a_sample_of_rows_keeps_the_classes():
    codes = np.repeat([0, 1, 2], [900, 90, 10])
    some = thinned(codes, 100)
    assert np.bincount(codes[some]).tolist() == [90, 9, 1]
    assert np.all(np.diff(some) > 0)


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
    found = tables.columns(Rows(frame, y, np.array([0, 1])), list(frame.columns))
    assert found.loc["told", "auc"] == 1.0
    assert found.loc["size", "auc"] == pytest.approx(roc_auc_score(y, frame["size"]))
    assert found.loc["noise", "auc"] < 0.6
    assert found.loc["many", "auc"] == pytest.approx(0.5)
    assert np.isnan(found.loc["gone", "auc"])
    assert found.loc["gone", "missing"] == 1.0
