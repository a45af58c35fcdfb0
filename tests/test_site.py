"""Pages that ``make docs`` has built, in a browser."""

from pathlib import Path

import pytest

from tests.browser import violations

BUILT = Path(__file__).parents[1] / "docs" / "_build" / "html"
PAGES = ("index", "which_estimator", "quickstart", "api")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PAGES)
def test_no_serious_accessibility_error(name, width, tmp_path):
    page = BUILT / f"{name}.html"
    if not page.exists():
        pytest.skip("run `make docs` first")
    found = violations(page, tmp_path, width)
    assert [v for v in found if v["impact"] in ("serious", "critical")] == []


@pytest.mark.slow
def test_errors_are_found(tmp_path):
    (tmp_path / "made").mkdir()
    page = tmp_path / "made" / "page.html"
    page.write_text("<html><head></head><body><img src='x.png'></body></html>", encoding="utf-8")
    assert "image-alt" in {v["id"] for v in violations(page, tmp_path)}


@pytest.mark.slow
def test_pages_need_no_network():
    pages = list(BUILT.rglob("*.html")) or pytest.skip("run `make docs` first")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text, page
        assert 'rel="stylesheet" href="http' not in text, page
