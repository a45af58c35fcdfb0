"""The page: names are escaped, nothing is loaded, a browser shows it."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.browser import dump, violations

import bayesvm
from bayesvm import BayesianLinearSVC
from bayesvm.data.cleaning_columns import Finding
from bayesvm.html_report import words
from bayesvm.html_report.report import Report

HOSTILE = "<script>alert(1)</script>"
NAMES = [HOSTILE, "\"onload='x' {{ 7*7 }}", "line\nbreak\x00\u202e", "</style></svg>&amp;"]


@pytest.fixture(scope="module")
def hostile():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((120, 4)), columns=NAMES)
    X[NAMES[3]] = np.where(X[NAMES[3]] > 0, "<img src=x onerror=y>", "</td>")
    y = np.where(X[NAMES[0]] + rng.logistic(size=120) > 0, "</script><b>", "a&b")
    model = BayesianLinearSVC().fit(X, y)
    return bayesvm.report(model, X, y, title=HOSTILE, file="</code><b>.bayesvm")


def test_hostile_names_are_escaped(hostile):
    page = hostile.to_html()
    assert page.count("<script") == page.count("</script>") == 2  # the numbers and the program
    assert not re.search(r"<(img|b>\.|/td>\s*\()", page)
    assert "{{ 7*7 }}" in page.replace("&#34;", '"')
    assert "\x00" not in page
    assert "\u202e" not in page
    json.loads(re.search(r'id="numbers">(.*?)</script>', page, re.S)[1])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for figure in hostile.figures.values():
        assert "<script" not in figure._repr_html_()


def test_the_page_loads_nothing(hostile):
    page = hostile.to_html()
    assert not re.search(r"(src|href)=[\"'](?!#)", page)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert len(page) < 3e6


def test_saving_and_notebooks(hostile, tmp_path):
    hostile.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == hostile.to_html()
    shown = hostile._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.count('"') == 6  # all others are escaped
    assert "save(path)" in repr(hostile)


def test_words():
    assert words.plain("a\n b\x07c " + "x" * 99, 10) == "a b c xxx…"
    assert words.plain("\n") == "(empty)"
    assert words.points(-0.0001) == "0.0"
    assert words.points(-0.034) == "−3.4"
    assert words.listed(["a", "b", "c"]) == "a, b and c"


def test_many_findings_of_one_kind_share_a_line():
    some = [Finding(f"c{k}", "numbers as text", "read as numbers", "texts") for k in range(9)]
    some.insert(1, Finding("c0", "3 cells are missing", "filled", "missing"))
    assert words.collapsed(some) == [
        ("c0, c1 and 7 more", "numbers as text, and the like", "read as numbers"),
        ("c0", "3 cells are missing", "filled"),
    ]


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [(120612.0, 4, "120,600"), (-3043.08, 3, "−3040"), (2021.0, 6, "2021"),
     (0.012345, 3, "0.0123"), (0.0, 3, "0"),
     (1e-9, 3, "1e−09"), (2.50, 3, "2.5"), (1200000, 6, "1,200,000"), (99999.9, 3, "100,000")],
)  # fmt: skip
def test_numbers_are_written_with_separators(x, digits, text):
    assert words.short(x, digits) == text


FACTS = {
    "leaks": [], "converged": True, "level": "90 %", "novel_share": None, "n_rows": 0,
    "estimator": "BayesianSVC", "importances": None,
}  # fmt: skip
GAPS = {
    "better than": (0.05, 0.01, 0.09),
    "worse than": (-0.05, -0.09, -0.01),
    "about as good as": (0.005, 0.004, 0.006),  # clear and small
    "not clearly different from": (0.01, -0.0002, 0.021),
    "no better than": (-0.02, -0.05, 0.008),
}


@pytest.mark.parametrize("answer", GAPS)
def test_differences_of_log_loss_are_told_by_their_interval(answer):
    rows = {
        ("base rate", "log_loss"): (0.149, *GAPS[answer]),
        ("this model", "log_loss"): (0.149 - GAPS[answer][0], 0.0, 0.0, 0.0),
        ("base rate", "error"): (0.04, 0.001, -0.01, 0.01),
        ("this model", "error"): (0.039, 0.0, 0.0, 0.0),
        ("this model", "auc"): (np.nan, 0.0, 0.0, 0.0),
    }
    names = ["value", "difference", "difference_lower", "difference_upper"]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=names)
    frame.index = pd.MultiIndex.from_tuples(frame.index, names=["model", "metric"])
    assert words.against(frame, "base rate") == answer
    bins = {"predicted": [0.1, 0.9], "observed": [0.2, 0.9], "rows": [30, 10]}
    bins |= {"lower": [0.05, 0.8], "upper": [0.3, 0.95]}
    report = Report("", facts=FACTS, scores=frame, reliability=pd.DataFrame(bins))
    (note,) = words.notes(report)
    expected = {"better than": "No problem was", "not clearly different from": "There are too few"}
    assert note.text.startswith(expected.get(answer, "The probabilities are no better than the"))
    if answer == "not clearly different from":
        assert "is +0.010 (90 % interval −0.000 to +0.021)" in note.text
    assert words.cards(report)[-1][:2] == ("Calibration", "±7.5 points")
    cards = {card.name: card.good for card in words.cards(report)}
    assert cards["Log loss"] is {"better than": True, "worse than": False}.get(answer)
    assert cards["Accuracy"] is None  # its interval holds zero


@pytest.mark.parametrize(
    ("fact", "value", "note"),
    [
        ("leaks", [("paid", "alone it has an AUC of 0.999", False)], "bad paid may give the label"),
        ("leaks", [("fee", "", True)], "fair fee gives the label away and was left out."),
        ("leaks", [("a", "", True), ("b", "", True)], "fair a and b give the label away and were"),
        ("converged", False, "bad The fit has not converged"),
        ("novel_share", 0.06, "fair 6 % of the new rows are unlike the training rows"),
        ("novel_share", 0.05, None),
        ("r_hat", 1.02, "fair The chains have not mixed"),
        ("r_hat", 1.01, None),
    ],
)
def test_a_note_is_printed_where_its_rule_holds(fact, value, note):
    drawn = pd.DataFrame({"r_hat": [1.0, value]}) if fact == "r_hat" else None
    found = words.notes(Report("", facts={**FACTS, fact: value}, parameters=drawn))
    said = [f"{one.kind} {one.text}".replace("\N{NO-BREAK SPACE}", " ") for one in found]
    assert len(said) == (note is not None)
    assert note is None or said[0].startswith(note)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"lower": 0.01, "upper": 0.09, "rises": np.nan, "falls": np.nan}, " +9.0)."),
        ({"lower": -0.01, "upper": 0.09, "rises": 1.0, "falls": 0.0}, ", so that its sign is unc"),
        ({"lower": -0.01, "upper": 0.09, "rises": 0.7, "falls": 0.2}, "up for 70 % of the rows a"),
        ({"lower": -0.01, "upper": 0.09, "rises": 0.999, "falls": 0.001}, ", so that its sign is"),
        ({}, "by +4.0 points on average."),
    ],
)
def test_the_direction_of_an_effect_is_told_as_it_is(row, told):
    effect = {"change": "+1 sd", "mean": 0.04, "importance": 0.05, **row}
    frame = pd.DataFrame([effect], index=["age"])
    said = words.what_matters(frame, "90 %").replace("\N{NO-BREAK SPACE}", " ")
    assert told in said
    assert ("of the rows and down for" in said) == (row.get("rises") == 0.7)
    assert "from half a standard deviation below its value to half above changes it by +4" in said


def test_leaks_are_told():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = pd.DataFrame(rng.standard_normal((200, 2)), columns=["x", "z"])
    X["paid"] = np.where(y == 1, 2.0, -2.0) + 0.1 * rng.standard_normal(200)
    report = bayesvm.report(BayesianLinearSVC().fit(X, y), X, y)
    assert any(note.text.startswith("paid may give the label away") for note in report.notes)


def test_the_page_of_a_rare_class_begins_where_its_probabilities_are():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((600, 2)), columns=["x", "$z_1$"])
    y = X["x"] - 4 + rng.logistic(size=600) > 0
    report = bayesvm.report(BayesianLinearSVC().fit(X, y), X, y)
    assert report.facts["threshold"] == round(y.mean(), 2) < 0.1
    assert report.thresholds["tp"].iloc[round(100 * y.mean()) - 1] > 0
    names = re.findall(r">(\d+)\s%<", report.figures["reliability"].svg)
    assert max(map(int, names)) < 60  # axes end where the data do
    assert "$z_1$" in report.to_html()


PROBE = """
<script>
var t = document.getElementById("threshold"), out = {};
out.before = document.getElementById("n-tp").textContent;
t.value = 0.9;
t.dispatchEvent(new Event("input", { bubbles: true }));
out.after = document.getElementById("n-tp").textContent;
document.getElementById("cost-fn").value = 50;
document.getElementById("cost-fn").dispatchEvent(new Event("input", { bubbles: true }));
document.getElementById("use-best").click();
out.best = document.getElementById("threshold-value").textContent;
out.wide = document.documentElement.scrollWidth <= window.innerWidth;
document.body.textContent = "found:" + JSON.stringify(out);
</script>"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440])
def test_a_browser_moves_the_threshold(hostile, tmp_path, width):
    page = tmp_path / "page.html"
    page.write_text(hostile.to_html().replace("</body>", PROBE + "</body>"), encoding="utf-8")
    found = json.loads(re.search(r"found:(\{.*?\})", dump(page, width))[1])
    table = hostile.thresholds
    assert int(found["before"]) == table["tp"].iloc[round(100 * hostile.facts["threshold"]) - 1]
    assert int(found["after"]) == table.loc[0.9, "tp"]
    assert float(found["best"]) == (table["fp"] + 50 * table["fn"]).idxmin()
    assert found["wide"]


THEMES = {"light": "(max-width: 0)", "dark": "(min-width: 0)"}  # of which each page has one


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_the_page_is_accessible(hostile, tmp_path, theme):
    page = tmp_path / "page.html"
    text = hostile.to_html().replace("(prefers-color-scheme: dark)", THEMES[theme])
    page.write_text(text.replace("<details>", "<details open>"), encoding="utf-8")
    (tmp_path / "copy").mkdir()
    assert violations(page, tmp_path / "copy", 390) == []
