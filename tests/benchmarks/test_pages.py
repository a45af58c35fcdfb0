"""The numbers of the pages are those of the CSV files."""

import pytest

import pages
import raetsch_pages


def test_tables_of_the_benchmarks_are_those_of_the_files():
    text = pages.PAGE.read_text(encoding="utf-8")
    places = [m[2] for m in pages.PLACE.finditer(text)]
    assert set(places) == set(pages.TABLES)
    assert pages.filled(text) == text


@pytest.mark.parametrize("page", raetsch_pages.PAGES)
def test_tables_of_raetschs_sets_are_those_of_the_files(page):
    scores = raetsch_pages.gather(sorted(pages.RESULTS.glob("*/raetsch.csv")))
    text = (raetsch_pages.ROOT / page).read_text(encoding="utf-8")
    for place in raetsch_pages.PLACE.finditer(text):
        told = raetsch_pages.TABLES[place[2]](scores)
        assert place[0] == f"{place[1]}{told}\n{place[3]}"
