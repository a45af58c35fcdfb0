"""Read and write tables in common file formats, by pandas and the packages it needs."""

from __future__ import annotations

import csv
import gzip
import json
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.atomic import replace_file
from .terminal import check_output

# Text that spreadsheets interpret as a formula: it begins so and is no number (nor a lone minus).
FORMULA = re.compile(r"(?![+-][\d.,' ]*(e[+-]?\d+)? ?%?$)[=+\-@\t\r]", re.IGNORECASE)
NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def read_table(path: Path) -> pd.DataFrame:
    """A table from a file; text cells are read unchanged."""
    kind = _kind(path)
    reader = READERS.get(kind)
    if reader is None:
        raise ValueError(f"{path} is of no kind that is read: {', '.join(READERS)}.")
    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            frame = reader(path)
    except ImportError as error:
        needs = "xlrd" if kind == ".xls" else "'bayesvm[tables]'"
        why = error.name or str(error)
        raise ImportError(f"to read {kind}: pip install {needs} ({why})") from error
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    except Exception as error:  # every format has different exceptions
        why = _ragged(path, str(error)) or f"{path} cannot be read as {kind}: {error or 'damaged'}"
        raise ValueError(why) from error
    if frame.empty:
        raise ValueError(f"{path} has no rows; give a table with a header and rows.")
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame.reset_index(drop=True)


def _ragged(path: Path, error: str) -> str:
    """The problem with a line of a table, if any."""
    if quote := re.search(r"EOF inside string starting at row (\d+)", error):
        return f"a quote that opens in row {quote[1]} of {path} is never closed; mend that row"
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", error):
        wide, line, cells = found.groups()
        problem = f"line {line} of {path} has {cells} cells, but the lines before it have {wide}"
    elif error.startswith("Length of header"):
        problem = f"the first row of {path} has more cells than the header"
    else:
        return ""
    return (
        f"{problem}. A cell that holds the separator has to be in quotes; mend the line or write "
        "the table anew."
    )


def check_writable(path: Path, **inputs: Path | None) -> None:
    """Refuse a file that cannot be written, or whose package is not installed."""
    check_output(path, (*WRITERS, ".csv.gz", ".tsv.gz"), replace=True, **inputs)
    needs = {".xlsx": "openpyxl", ".parquet": "pyarrow", ".pq": "pyarrow"}.get(_kind(path))
    try:
        if needs is not None:
            import_module(needs)
    except ImportError as error:
        text = f"to write {_kind(path)}: pip install 'bayesvm[tables]' ({needs})"
        raise ValueError(text) from error


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table in the format of the file name; the file is replaced when complete."""

    def write(handle: Any) -> None:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(fileobj=handle, mode="wb") as inner:
                WRITERS[_kind(path)](frame, inner)
        else:
            WRITERS[_kind(path)](frame, handle)

    replace_file(path, write)


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Put an apostrophe before text that spreadsheets would run as a formula; numbers stay."""
    return _texts(frame, lambda text: f"'{text}" if FORMULA.match(text) else text)


