"""Input of the wrong kind is refused in plain words, and never read as something else."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from bayesvm import (
    PCVC,
    RVC,
    AdditiveSVC,
    BayesianLinearSVC,
    BayesianSVC,
    FactorSVC,
    MixedSVC,
    data,
)
from bayesvm.inference import Gibbs
from bayesvm.sparse_kernel import Power
from bayesvm.terms import Columns, Intercept

pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
RNG = np.random.default_rng(0)
N, P = 40, 4
X = RNG.standard_normal((N, P))
Y = (X[:, 0] + 0.5 * RNG.standard_normal(N) > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["age", "dose", "size", "mass"])
MODELS = {
    "linear": BayesianLinearSVC(),
    "mixed": MixedSVC(),
    "kernel": BayesianSVC(tune=False),
    "vectors": PCVC(tune=False),
    "relevance": RVC(tune=False),
    "factors": FactorSVC(1, "linear"),
    "additive": AdditiveSVC([("level", Intercept()), ("all", Columns())]),
}
SHORT = Gibbs(draws=4, burn_in=2, chains=2)


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


def first(values, other):
    """Values as objects, the first of them another."""
    out = np.array(list(values), dtype=object)
    out[0] = other
    return out


@pytest.mark.parametrize(
    "rows",
    ["hello", None, 3.5, {"a": 1}, (row for row in X)],
    ids=["text", "none", "number", "dict", "generator"],
)
def test_what_is_no_table_is_refused(model, rows):
    with pytest.raises(ValueError, match="X must be a table of numbers"):
        model.fit(rows, Y)
    with pytest.raises(ValueError, match="X must be a table of numbers"):
        model.fit(X, Y).predict_proba(rows)


def test_rows_of_several_lengths_are_refused(model):
    with pytest.raises(ValueError, match="same number of cells; got rows of 1, 2 cells"):
        model.fit([[1.0, 2.0], [3.0]] * (N // 2), Y)


DAYS = np.arange(N).astype("M8[D]")
TIMES = {
    "column of a frame": (lambda: FRAME.assign(dose=DAYS), "column 'dose'"),
    "durations of a frame": (lambda: FRAME.assign(dose=DAYS - DAYS[0]), "column 'dose'"),
    "array": (lambda: np.tile(DAYS[:, None], (1, P)), "columns 0, 1, 2, 3"),
    "array of durations": (lambda: np.tile((DAYS - DAYS[0])[:, None], (1, P)), "columns 0, 1"),
    "cells": (lambda: np.array([[*row[1:], day] for row, day in zip(X, DAYS)], object), "column 3"),
    "list": (lambda: [[*row[1:], day] for row, day in zip(X, DAYS)], "column 3"),
    "polars": (lambda: pl.DataFrame(FRAME.assign(dose=DAYS).to_dict("series")), "column 'dose'"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_dates_and_times_are_no_numbers(model, kind):
    make, where = TIMES[kind]
    with pytest.raises(ValueError, match=f"{where}.* of X holds? dates or times"):
        model.fit(make(), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that the training rows did not have
        with pytest.raises(ValueError, match="dates or times"):
            model.fit(X, Y).predict_proba(make())


@pytest.mark.parametrize("dtype", ["M8[D]", complex])
def test_sources_are_of_real_numbers(dtype, tmp_path):
    rows = np.arange(4 * N).reshape(N, 4).astype(dtype)
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(ValueError, match=r"real numbers|dates or times"):
        BayesianLinearSVC().fit(data.from_memmap(tmp_path / "rows.npy", Y))
    with pytest.raises(ValueError, match=r"real numbers|dates or times"):
        BayesianLinearSVC().fit(data.from_iterable(lambda: [(rows, Y)]))


def test_masked_cells_are_missing(model):
    rows = np.ma.masked_array(X, X > 1.5)
    gaps = np.where(X > 1.5, np.nan, X)
    want = clone(model).fit(gaps, Y).predict_proba(gaps)
    np.testing.assert_allclose(
        clone(model).fit(rows, Y).predict_proba(rows), want, rtol=1e-6, atol=1e-9
    )
    model.set_params(missing="error")
    with pytest.raises(ValueError, match=f"NaN: {(X > 1.5).sum()} cell"):
        model.fit(rows, Y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(X, Y).predict(rows)


@pytest.mark.parametrize(
    "cells",
    [[{"k": 1}] * N, [[1, 2]] * N, [np.ones(2)] * N, [(1, 2)] * N],
    ids=["records", "lists", "arrays", "tuples"],
)
@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame])
def test_lists_and_records_are_no_cells(kind, cells):
    frame = kind({"a": X[:, 0], "b": cells})
    with pytest.raises(ValueError, match="column 'b' of X holds lists or records"):
        BayesianLinearSVC().fit(frame, Y)


@pytest.mark.parametrize("frame", [pl.DataFrame(), pd.DataFrame(index=range(N))], ids=["pl", "pd"])
def test_a_frame_without_columns_is_refused(frame):
    with pytest.raises(ValueError, match="X has no columns"):
        BayesianLinearSVC().fit(frame, Y)


def test_a_lazy_frame_is_refused(model):
    with pytest.raises(ValueError, match=r"give X\.collect\(\)"):
        model.fit(pl.LazyFrame({"a": X[:, 0]}), Y)


def test_two_columns_of_one_name_are_refused(model):
    frame = FRAME.set_axis(["age", "dose", "age", "mass"], axis="columns")
    with pytest.raises(ValueError, match="X has 2 columns named 'age'"):
        model.fit(frame, Y)


def test_whole_numbers_that_are_rounded_are_warned_of(model):
    """2**53 + 1 is no float of double precision."""
    frame = FRAME.assign(dose=2**53 + 1 + 2**50 * np.arange(N), size=np.arange(N))
    with pytest.warns(UserWarning, match=r"column 'dose' of X holds whole numbers beyond 2\*\*53"):
        model.fit(frame, Y)


TEXT = np.where(Y, "yes", "no").astype(object)
GONE = {
    "NaT": np.where(np.arange(N) == 0, np.datetime64("NaT"), Y.astype("M8[D]")),
    "no duration": np.where(np.arange(N) == 0, np.timedelta64("NaT"), Y.astype("m8[D]")),
    "Timestamps": first(pd.to_datetime(Y.astype("M8[D]")), pd.NaT),
    "None": first(Y, None),
    "None beside text": first(TEXT, None),
    "NaN beside text": first(TEXT, np.nan),
    "list": [None, *TEXT[1:]],
    "NA": pd.array([pd.NA, *Y[1:]], dtype="Int64"),
    "NA beside text": pd.array([pd.NA, *TEXT[1:]], dtype="string"),
    "category": pd.Categorical(first(TEXT, None)),
    "masked": np.ma.masked_array(Y, np.arange(N) == 0),
}


@pytest.mark.parametrize("kind", GONE)
def test_a_missing_label_is_no_class(model, kind):
    with pytest.raises(ValueError, match="Input y contains NaN: 1 of 40 labels are missing"):
        model.fit(X, GONE[kind])


@pytest.mark.parametrize("make", [np.array, list], ids=["array", "list"])
def test_labels_of_several_kinds_are_refused(model, make):
    y = make([1 if k else "one" for k in Y]) if make is list else first(Y, "one")
    with pytest.raises(ValueError, match="must be of one kind; some are text, such as 'one'"):
        model.fit(X, y)


def test_labels_of_unknown_kind_are_named(model):
    with pytest.raises(ValueError, match="must be numbers, text or truth values; got Timestamp"):
        model.fit(X, np.array(list(pd.to_datetime(Y.astype("M8[D]"))), dtype=object))


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_labels_of_nullable_columns_keep_their_kind(model, dtype):
    model.fit(X, pd.array(Y, dtype=dtype))
    assert model.classes_.dtype == (np.int64 if dtype == "Int64" else bool)
    assert model.predict(X).dtype == model.classes_.dtype


def test_score_explains_its_labels_too(model):
    model.fit(X, Y)
    with pytest.raises(ValueError, match="1 of 40 labels are missing"):
        model.score(X, first(Y, None))
    with pytest.raises(ValueError, match="must be of one kind"):
        model.score(X, first(Y, "one"))


@pytest.mark.parametrize(
    ("classes", "message"),
    [([0, 1, "two"], "must be of one kind"), ([0, 1, np.nan], "1 of 3 labels are missing")],
)
def test_classes_of_a_stream_are_checked_like_labels(classes, message):
    with pytest.raises(ValueError, match=message):
        BayesianLinearSVC().partial_fit(X, Y, classes=classes)


WEIGHTS = {
    "complex": (np.ones(N) + 1j, "must be real numbers, one for each row"),
    "list": ([1 + 0j] * N, "must be real numbers"),
    "text": (["1"] * N, "must be real numbers"),
    "one text": ("2", "must be real numbers"),
    "masked": (np.ma.masked_array(np.ones(N), np.arange(N) == 0), "has masked values"),
    "balanced": ("balanced", "To weigh classes instead, set class_weight="),
    "dict": ({0: 1.0, 1: 2.0}, "To weigh classes instead, set class_weight="),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_are_real_numbers(kind):
    weights, message = WEIGHTS[kind]
    with pytest.raises(ValueError, match=f"sample_weight.*{message}"):
        BayesianLinearSVC().fit(X, Y, sample_weight=weights)


def test_weights_on_a_cluster_are_real_numbers():
    da = pytest.importorskip("dask.array")
    rows, y = da.from_array(X, chunks=20), da.from_array(Y, chunks=20)
    for weights in ("balanced", da.from_array(np.ones(N) + 1j, chunks=20)):
        with pytest.raises(ValueError, match="sample_weight must be real numbers"):
            BayesianLinearSVC().fit(rows, y, sample_weight=weights)
    with pytest.raises(ValueError, match="X must hold real numbers"):
        BayesianLinearSVC().fit(da.from_array(np.tile(DAYS[:, None], (1, 2)), chunks=20), y)


def test_a_masked_group_is_missing():
    groups = np.arange(N) % 5
    hidden = np.ma.masked_array(groups, np.arange(N) == 0)
    with pytest.raises(ValueError, match="1 of 40 rows have no value"):
        MixedSVC().fit(X, Y, groups=hidden)
    model = MixedSVC().fit(X, Y, groups=groups)
    want = model.predict_proba(X, groups=[None, *groups[1:]])
    np.testing.assert_allclose(model.predict_proba(X, groups=hidden), want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("groups", [first(np.arange(N), "a"), DAYS], ids=["mixed", "dates"])
def test_groups_that_cannot_match_are_refused(groups):
    model = MixedSVC().fit(X, Y, groups=np.arange(N) % 5)
    with pytest.raises(ValueError, match="none could match"):
        model.predict(X, groups=groups)


IDLE = {
    "linear by Gibbs": (
        BayesianLinearSVC(inference=SHORT, max_iter=5),
        "max_iter=5 has no effect with inference='gibbs'",
    ),
    "mixed by Gibbs": (
        MixedSVC(inference=SHORT, max_iter=5, tol=0.1),
        "max_iter=5, tol=0.1 have no effect with inference='gibbs'",
    ),
    "kernel by Gibbs": (BayesianSVC(tune=False, inference=SHORT, tol=0.1), "tol=0.1 has no"),
    "factors by Gibbs": (FactorSVC(1, "linear", SHORT, max_iter=5), "max_iter=5 has no"),
    "additive by Gibbs": (
        AdditiveSVC([("all", Columns())], SHORT, max_iter=5),
        "max_iter=5 has no effect with inference='gibbs'",
    ),
    "convex vectors": (
        PCVC(tune=False, max_iter=9, tol=0.1),
        "max_iter=9, tol=0.1 have no effect under weight_prior='laplace'",
    ),
    "folds of convex vectors": (
        PCVC(tune=False, n_folds=3),
        "n_folds=3 has no effect under weight_prior='laplace' unless norm_penalty=0",
    ),
    "power": (
        PCVC(weight_prior=Power(n_starts=0), tune=False, norm_penalty=1.0),
        "norm_penalty=1.0 has no effect under weight_prior='power'",
    ),
    "rate": (
        PCVC(tune=False, rate=1.0, selection="one_standard_error"),
        "selection='one_standard_error' has no effect where rate is given",
    ),
    "folds of relevance vectors": (RVC(tune=False, n_folds=3), "n_folds=3 has no effect unless"),
    "inducing points": (
        BayesianSVC(tune=False, n_inducing=7, inducing=X[:5]),
        "n_inducing=7 has no effect where inducing gives the points",
    ),
    "every row": (
        BayesianSVC(tune=False, n_inducing=None, approximation="fitc"),
        "approximation='fitc' has no effect with n_inducing=None",
    ),
    "no intercept": (
        BayesianLinearSVC(fit_intercept=False, intercept_scale=1.0),
        "intercept_scale=1.0 has no effect with fit_intercept=False",
    ),
}


@pytest.mark.filterwarnings("ignore:.*the chains do not agree")
@pytest.mark.parametrize("case", IDLE)
def test_parameters_without_effect_are_warned_of(case):
    model, message = IDLE[case]
    with pytest.warns(UserWarning, match=message) as said:
        model.fit(X, Y)
    idle = [w for w in said if "no effect" in str(w.message)]
    assert [w.filename for w in idle] == [__file__]  # where fit was called


WORDS = [
    (MixedSVC, "missing"),
    (BayesianSVC, "tune"),
    (BayesianSVC, "inference"),
    (PCVC, "weight_prior"),
    (RVC, "engine"),
]


@pytest.mark.parametrize(("kind", "name"), WORDS, ids=lambda x: getattr(x, "__name__", x))
def test_an_array_is_no_word(kind, name):
    """The message was numpy's, of truth values or of hashes."""
    with pytest.raises(ValueError, match=rf"{name}.*array"):
        kind(**{name: np.arange(3)}).fit(X, Y).predict(X)


def test_a_structured_array_is_refused_with_its_fields(model):
    rows = np.rec.fromarrays(X.T, names="a,b,c,d")
    with pytest.raises(ValueError, match="got a structured array"):
        model.fit(rows, Y)


def test_inducing_points_are_an_array():
    with pytest.raises(
        ValueError, match="inducing must be 'kmeans', 'optimise', 'random' or an array"
    ):
        BayesianSVC(inducing={"a": 1}).fit(X, Y)
