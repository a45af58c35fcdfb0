"""The tests against published worked examples, SciPy and what must hold."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from bayesvm.compare import (
    bonferroni_dunn,
    critical_difference,
    f_test_5x2,
    friedman,
    nemenyi,
    win_loss_tie,
)

# Demšar (2006), Table 6: AUC on 14 data sets.  On voting (last but one) the printed ranks of
# C4.5+cf and C4.5+m+cf are 2 and 3 at an equal printed 0.975, so the fourth digit differed.
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)


def test_friedman_of_demsar():
    """Section 3.2.2: mean ranks, chi^2_F = 9.28, F_F = 3.69 with 3 and 39 degrees of freedom."""
    result = friedman(DEMSAR)
    np.testing.assert_allclose(result.ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    assert round(result.chi2, 2) == 9.28
    assert round(result.statistic, 2) == 3.69
    assert result.pvalue == pytest.approx(stats.f.sf(result.statistic, 3, 39))
    assert round(stats.f.isf(0.05, 3, 39), 2) == 2.85  # the critical value there
    assert result.names == list(DEMSAR.columns)


def test_nemenyi_of_demsar():
    """CD = 1.25 at 0.05 and 1.12 at 0.10, where two groups appear (Fig. 1a)."""
    strict, loose = nemenyi(DEMSAR), nemenyi(DEMSAR, alpha=0.10)
    assert round(strict.critical_difference, 2) == 1.25
    assert round(loose.critical_difference, 2) == 1.12
    assert len(strict.groups) == 1
    assert loose.groups == [["C4.5+m+cf", "C4.5+m", "C4.5+cf"], ["C4.5+cf", "C4.5"]]


def test_bonferroni_dunn_of_demsar():
    """C4.5+m+cf is better than C4.5, C4.5+cf is not, C4.5+m just misses.

    CD = 2.394 sqrt(4 5 / (6 14)) is printed as 1.16, cut off from 1.168.
    """
    result = bonferroni_dunn(DEMSAR, "C4.5")
    assert int(100 * result.critical_difference) == 116
    np.testing.assert_allclose(result.differences, [-1.143, -0.250, -1.179], atol=6e-4)
    assert result.significant.tolist() == [False, False, True]
    loose = bonferroni_dunn(DEMSAR, "C4.5", alpha=0.10)
    assert loose.significant.tolist() == [True, False, True]


# Demšar (2006), Table 5, k = 2, ..., 10.  The studentised range was looked up with three decimals
# and divided by the root of 2, so the last digit may be off by one; the 2.724 that is printed for
# Bonferroni and Dunn at k = 9 is a misprint of 2.734, the normal quantile at 0.05 / 16.
CRITICAL = {
    ("nemenyi", 0.05): [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164],
    ("nemenyi", 0.10): [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920],
    ("bonferroni-dunn", 0.05): [1.960, 2.241, 2.394, 2.498, 2.576, 2.638, 2.690, 2.734, 2.773],
    ("bonferroni-dunn", 0.10): [1.645, 1.960, 2.128, 2.241, 2.326, 2.394, 2.450, 2.498, 2.539],
}


@pytest.mark.parametrize(("test", "alpha"), CRITICAL)
def test_critical_values_of_demsar(test, alpha):
    for k, printed in enumerate(CRITICAL[test, alpha], start=2):
        q = critical_difference(k, 7, alpha, test) / np.sqrt(k * (k + 1) / 42)
        assert q == pytest.approx(printed, abs=1e-3)


@pytest.mark.parametrize(
    ("columns", "control", "at"),
    [([1, 2, 3, 4], np.int64(4), 3), ([1, 2, 3, 4], 0, 0), (["3", "2", "1", "0"], "1", 2)],
)
def test_the_control_is_found(columns, control, at):
    """By the label of its column, by the label as text, by its place."""
    result = bonferroni_dunn(DEMSAR.set_axis(columns, axis=1), control)
    names = [str(name) for name in columns]
    assert result.control == names.pop(at)
    assert result.names == names
    plain = bonferroni_dunn(DEMSAR, at)
    np.testing.assert_array_equal(result.differences, plain.differences)


def test_f_test_of_alpaydin():
    """Alpaydin (1999), section 3: reject at 95% if f exceeds 4.74."""
    assert round(stats.f.isf(0.05, 10, 5), 2) == 4.74
    p = np.array([[0.1, 0.1 + d] for d in (0.02, -0.02, 0.02, -0.02, 0.02)])
    f = (p**2).sum() / (2 * 5 * 0.02**2 / 2)
    assert f_test_5x2(p).statistic == pytest.approx(f)


@given(arrays(float, (5, 2), elements=st.floats(-1, 1)), st.floats(0.1, 10))
def test_f_test_knows_no_order_sign_or_scale(p, scale):
    result = f_test_5x2(p)
    assert 0 <= result.pvalue <= 1
    assert f_test_5x2(-p) == result
    assert f_test_5x2(p.ravel()) == result
    assert f_test_5x2(p[::-1, ::-1]).statistic == pytest.approx(result.statistic, rel=1e-6)
    if np.abs(p).min() > 1e-100:
        scaled = f_test_5x2(scale * p)
        assert scaled.pvalue == pytest.approx(result.pvalue, rel=1e-6, abs=1e-9)


def test_f_test_without_variation():
    assert f_test_5x2(np.zeros(10)) == (0.0, 1.0)
    assert f_test_5x2(np.full((5, 2), 0.25)) == (np.inf, 0.0)


@given(arrays(float, (6, 4), elements=st.integers(0, 3).map(float)))
def test_friedman_against_scipy(scores):
    """With the correction for ties it is SciPy's test; the ranks have the mean they must have."""
    result = friedman(scores, tie_correction=True)
    assert result.ranks.mean() == pytest.approx(2.5)
    if any(len(set(row)) > 1 for row in scores):
        expected = stats.friedmanchisquare(*scores.T)
        assert result.chi2 == pytest.approx(expected.statistic, abs=1e-9)
        assert result.chi2_pvalue == pytest.approx(expected.pvalue, abs=1e-9)
    else:
        assert (result.chi2, result.pvalue) == (0.0, 1.0)
    mirrored = friedman(-scores, lower_is_better=True, tie_correction=True)
    np.testing.assert_allclose(mirrored.ranks, result.ranks)


