"""What commands write: never over what they read, in one move, checked before the work."""

import gzip
import re
import sys

import numpy as np
import pytest
from tests.cli.commands import flat, invoke

import bayesvm

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")
tables = pytest.importorskip("bayesvm.cli.tables", exc_type=ImportError)

ODD = ["=1+1", "+cmd|x", "-2+3", "@SUM(A1)", "\tx", "-5", "+3,5 %", "-1.5e-3", "-", "a=b", "plain"]
SAFE = ["'=1+1", "'+cmd|x", "'-2+3", "'@SUM(A1)", "'\tx", *ODD[5:]]


def folder_with_model(folder, labels=("no", "yes")):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(60)
    y = np.where(x + 0.5 * rng.standard_normal(60) > 0, labels[1], labels[0])
    name = [ODD[i % len(ODD)] for i in range(60)]
    frame = pd.DataFrame({"x": x, "name": name, "=x": name, "y": y})
    frame.to_csv(folder / "t.csv", index=False)
    done = invoke("fit", folder / "t.csv", "-t", "y", "--no-check", "--id", "name", "--keep", "=x")
    assert done.exit_code == 0, done.output
    return folder / "t.bayesvm", folder / "t.csv"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return folder_with_model(tmp_path_factory.mktemp("fitted"))


@pytest.fixture
def no_work(monkeypatch):
    """Opening a model and fitting one fail the test."""

    def work(*_, **__):
        pytest.fail("the work was begun")

    monkeypatch.setattr("bayesvm.cli.terminal.load_with_record", work)
    monkeypatch.setattr(bayesvm.BayesianLinearSVC, "fit", work)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("predict", "MODEL", "TABLE", "-o", "MODEL"), "is the model itself"),
        (("export", "MODEL", "-o", "MODEL"), "is the model itself"),
        (("report", "MODEL", "TABLE", "-o", "TABLE"), "is the table itself"),
        (("fit", "TABLE", "-t", "y", "-o", "TABLE", "--force"), "is the table itself"),
        (("fit", "TABLE", "-t", "y"), "exists; replace it with --force"),
        (("predict", "MODEL", "TABLE", "-o", "LINK"), "is the model itself"),
        (("predict", "MODEL", "TABLE", "-o", "p.pdf"), "is of no kind that is written here: .csv"),
        (("report", "MODEL", "-o", "other.bayesvm"), "written here: .html, .htm"),
        (("predict", "MODEL", "TABLE", "-o", "/dev/null"), "is a device or a pipe"),
        (("predict", "MODEL", "TABLE", "-o", "/proc/p.csv"), "cannot be written, its folder"),
        (("fit", "TABLE", "-t", "y", "--force", "--level", "1"), "between 0 and 1, both excluded"),
        (("predict", "MODEL", "TABLE", "--coverage", "0"), "between 0 and 1, both excluded"),
        (("fit", "FOLDER", "-t", "y"), "is a folder; name a file in it"),
        (("fit", "TABLE", "-t", "y", "-o", "FOLDER/none/m"), "none does not exist; make it"),
        (("demo", "-o", "TABLE"), "cannot be made: File exists"),
    ],
)
def test_bad_files_are_refused_before_the_work(files, args, said, no_work, tmp_path, monkeypatch):
    if any("/proc/" in a or "/dev/" in a for a in args) and sys.platform != "linux":
        pytest.skip("no such folder")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.csv").symlink_to(files[0])
    names = {"MODEL": files[0], "TABLE": files[1], "LINK": tmp_path / "link.csv"}
    names["FOLDER"] = files[0].parent
    before = [path.read_bytes() for path in files]
    done = invoke(*(re.sub("[A-Z]{4,}", lambda m: str(names[m[0]]), a) for a in args))
    assert done.exit_code == 2, done.output
    assert said in flat(done)
    assert done.output.count("\n") == 1
    assert [path.read_bytes() for path in files] == before
    assert [path.name for path in tmp_path.iterdir()] == ["link.csv"]