def _texts(frame: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """A table with all text changed, including the header."""

    def changed(cell: Any) -> Any:
        return change(cell) if isinstance(cell, str) else cell

    out = frame.set_axis([changed(name) for name in frame], axis=1)
    for j in range(out.shape[1]):
        if not pd.api.types.is_numeric_dtype(out.dtypes.iloc[j]):
            out.isetitem(j, out.iloc[:, j].astype(object).map(changed))
    return out


def _write_csv(frame: pd.DataFrame, handle: Any, sep: str = ",") -> None:
    without_formulas(frame).to_csv(handle, index=False, sep=sep, mode="wb")


def _write_json(frame: pd.DataFrame, handle: Any, lines: bool = False) -> None:
    handle.write(frame.to_json(orient="records", lines=lines).encode())


def _write_excel(frame: pd.DataFrame, handle: Any) -> None:
    frame = _texts(frame, lambda text: NO_XML.sub("\N{REPLACEMENT CHARACTER}", text))
    with pd.ExcelWriter(handle, engine="openpyxl") as book:
        frame.to_excel(book, index=False)
        for row in book.book.active.iter_rows():
            for cell in row:
                if cell.data_type == "f":  # openpyxl treats text that begins with = as a formula
                    cell.data_type, cell.quotePrefix = "s", True


WRITERS: dict[str, Callable[[pd.DataFrame, Any], None]] = {
    ".csv": _write_csv,
    ".tsv": partial(_write_csv, sep="\t"),
    ".json": _write_json,
    **dict.fromkeys((".jsonl", ".ndjson"), partial(_write_json, lines=True)),
    ".xlsx": _write_excel,
    **dict.fromkeys((".parquet", ".pq"), partial(pd.DataFrame.to_parquet, index=False)),
}


def _kind(path: Path) -> str:
    parts = [part.lower() for part in path.suffixes[-2:]]
    return parts[0] if len(parts) == 2 and parts[1] == ".gz" else (parts or [""])[-1]


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _text(path: Path, size: int = 2**18) -> pd.DataFrame:
    """A table of text; separator and encoding are detected from the first bytes."""
    with _opened(path) as handle:
        sample = handle.read(size)
    wide = sample[:2] in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252", "latin-1"):
        try:
            text = sample.decode(encoding, "ignore" if len(sample) == size else "strict")
            options: dict[str, Any] = {"dtype": str, "keep_default_na": False, "index_col": False}
            return pd.read_csv(path, sep=separator_of(text), encoding=encoding, **options)
        except UnicodeDecodeError:
            continue
    raise ValueError(f"{path} holds no text.")


def separator_of(text: str) -> str:
    """The separator for which most lines have as many cells as the first, and more than one."""
    lines = text.splitlines()[:200]
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a cell may be long

    def fitness(sign: str) -> tuple[int, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=sign) if row]
        first = widths[0] if widths else 0
        return (sum(width == first for width in widths) if first > 1 else 0, first)

    return max(",;\t|", key=fitness)


def _json(path: Path) -> pd.DataFrame:
    """Records in a list, or one per line; columns by name."""
    with _opened(path) as handle:
        text = handle.read().decode("utf-8-sig")
    try:
        held = json.loads(text)
    except json.JSONDecodeError:
        held = [json.loads(line) for line in text.splitlines() if line.strip()]
    try:
        return pd.DataFrame(held) if isinstance(held, dict) else pd.json_normalize(held)
    except Exception as error:  # pandas raises several types, some without a message
        raise ValueError(
            "it holds neither a list of records nor columns by name; write it anew, for instance "
            "by frame.to_json(path, orient='records')"
        ) from error


def _arrow(path: Path) -> pd.DataFrame:
    import pyarrow as pa

    with path.open("rb") as handle:
        try:
            return pa.ipc.open_file(handle).read_all().to_pandas()
        except pa.ArrowInvalid:  # written in the stream format
            handle.seek(0)
            return pa.ipc.open_stream(handle).read_all().to_pandas()


def _duckdb(path: Path) -> pd.DataFrame:
    import duckdb

    with duckdb.connect(str(path), read_only=True) as base:
        names = [name for (name,) in base.sql("show tables").fetchall()]
        if len(names) != 1:
            raise ValueError(
                f"{path} has the tables {names}; write the one that is meant to a file."
            )
        quoted = '"' + names[0].replace('"', '""') + '"'
        return base.sql(f"select * from {quoted}").df()


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".tab"), _text),
    **dict.fromkeys((".xlsx", ".xls"), pd.read_excel),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), _json),
    **dict.fromkeys((".parquet", ".pq"), pd.read_parquet),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _arrow),
    ".duckdb": _duckdb,
}


def as_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with numeric text converted to numbers, for models without a cleaner."""
    out = {}
    for name in frame:
        out[name] = frame[name].replace("", None) if frame[name].dtype.kind in "OT" else frame[name]
        with suppress(ValueError, TypeError):
            out[name] = pd.to_numeric(out[name])
    return pd.DataFrame(out)