@given(arrays(float, (7, 5), elements=st.floats(0, 1)), st.sampled_from([0.05, 0.1]))
def test_pvalues_and_critical_differences_agree(scores, alpha):
    pairs = nemenyi(scores, alpha)
    gap = np.abs(pairs.ranks[:, None] - pairs.ranks)
    near = np.abs(gap - pairs.critical_difference) < 1e-6
    np.testing.assert_array_equal(
        (pairs.pvalues < alpha)[~near], (gap > pairs.critical_difference)[~near]
    )
    for group in pairs.groups:
        ranks = pairs.ranks[[pairs.names.index(name) for name in group]]
        assert np.ptp(ranks) <= pairs.critical_difference
    one = bonferroni_dunn(scores, 0, alpha)
    near = np.abs(np.abs(one.differences) - one.critical_difference) < 1e-6
    np.testing.assert_array_equal((one.pvalues < alpha)[~near], one.significant[~near])


def tidy(values, metric="error"):
    """values[estimator][dataset] -> ten numbers."""
    rows = [
        {"dataset": d, "split": i, "estimator": e, "metric": metric, "value": v}
        for e, sets in values.items()
        for d, numbers in sets.items()
        for i, v in enumerate(numbers)
    ]
    return pd.DataFrame(rows)


def test_win_loss_tie():
    noise = np.tile([0.0, 0.01], 5)
    flat = np.full(10, 0.2)
    frame = tidy(
        {
            "ours": {"a": flat, "b": flat, "c": flat},
            "theirs": {"a": flat + 0.1 + noise, "b": flat - 0.004 + noise, "c": flat},
        }
    )
    means = win_loss_tie(frame, "ours", "error")
    assert means.loc["theirs"].to_dict() == {"win": 0, "loss": 2, "tie": 1}
    tested = win_loss_tie(frame, "ours", "error", alpha=0.05)
    assert tested.loc["theirs"].to_dict() == {"win": 0, "loss": 1, "tie": 2}
    upside_down = win_loss_tie(frame, "ours", "error", lower_is_better=False)
    assert upside_down.loc["theirs"].to_dict() == {"win": 2, "loss": 0, "tie": 1}
    with pytest.raises(ValueError, match=r"control must be one of 'ours', 'theirs', or.*'nobody'"):
        win_loss_tie(frame, "nobody", "error")
    frame.loc[(frame["estimator"] == "theirs") & (frame["split"] == 3), "value"] = np.nan
    for alpha in (None, 0.05):  # on no data set are both known
        unknown = win_loss_tie(frame, "ours", "error", alpha=alpha)
        assert unknown.loc["theirs"].to_dict() == {"win": 0, "loss": 0, "tie": 0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: f_test_5x2(np.zeros(8)), r"5 replications of 2 halves.*\(8,\)"),
        (lambda: f_test_5x2(np.zeros((2, 5))), r"5 replications of 2 halves.*\(2, 5\)"),
        (lambda: f_test_5x2([np.nan] * 10), "finite"),
        (lambda: friedman([[1.0, 2.0]]), r"two of each at least.*\(1, 2\)"),
        (lambda: friedman([[1.0, np.nan], [1.0, 2.0]]), "leave out data sets"),
        (lambda: critical_difference(3, 5, 1.5), "alpha must lie between 0 and 1; got 1.5"),
        (lambda: critical_difference(1, 5), "k=1, n=5"),
        (lambda: critical_difference(3, 5, test="tukey"), "got 'tukey'"),
        (lambda: bonferroni_dunn(DEMSAR, "C5"), "control must be one of 'C4.5'.*got 'C5'"),
        (lambda: bonferroni_dunn(DEMSAR, 4), "a column below 4; got 4"),
        (lambda: bonferroni_dunn(DEMSAR, -1), "a column below 4; got -1"),
        (lambda: bonferroni_dunn(DEMSAR, True), "a column below 4; got True"),
        (lambda: friedman(DEMSAR.set_axis(list("aabc"), axis=1)), "different names; got a, a"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
