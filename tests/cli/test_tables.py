"""Tables in files of every kind."""

import gzip
import json

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
tables = pytest.importorskip("bayesvm.cli.tables", exc_type=ImportError)
read_table, write_table = tables.read_table, tables.write_table
FRAME = pd.DataFrame({"x": [1.5, 2.0, np.nan], "name": ["a, b", "é", None], "k": [1, 2, 3]})


def same(found):
    assert list(found.columns) == ["x", "name", "k"]
    assert pd.to_numeric(found["x"].replace("", None)).tolist()[:2] == [1.5, 2.0]
    assert found["name"].tolist()[:2] == ["a, b", "é"]
    assert pd.to_numeric(found["k"]).tolist() == [1, 2, 3]


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_separators_and_encodings_are_found(sign, encoding, tmp_path):
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, sep=sign, encoding=encoding, index=False)
    same(read_table(path))


def test_a_separator_in_texts_is_not_taken():
    assert tables.separator_of("a;b\n1,5;2,5\n3,5;4\n") == ";"
    assert tables.separator_of('a,b\n"x;y",1\n"z;",2\n') == ","
    assert tables.separator_of("a\n1\n") == ","


@pytest.mark.parametrize(
    ("kind", "needs"),
    [(".xlsx", "openpyxl"), (".parquet", "pyarrow"), (".jsonl", None), (".json", None),
     (".tsv", None), (".csv", None)],
)  # fmt: skip
def test_what_is_written_is_read(kind, needs, tmp_path):
    if needs:
        pytest.importorskip(needs)
    write_table(FRAME, tmp_path / f"t{kind}")
    same(read_table(tmp_path / f"t{kind}"))


def test_other_kinds(tmp_path):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as handle:
        FRAME.to_csv(handle, index=False)
    same(read_table(path))
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"a": {"b": 1}, "c": "x"}, {"a": {"b": 2}, "c": "y"}]))
    assert list(read_table(path).columns) == ["c", "a.b"]
    arrow = pytest.importorskip("pyarrow")
    for name, new in (("t.feather", arrow.ipc.new_file), ("t.arrow", arrow.ipc.new_stream)):
        table = arrow.Table.from_pandas(FRAME)
        with new(str(tmp_path / name), table.schema) as writer:
            writer.write_table(table)
        same(read_table(tmp_path / name))


def test_a_database(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as base:
        base.sql("create table \"my table\" as select 1.5 as x, 'a' as name, 7 as k")
    assert read_table(path).iloc[0].tolist() == [1.5, "a", 7]


def test_what_cannot_be_read_is_told(tmp_path, monkeypatch):
    path = tmp_path / "t.doc"
    path.write_text("x")
    with pytest.raises(ValueError, match=r"no kind that is read: \.csv, \.tsv"):
        read_table(path)
    monkeypatch.setitem(tables.READERS, ".xlsx", lambda path: __import__("no_such_package"))
    (tmp_path / "t.xlsx").write_text("x")
    with pytest.raises(ImportError, match=r"\.xlsx: pip install 'bayesvm\[tables\]' \(no_such"):
        read_table(tmp_path / "t.xlsx")
