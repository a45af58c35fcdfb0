"""The library beside its recorded results; `tests.golden.compare` has the rule for scores."""

import json
import os

import pandas as pd
import pytest

from tests.golden import compare, coverage, signatures

needs_data = pytest.mark.skipif(
    "BAYESVM_DATA" not in os.environ,
    reason="BAYESVM_DATA does not name the folder of the data sets, which are not distributed",
)
SMALL = ["hepatitis", "hayes-roth", "parkinsons", "connectionist-mines-vs-rocks", "bupa"]
SMALL += ["vertebra-column-3c", "ionosphere", "saheart", "balance-scale", "statlog-german-credit"]


def test_the_public_interface_is_as_recorded():
    recorded = json.loads(signatures.RECORD.read_text(encoding="utf-8"))
    assert signatures.describe() == recorded, (
        "the public interface has changed; if that is intended, write the record again with "
        "`python -m tests.golden.signatures` and tell users in CHANGES.md"
    )


@needs_data
def test_scores_of_the_linear_estimator_on_small_sets():
    result = compare.compare("linear", SMALL)
    assert result.accepted, result.text


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "seeds"), [("linear", (0,)), ("kernel", (0, 1))])
def test_scores_on_all_sets(estimator, seeds):
    result = compare.compare(estimator, seeds=seeds)
    assert result.accepted, result.text


@pytest.mark.parametrize(
    ("now", "accepted"),
    [
        ([1.0] * 10, True),
        ([1.02] + [1.0] * 9, True),  # one set of ten may be worse
        ([1.02, 1.02] + [1.0] * 8, False),
        ([1.02, 1.02, 0.98] + [1.0] * 7, True),
        ([1.11] + [0.9] * 9, False),  # none by more than 10 %
    ],
)
def test_rule_for_scores(now, accepted):
    table = pd.DataFrame({"before": 1.0, "now": now, "ratio": now, "se": 0.01})
    table[["error_before", "error_now", "cpu_before", "cpu_now"]] = 0.0
    assert compare.verdict("linear", table).accepted is accepted


RECORDED = pd.read_csv(coverage.RECORD).set_index(["estimator", "n", "p", "positives"])


@pytest.mark.slow
@pytest.mark.parametrize("key", RECORDED.index, ids=lambda key: "-".join(map(str, key)))
def test_coverage_stays_where_it_was_right(key):
    now = coverage.cell(*key)
    for name in ("proba", "coef"):
        if 0.87 <= RECORDED.loc[key, name] <= 0.94:
            assert 0.87 <= now[name] <= 0.94, name
