"""The command line: names and files of any kind, and mistakes found before the work."""

import re
import warnings

import numpy as np
import pytest
from tests.cli.commands import flat, invoke

import bayesvm

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")


def tabled(folder, names=("age", "kind", "label"), labels=("no", "yes"), n=40):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n)
    columns = (x, np.where(rng.random(n) < 0.5, "u", "v"))
    y = np.where(x + 0.5 * rng.standard_normal(n) > 0, labels[1], labels[0])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "data.csv"
    pd.DataFrame(dict(zip(names, (*columns, y)))).to_csv(path, index=False)
    return path


@pytest.fixture
def table(tmp_path):
    return tabled(tmp_path)


@pytest.fixture
def no_work(monkeypatch):
    """Fitting fails the test."""

    def fit(*_, **__):
        pytest.fail("a model was fitted")

    monkeypatch.setattr(bayesvm.BayesianLinearSVC, "fit", fit)


@pytest.mark.parametrize("odd", ["[/x]:apple:"])
def test_names_labels_and_paths_are_printed_as_they_are(odd, tmp_path):
    path = tabled(
        tmp_path / f"folder{odd}",  # a slash makes two of it
        (f"age{odd}", f"kind{odd}", f"label{odd}"),
        (f"no{odd}", f"yes{odd}"),
    )
    done = invoke("fit", path, "-t", f"label{odd}", "--no-check")
    assert done.exit_code == 0, done.output
    model = path.with_suffix(".bayesvm")
    assert model.exists()
    for text in (f"age{odd}", f"kind{odd}_v", f"classes no{odd}, yes{odd}", str(model)):
        assert text in done.output
    page = path.with_suffix(".html")
    done = invoke("report", model, path, "-t", f"label{odd}", "-o", page)
    assert done.exit_code == 0, done.output
    assert str(page) in done.output
    done = invoke("predict", model, path)
    assert done.stdout.startswith(f"prediction,p_no{odd}")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("fit", "FOLDER", "-t", "label"), "is a folder; name a file in it"),
        (("fit", "TABLE", "-t", "label", "-o", "FOLDER"), "is a folder; name a file in it"),
        (("fit", "TABLE", "-t", "label", "-o", "FOLDER/none/m"), "none does not exist; make it"),
        (("fit", "TABLE", "-t", "label", "-o", "TABLE"), "is the table itself; give another file"),
        (("predict", "FOLDER", "TABLE"), "is a folder; name a file in it"),
        (("predict", "TABLE", "FOLDER"), "is a folder; name a file in it"),
        (("predict", "TABLE", "TABLE", "-o", "FOLDER/none/p.csv"), "none does not exist; make it"),
        (("report", "FOLDER"), "is a folder; name a file in it"),
        (("report", "TABLE", "FOLDER", "-t", "label"), "is a folder; name a file in it"),
        (("report", "TABLE", "TABLE", "-t", "label", "-o", "FOLDER/none/c.png"), "does not exist"),
        (("report", "TABLE", "-o", "TABLE"), "is the model itself; give another file"),
        (("demo", "-o", "TABLE"), "cannot be made: File exists"),
    ],
)
def test_files_that_cannot_be_are_refused_before_the_work(args, message, table, no_work):
    names = {"FOLDER": str(table.parent), "TABLE": str(table)}
    given = [re.sub("FOLDER|TABLE", lambda found: names[found[0]], a) for a in args]
    done = invoke(*given)
    assert done.exit_code == 2, done.output
    # a long path may be broken anywhere
    assert message.replace(" ", "") in flat(done).replace(" ", "")


def test_unknown_inference_is_what_is_refused(table, no_work):
    frame = pd.read_csv(table)
    frame.loc[0, "age"] = np.nan
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "label", "--inference", "mcmc")
    assert done.exit_code == 2
    assert "--inference mcmc is not known; choose one of vb, em, svi, gibbs" in flat(done)
    assert "empty" not in done.output


def test_a_class_of_one_row_is_left_out(table):
    frame = pd.read_csv(table)
    frame.loc[0, "label"] = "maybe"
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "label")
    assert done.exit_code == 0, done.output
    assert "label 1 row of the label 'maybe', which no other row has left out" in flat(done)


def test_warnings_are_one_line_and_once(table, monkeypatch):
    whole = bayesvm.BayesianLinearSVC.fit

    def fit(self, *args, **kwargs):
        warnings.warn("the matrix was singular", RuntimeWarning, stacklevel=1)
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(bayesvm.BayesianLinearSVC, "fit", fit)
    done = invoke("fit", table, "-t", "label")  # one fit and five folds
    assert done.exit_code == 0
    assert done.output.count("Warning: the matrix was singular") == 1
    assert __file__ not in done.output
    assert "RuntimeWarning" not in done.output


@pytest.mark.parametrize("text", ["", "age,label\n"])
def test_a_table_without_rows_is_refused(text, tmp_path, no_work):
    (tmp_path / "data.csv").write_text(text)
    done = invoke("fit", tmp_path / "data.csv", "--target", "label")
    assert done.exit_code == 2
    assert "has no rows" in flat(done)