@pytest.mark.parametrize(("kind", "package"), [(".xlsx", "openpyxl"), (".parquet", "pyarrow")])
def test_packages_are_asked_for_before_the_work(kind, package, files, no_work, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    done = invoke("predict", *files, "-o", files[1].with_name(f"p{kind}"))
    assert done.exit_code == 2
    assert f"to write {kind}: pip install 'bayesvm[tables]' ({package})" in flat(done)


def test_a_file_stays_as_it_was_if_writing_fails(files, tmp_path, monkeypatch):
    path = tmp_path / "p.csv"
    path.write_text("precious")

    def fail(frame, handle, **_):
        handle.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(tables.WRITERS, ".csv", fail)
    done = invoke("predict", *files, "-o", path)
    assert done.exit_code == 2
    assert "No space left on device" in flat(done)
    assert "Traceback" not in done.output
    assert path.read_text() == "precious"
    assert [one.name for one in tmp_path.iterdir()] == ["p.csv"]


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".csv.gz", "screen"])
def test_cells_and_names_are_no_formulas_in_csv(kind, files, tmp_path):
    path = tmp_path / (f"p{kind}" if kind != "screen" else "p.csv")
    if kind == "screen":
        path.write_text(invoke("predict", *files).stdout)
    else:
        assert invoke("predict", *files, "-o", path).exit_code == 0
    if kind == ".csv.gz":
        gzip.decompress(path.read_bytes())
    sep = "\t" if kind == ".tsv" else ","
    got = pd.read_csv(path, dtype=str, keep_default_na=False, sep=sep)
    assert got["name"].tolist()[: len(ODD)] == SAFE
    assert got["'=x"].tolist()[: len(ODD)] == SAFE
    assert not got["p_no"].str.startswith("'").any()


def test_cells_of_excel_are_text_and_have_no_control_characters(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"=x": [*ODD, "a\x07b\nc"], "p": -np.linspace(0, 1, len(ODD) + 1)})
    tables.write_table(frame, tmp_path / "t.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "t.xlsx").active
    cells = [row[0] for row in sheet.iter_rows()]
    assert [cell.value for cell in cells] == ["=x", *ODD, "a\N{REPLACEMENT CHARACTER}b\nc"]
    assert {cell.data_type for cell in cells} == {"s"}
    assert {row[1].data_type for row in list(sheet.iter_rows())[1:]} == {"n"}


def test_json_and_parquet_keep_text_as_it_is(tmp_path):
    frame = pd.DataFrame({"name": ODD})
    tables.write_table(frame, tmp_path / "t.json")
    assert pd.read_json(tmp_path / "t.json", dtype=False)["name"].tolist() == ODD
    pytest.importorskip("pyarrow")
    tables.write_table(frame, tmp_path / "t.parquet")
    assert pd.read_parquet(tmp_path / "t.parquet")["name"].tolist() == ODD


def test_labels_that_end_like_columns_of_predictions_have_columns_of_their_own(tmp_path):
    model, table = folder_with_model(tmp_path, labels=("a", "a_low"))
    invoke("predict", model, table, "-o", tmp_path / "p.csv")
    got = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(got["p_a"] + got["p_a_low"], 1.0, atol=1e-5)
    assert (got["low_p_a"] < got["p_a"]).all()
    assert (got["p_a_low"] < got["high_p_a_low"]).all()


def test_labels_with_a_semicolon_are_quoted_in_sets(tmp_path):
    model, table = folder_with_model(tmp_path, labels=("a;b", "c"))
    invoke("predict", model, table, "-o", tmp_path / "p.csv")
    assert set(pd.read_csv(tmp_path / "p.csv")["set"]) <= {'"a;b"', "c", '"a;b";c'}


@pytest.mark.parametrize("by", ["formula", "array", "frame"])
def test_models_saved_from_python(by, tmp_path):
    pytest.importorskip("formulae")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((60, 2)), columns=["a", "b"])
    y = np.where(frame["a"] + 0.5 * rng.standard_normal(60) > 0, "yes", "no")
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    if by == "formula":
        model = bayesvm.BayesianLinearSVC.from_formula("y ~ a + b", frame.assign(y=y))
    else:
        model = bayesvm.BayesianLinearSVC().fit(frame.to_numpy() if by == "array" else frame, y)
    bayesvm.save(model, tmp_path / "m.bayesvm")
    for command in ("predict", "report"):
        done = invoke(command, tmp_path / "m.bayesvm", tmp_path / "t.csv",
                      *(("-t", "y") if command == "report" else ()))  # fmt: skip
        if by == "array":
            assert done.exit_code == 2
            assert "was fitted to an array, whose columns have no names" in flat(done)
        else:
            assert done.exit_code == 0, done.output
