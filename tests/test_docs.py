"""Every Python block of README.md and of the pages runs; the tables of components are complete."""

import doctest
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer

import bayesvm
from bayesvm import BayesianLinearSVC
from bayesvm.estimators.fit import DUAL_ROWS, FULL_COLUMNS, SPARSE_COLUMNS
from bayesvm.estimators.options import LIKELIHOODS, SCHEMES
from bayesvm.inference import EM, SVI, VB, Gibbs
from bayesvm.priors import Bridge, Fixed, LaplaceZero, Lasso, Ridge, SpikeSlab

ROOT = Path(__file__).parent.parent
BUILT = {"_build", "auto_examples", "generated"}
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python_blocks(page):
    """First line and text of each block fenced as Python."""
    text = page.read_text(encoding="utf-8")
    return [(text[: m.start(1)].count("\n"), m.group(1)) for m in FENCE.finditer(text)]


def pages():
    found = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [p for p in found if not BUILT & set(p.parts) and python_blocks(p)]


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_blocks_run(page, tmp_path, monkeypatch):
    """Blocks of a page share their names; those with prompts are compared with what they print."""
    monkeypatch.chdir(tmp_path)  # a page may write files
    names = {"__name__": "page"}
    for line, code in python_blocks(page):
        if not code.startswith(">>>"):
            exec(compile("\n" * line + code, str(page), "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), line)
        test.globs = names
        said = []
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
        failed, _ = runner.run(test, out=said.append, clear_globs=False)
        assert not failed, "".join(said)


ABSENT = """
import sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
"""


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_example_needs_no_extra(page):
    """It stands below ``pip install .``, which does not bring pandas."""
    _, code = python_blocks(ROOT / page)[0]
    lines = [line[4:] for line in code.splitlines() if line.startswith((">>> ", "... "))]
    script = "\n".join([ABSENT, *lines])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "90 % interval" in done.stdout


def test_the_pages_that_promise_to_run_have_blocks():
    assert {ROOT / "README.md", ROOT / "docs" / "quickstart.md"} <= set(pages())


def test_the_listing_of_a_fit_is_a_trace():
    """Functions of the page *Design* are in the file named, and first called in that order."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    listing = text.split("```text\n")[1].split("```")[0].splitlines()
    listed = [tuple(line.split()[:2]) for line in listing]
    package, X, y = Path(bayesvm.__file__).parent, *load_breast_cancer(return_X_y=True)
    called = {}

    def enter(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.startswith(str(package)):
            file = Path(frame.f_code.co_filename).relative_to(package).as_posix()
            called.setdefault((frame.f_code.co_qualname, file), len(called))

    sys.setprofile(enter)
    try:
        BayesianLinearSVC().fit(X, y)
    finally:
        sys.setprofile(None)
    assert [each for each in listed if each not in called] == []
    assert sorted(listed, key=called.get) == listed


NAME = re.compile(r"`((?:[a-z_]+\.)+[A-Za-z_]+)")


PAPERS = sorted((ROOT / "docs" / "papers").glob("*.md"))


@pytest.mark.parametrize("page", [p for p in PAPERS if p.stem != "index"], ids=lambda p: p.stem)
def test_the_tables_of_the_papers_name_what_exists(page):
    """Middle column: names below the package, ``module.Class.method``."""
    rows = [line.split(" | ") for line in page.read_text(encoding="utf-8").splitlines()]
    names = {name for row in rows if len(row) == 3 for name in NAME.findall(row[1])}
    assert len(names) > 5
    for name in names:
        prefix = "" if name.startswith("papers.") else "bayesvm."
        pkgutil.resolve_name(prefix + name)


# the tables of docs/inference.md: likelihood x prior x design x scheme

PRIORS = [Fixed(1.0), Ridge(1.0, 1.0), Ridge(half_cauchy=1.0), Lasso(), Bridge(0.7)]
SELECTING = [SpikeSlab(expected_size=2), LaplaceZero(expected_size=2)]  # by VB and Gibbs only
QUICK = [VB(), EM(learn="mode"), EM(), SVI(max_iter=2), Gibbs(draws=10, burn_in=10, chains=2)]


def test_the_table_names_everything_there_is():
    table = (ROOT / "docs" / "inference.md").read_text(encoding="utf-8")
    for name in [*LIKELIHOODS, *SCHEMES, *(type(p).__name__ for p in [*PRIORS, *SELECTING])]:
        assert f"`{name}" in table, name
    for limit in (DUAL_ROWS, FULL_COLUMNS, SPARSE_COLUMNS):
        assert re.search(rf"\b{limit}\b", table), limit
    assert {type(s) for s in QUICK} == {type(s) for s in SCHEMES.values()}


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("scheme", QUICK, ids=lambda s: type(s).__name__)
def test_every_cell_of_the_table(likelihood, scheme):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_normal(60) > 0
    some = SELECTING if isinstance(scheme, VB | Gibbs) else []
    for prior in [*PRIORS, *some]:
        for rows in (X, sparse.csr_array(X)):
            model = BayesianLinearSVC(prior, scheme, likelihood, random_state=0).fit(rows, y)
            proba = model.predict_proba(rows)
            assert np.array_equal(model.predict(rows), model.classes_[proba.argmax(axis=1)])
            assert np.array_equal(model.decision_function(rows) > 0, model.predict(rows))
            assert (model.predict(rows) == y).mean() > 0.7
