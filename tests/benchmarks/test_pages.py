"""The numbers of the pages are those of the CSV files."""

import pytest

import pages
import raetsch_pages


def test_tables_of_the_pages_are_those_of_the_files():
    texts = [page.read_text(encoding="utf-8") for page in pages.PAGES]
    assert {m[2] for text in texts for m in pages.PLACE.finditer(text)} == set(pages.TABLES)
    for text in texts:
        assert pages.filled(text) == text


@pytest.mark.parametrize("page", raetsch_pages.PAGES)
def test_tables_of_raetschs_sets_are_those_of_the_files(page):
    scores = raetsch_pages.gather(sorted(pages.RESULTS.glob("*/raetsch.csv")))
    text = (raetsch_pages.ROOT / page).read_text(encoding="utf-8")
    for place in raetsch_pages.PLACE.finditer(text):
        told = raetsch_pages.TABLES[place[2]](scores)
        assert place[0] == f"{place[1]}{told}\n{place[3]}"


def test_a_later_file_replaces_ours_and_adds_to_the_others(tmp_path):
    head = "set,realisation,method,n,p,error,brier,log_loss,fit_s,predict_s,detail"
    line = "heart,{k},{method},170,13,{v},{v},{v},1,1,"
    for name, v, rows in (("a", 0.2, (5, 25, 26)), ("b", 0.1, (25, 26))):
        lines = [line.format(k=k, method=m, v=v + k / 1e4) for k in rows for m in ("ours", "svc")]
        (tmp_path / name).write_text("\n".join([head, *lines]))
    scores = raetsch_pages.gather([tmp_path / "a", tmp_path / "b"])
    assert set(scores["heart", "ours"]) == {25, 26}
    assert set(scores["heart", "svc"]) == {5, 25, 26}
    assert scores["heart", "svc"][25]["error"] == pytest.approx(0.1025)
    pair = raetsch_pages.Pair(scores, "heart", "ours")
    assert (pair.count, pair.verdict("error")) == (2, 1)
