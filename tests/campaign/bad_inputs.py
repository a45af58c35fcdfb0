"""Inputs of every kind: which must be refused, which mean the same as a plain array, which may be
either refused or learned from."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from tests.campaign.judge import CLEAR, RIGHT

REFUSE, SAME, EITHER = "refuse", "same", "either"
DUE = {REFUSE: CLEAR, SAME: RIGHT, EITHER: None}  # the verdict that must be
NAN = float("nan")


def put(x, value, where=(1, 1)):
    """A copy with one cell replaced; of objects if the cell needs it."""
    x = np.array(x, dtype=object if not isinstance(value, float) else float)
    x[where[: x.ndim]] = value
    return x


def named(X):
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])


# X: name -> (what is expected, the input made of a plain array)

ROWS = {
    "list of lists": (SAME, lambda X: X.tolist()),
    "Fortran order": (SAME, np.asfortranarray),
    "every second row": (SAME, lambda X: np.repeat(X, 2, axis=0)[::2]),
    "reversed view": (SAME, lambda X: X[::-1].copy()[::-1]),
    "big endian": (SAME, lambda X: X.astype(">f8")),
    "float32": (SAME, lambda X: X.astype(np.float32)),
    "longdouble": (SAME, lambda X: X.astype(np.longdouble)),
    "objects": (SAME, lambda X: X.astype(object)),
    "decimals": (SAME, lambda X: np.vectorize(decimal.Decimal, otypes=[object])(X)),
    "frame": (SAME, lambda X: pd.DataFrame(X)),
    "frame, names": (SAME, named),
    "frame, Float64": (SAME, lambda X: named(X).astype("Float64")),
    "frame, Arrow": (SAME, lambda X: named(X).convert_dtypes(dtype_backend="pyarrow")),
    "polars": (SAME, lambda X: pl.DataFrame(named(X).to_dict("list"))),
    "None": (REFUSE, lambda X: None),
    "text": (REFUSE, lambda X: "hello"),
    "empty list": (REFUSE, lambda X: []),
    "no rows": (REFUSE, lambda X: X[:0]),
    "no columns": (REFUSE, lambda X: X[:, :0]),
    "one row as a vector": (REFUSE, lambda X: X[0]),
    "three axes": (REFUSE, lambda X: X[:, :, None]),
    "ragged": (REFUSE, lambda X: [row[: 1 + i % 3] for i, row in enumerate(X.tolist())]),
    "dict": (REFUSE, lambda X: {"a": 1}),
    "set": (REFUSE, lambda X: {1.0, 2.0}),
    "generator": (REFUSE, lambda X: (row for row in X)),
    "complex": (REFUSE, lambda X: X + 1j),
    "infinite cell": (REFUSE, lambda X: put(X, np.inf)),
    "text cell": (REFUSE, lambda X: put(X, "a")),
    "text cells": (EITHER, lambda X: X.astype("U8").astype("U9") + np.array("x")),
    "dates": (REFUSE, lambda X: (1e9 * X).astype("datetime64[s]")),
    "frame, dates": (REFUSE, lambda X: named(X).assign(c1=pd.Timestamp("2020-01-01"))),
    "frame, text": (EITHER, lambda X: named(X).assign(c1="a")),
    "np.matrix": (REFUSE, np.matrix),
    "structured": (REFUSE, lambda X: named(X).to_records(index=False)),
    "masked cell": ("nan", lambda X: np.ma.masked_equal(X, X[1, 1])),
    "nan cell": ("nan", lambda X: put(X, NAN)),
    "nan column": ("nan", lambda X: np.where(np.arange(X.shape[1]) == 1, NAN, X)),
    "None cell": ("nan", lambda X: put(X, None)),
    "frame, NA": ("nan", lambda X: named(X).astype("Float64").mask(np.equal(X, X[1, 1]))),
    "sparse": ("sparse", sparse.csr_array),
    "sparse, triples": ("sparse", sparse.coo_array),
    "sparse, infinite": (REFUSE, lambda X: sparse.csr_array(put(X, np.inf))),
    "integers": (EITHER, lambda X: (4 * X).astype(int)),
    "huge integers": (EITHER, lambda X: (4 * X).astype(int) * 2**55),
    "integers beyond 64 bits": (EITHER, lambda X: (4 * X).astype(int).astype(object) * 2**80),
    "unsigned": (EITHER, lambda X: (np.abs(4 * X)).astype(np.uint64)),
    "zeros": (EITHER, np.zeros_like),
    "constant column": (EITHER, lambda X: np.where(np.arange(X.shape[1]) == 1, 3.0, X)),
    "copied column": (EITHER, lambda X: X[:, [0, 0, 1]]),
    "one column": (EITHER, lambda X: X[:, :1]),
    "copied rows": (EITHER, lambda X: X[np.arange(len(X)) % 3]),
    "1e300": (EITHER, lambda X: 1e300 * X),
    "1e-300": (EITHER, lambda X: 1e-300 * X),
    "denormal": (EITHER, lambda X: 5e-324 * np.sign(X)),
    "scales of all sizes": (EITHER, lambda X: X * np.logspace(-300, 300, X.shape[1])),
    "far from zero": (EITHER, lambda X: X + 1e12),
    "one huge cell": (EITHER, lambda X: put(X, 1.7e308)),
    "frame, equal names": (EITHER, lambda X: pd.DataFrame(X, columns=["a"] * X.shape[1])),
    "frame, markup in names": (
        SAME,
        lambda X: pd.DataFrame(X, columns=["[/x]", "<b>", "a\nb"][: X.shape[1]]),
    ),
}

# y

LABELS = {
    "list": (SAME, lambda y: y.tolist()),
    "booleans": (SAME, lambda y: y.astype(bool)),
    "text": (SAME, lambda y: np.array(["a", "b"])[y]),
    "empty text": (SAME, lambda y: np.array(["", "b"])[y]),
    "markup": (SAME, lambda y: np.array(["[/red]", "[red]"])[y]),
    "minus one, one": (SAME, lambda y: 2 * y - 1),
    "whole floats": (SAME, lambda y: y.astype(float)),
    "huge": (SAME, lambda y: np.where(y, 2**62, -(2**62))),
    "series": (SAME, lambda y: pd.Series(y, index=np.arange(len(y)) + 5)),
    "series, Int64": (SAME, lambda y: pd.Series(y).astype("Int64")),
    "categorical series": (SAME, lambda y: pd.Series(pd.Categorical.from_codes(y, ["a", "b"]))),
    "polars series": (SAME, lambda y: pl.Series(y.tolist())),
    "column": (SAME, lambda y: y[:, None]),
    "None": (REFUSE, lambda y: None),
    "scalar": (REFUSE, lambda y: 1),
    "one class": (REFUSE, lambda y: 0 * y),
    "too short": (REFUSE, lambda y: y[:-1]),
    "empty": (REFUSE, lambda y: y[:0]),
    "continuous": (REFUSE, lambda y: y + np.linspace(0.1, 0.4, len(y))),
    "nan": (REFUSE, lambda y: np.where(np.arange(len(y)) == 3, NAN, y)),
    "None inside": (REFUSE, lambda y: put(np.array(["a", "b"], object)[y], None, (3,))),
    "nan among text": (REFUSE, lambda y: put(np.array(["a", "b"], object)[y], NAN + 0j, (3,))),
    "NA": (REFUSE, lambda y: pd.Series(y).astype("Int64").mask(np.arange(len(y)) == 3)),
    "NaT": (
        REFUSE,
        lambda y: np.where(y, np.datetime64("NaT"), np.datetime64("2020-01-01")),
    ),
    "complex": (REFUSE, lambda y: y + 1j),
    "text and numbers": (REFUSE, lambda y: put(y, "a", (3,))),
    "two columns": (REFUSE, lambda y: np.stack([y, y], axis=1)),
    "ragged": (REFUSE, lambda y: [[1] * (1 + i % 2) for i in range(len(y))]),
    "sparse": (REFUSE, lambda y: sparse.csr_array(y[:, None])),
    "masked": (REFUSE, lambda y: np.ma.masked_array(y, np.arange(len(y)) == 3)),
    "three classes": (EITHER, lambda y: y + (np.arange(len(y)) % 5 == 0)),
    "a class of one row": (EITHER, lambda y: (np.arange(len(y)) == 3).astype(int)),
    "a class for each row": (EITHER, lambda y: np.arange(len(y))),
    "dates": (
        EITHER,
        lambda y: np.where(y, np.datetime64("2021-01-01"), np.datetime64("2020-01-01")),
    ),
}

# sample_weight

WEIGHTS = {
    "None": (SAME, lambda y: None),
    "ones": (SAME, lambda y: np.ones(len(y))),
    "list": (SAME, lambda y: [1] * len(y)),
    "series": (SAME, lambda y: pd.Series(1.0, index=np.arange(len(y)) + 5)),
    "one number": (EITHER, lambda y: 1.0),
    "negative": (REFUSE, lambda y: put(np.ones(len(y)), -1.0)),
    "nan": (REFUSE, lambda y: put(np.ones(len(y)), NAN)),
    "infinite": (REFUSE, lambda y: put(np.ones(len(y)), np.inf)),
    "too short": (REFUSE, lambda y: np.ones(len(y) - 1)),
    "two columns": (REFUSE, lambda y: np.ones((len(y), 2))),
    "text": (REFUSE, lambda y: "balanced"),
    "complex": (REFUSE, lambda y: np.ones(len(y)) + 1j),
    "dates": (REFUSE, lambda y: np.full(len(y), np.datetime64("2020-01-01"))),
    "all zero": (REFUSE, lambda y: np.zeros(len(y))),
    "one class has none": (REFUSE, lambda y: (y == 1).astype(float)),
    "some zero": (EITHER, lambda y: (np.arange(len(y)) % 4 > 0).astype(float)),
    "1e-12": (EITHER, lambda y: np.full(len(y), 1e-12)),
    "1e-12 to 1e12": (EITHER, lambda y: np.logspace(-12, 12, len(y))),
    "1e300": (EITHER, lambda y: np.full(len(y), 1e300)),
    "denormal": (EITHER, lambda y: np.full(len(y), 5e-324)),
}

# groups (MixedSVC)

GROUPS = {
    "text": (SAME, lambda g: np.array(list("abcdef"))[g]),
    "series": (SAME, lambda g: pd.Series(g, index=g + 3)),
    "categorical": (SAME, lambda g: pd.Categorical.from_codes(g, list("abcdef"))),
    "column": (SAME, lambda g: g[:, None]),
    "too short": (REFUSE, lambda g: g[:-1]),
    "scalar": (REFUSE, lambda g: 1),
    "text itself": (REFUSE, lambda g: "hello"),
    "nan": (REFUSE, lambda g: put(g.astype(float), NAN)),
    "None": (EITHER, lambda g: None),
    "None inside": (REFUSE, lambda g: put(np.array(list("abcdef"), object)[g], None)),
    "two factors": (EITHER, lambda g: np.stack([g, g // 2], axis=1)),
    "all one": (EITHER, lambda g: 0 * g),
    "one for each row": (EITHER, lambda g: np.arange(len(g))),
}

# parameters: junk must be refused, numbers at the edge may be good

JUNK = {
    "an object": object(),
    "a word": "nonsense",
    "bytes": b"x",
    "an imaginary number": 1j,
    "NaN": NAN,
    "a dict": {"a": 1},
    "a list": [[1]],
    "an array": np.array([1.0, 2.0]),
    "a class": dict,
    "a function": lambda *a, **k: None,
}
NUMBERS = {
    "None": None,
    "True": True,
    "-1": -1,
    "0": 0,
    "1": 1,
    "0.5": 0.5,
    "1e300": 1e300,
    "1e-300": 1e-300,
    "infinity": np.inf,
    "2**70": 2**70,
    "the text 1": "1",
}
# what looks like junk and is a value that the parameter takes
TAKEN = {
    ("checkpoint", "a word"),  # a path
    ("checkpoint", "bytes"),
    ("kernel", "a function"),
    ("engine", "a function"),
    ("class_weight", "a dict"),
    ("inducing", "an array"),  # locations
    ("n_candidates", "an array"),
    ("random_state", "a list"),  # as numpy's seeds
    ("random_state", "an array"),
}
