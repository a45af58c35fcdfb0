"""The command line: names and files of any kind, and mistakes found before the work."""

import gzip
import warnings

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
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


def test_names_with_control_characters_are_written_out(tmp_path):
    rng = np.random.default_rng(0)
    name = "\x1b[31mred\nline"
    frame = pd.DataFrame({name: rng.standard_normal(60), "y": rng.choice(["no", "yes"], 60)})
    frame["bell\a"] = "one\x07value"
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = invoke("fit", tmp_path / "t.csv", "-t", "y", "--no-check")
    assert done.exit_code == 0, done.output
    assert "\\x1b[31mred\\nline" in done.output
    assert not {"\x1b", "\a"} & set(done.output)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-t", "nothing"), "there is no column 'nothing' (--target); the columns are age, kind"),
        (("-t", "Label"), "did you mean 'label'? The columns are"),
        (("-t", "label", "--categorical", "room"), "there is no column 'room' (--categorical)"),
        (("-t", "label", "--id", "label"), "'label' has the labels (--target) and cannot be --id"),
        (("-t", "label", "-m", "forest"), "choose one of auto, linear, kernel"),
        (("-t", "label", "-m", "mixed"), "--model mixed needs --groups COLUMN"),
        (("-t", "label", "-m", "kernel", "--prior", "lasso"), "no meaning for --model kernel"),
        (("-t", "label", "--prior", "rigde"), "--prior rigde is not known; choose one of"),
        (("-t", "label", "--inference", "mcmc"), "not known; choose one of vb, em, svi, gibbs"),
        (("-t", "label", "--drop", "age", "--drop", "kind"), "no columns besides the labels"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(args, message, table, no_work):
    done = invoke("fit", table, *args)
    assert done.exit_code == 2
    assert message in flat(done)
    assert done.stderr.count("\n") == 1


def test_columns_that_a_model_needs_are_named(table):
    invoke("fit", table, "-t", "label", "--no-check")
    pd.read_csv(table).rename(columns={"age": "Age"}).to_csv(table, index=False)
    said = flat(invoke("predict", table.with_suffix(".bayesvm"), table))
    assert "lacks columns the model was fitted to: age" in said
    assert "did you mean 'Age'? Names must be equal" in said


def test_names_labels_and_paths_are_printed_as_they_are(tmp_path):
    odd = "[/x]:apple:"
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


def test_a_class_of_one_row_is_left_out(table):
    frame = pd.read_csv(table)
    frame.loc[0, "label"] = "maybe"
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "label")
    assert done.exit_code == 0, done.output
    assert "label 1 row of the label 'maybe', which no other row has left out" in flat(done)
    assert invoke("report", table.with_suffix(".bayesvm"), table).exit_code == 0


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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "has no rows"),
        ("t.csv", b"age,label\n", "has no rows"),
        ("t.csv", b"age,label\n1,\n2,\n", "column 'label' is empty: it has no labels"),
        ("t.csv", b"age,label\n1,u\n2,v,3\n3,w\n", "line 3 of"),
        ("t.csv", b"age,label\n1,u,3\n2,v\n", "the first row of"),
        ("t.csv", b'age,label\n1,u\n2,"v\n3,w\n', "quote that opens in row 2"),
        ("t.csv", b"age,label\n" + b"\n".join(b"1,%d.5" % k for k in range(60)), "BayesianSVR"),
        (
            "t.csv.gz",
            gzip.compress(b"age,label\n1,u\n" * 99, mtime=0)[:40],
            "cannot be read as .csv",
        ),
        ("t.json", b'{"age": [1', "cannot be read as .json"),
        ("t.json", b'{"columns": ["a", "label"], "data": [[1, 2]]}', "neither a list of records"),
        (
            "t.csv",
            b"age,label\n" + b"1e300,u\n2,v\n3,u\n4,v\n" * 9,
            "column 'age' has a cell of 1e+300",
        ),
        ("t.xlsx", b"PK damaged", "cannot be read as .xlsx"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_in_one_line(name, content, said, tmp_path, no_work):
    (tmp_path / name).write_bytes(content)
    done = invoke("fit", tmp_path / name, "--target", "label")
    assert done.exit_code == 2
    assert said in flat(done)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("bayesvm fit: ")


def test_a_cell_may_be_long(tmp_path):
    text = "x" * 200_000
    rows = "".join(f"{k % 7}.5,{text if k == 1 else 'a'},{'uv'[k % 2]}\n" for k in range(20))
    (tmp_path / "t.csv").write_text("age,note,label\n" + rows)
    done = invoke("fit", tmp_path / "t.csv", "-t", "label", "--no-check")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("kind", [bayesvm.BayesianSVR, bayesvm.TableCleaner, StandardScaler])
def test_models_of_another_kind_are_refused(kind, table):
    frame, path = pd.read_csv(table), table.with_name("m.bayesvm")
    bayesvm.save(kind().fit(frame[["age"]], frame["age"]), path)
    for args in (("predict", path, table), ("report", path, table, "-t", "label")):
        done = invoke(*args)
        assert done.exit_code == 2, done.output
        assert "predicts no labels; use it in Python" in flat(done)


@pytest.mark.parametrize("at", ["fit", "check"])
def test_an_interrupt_says_what_was_kept(at, table, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    if at == "fit":
        monkeypatch.setattr(bayesvm.BayesianLinearSVC, "fit", stop)
    else:
        monkeypatch.setattr("bayesvm.cli.fit.cross_validated", stop)
    done = invoke("fit", table, "-t", "label")
    assert done.exit_code == 130
    kept = {"fit": "were not complete are as they were", "check": "data.bayesvm, without its check"}
    assert kept[at] in flat(done)
    assert table.with_suffix(".bayesvm").exists() == (at == "check")
