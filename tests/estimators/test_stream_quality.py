"""Streams: after every chunk as good as a fit to the rows so far."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from bayesvm import BayesianLinearSVC, BayesianSVC

LINEAR = BayesianLinearSVC(random_state=0)
KERNEL = BayesianSVC(random_state=0)
FEWEST = 100  # rows from which on the stream is judged
RATIO = 1.1  # of its log loss to that of a fit


def linear(n, seed, scale=1.0):
    """Five columns of unequal level and scale, logistic labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    y = (2.0 * X @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.logistic(size=n) > 0.5).astype(int)
    return scale * (X * np.exp(rng.standard_normal(5)) + 3.0 * rng.standard_normal(5)), y


def three(n, seed):
    """Five columns, three classes of a multinomial logit."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    p = np.exp(1.5 * X @ rng.standard_normal((5, 3)))
    share = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)
    return X, (share > rng.random((n, 1))).argmax(axis=1)


def moons(n, seed):
    return make_moons(n, noise=0.25, random_state=seed)


def judge(model, X, y, X_new, y_new, chunk, every=1, buffer=2000):
    """Log loss after every chunk (every k-th), over that of a fit and of the class frequencies.

    Held-out rows are those of classes met so far; a fit knows no others.
    """
    classes = np.unique(y_new)
    stream, judged = clone(model), 0
    ends = [1, *range(chunk, len(y), chunk), len(y)]  # the first chunk is one row, without a scale
    for k, (i, n) in enumerate(zip([0, *ends], ends, strict=False)):
        stream.partial_fit(X[i:n], y[i:n], classes=classes, buffer=buffer)
        met = np.unique(y[:n])
        if n < FEWEST or len(met) < 2 or (k % every and n < len(y)):
            continue
        known = np.isin(y_new, met)
        loss = {"stream": stream.predict_proba(X_new[known])}
        whole = np.zeros_like(loss["stream"])
        whole[:, np.isin(classes, met)] = clone(model).fit(X[:n], y[:n]).predict_proba(X_new[known])
        loss["fit"] = whole
        share = np.array([np.mean(y[:n] == k) for k in classes])
        loss["frequency"] = np.broadcast_to(share, whole.shape)
        loss = {name: log_loss(y_new[known], p, labels=classes) for name, p in loss.items()}
        assert loss["stream"] <= RATIO * loss["fit"], (n, loss)
        assert loss["stream"] <= loss["frequency"], (n, loss)
        judged += 1
    assert judged
    return stream


def split(make, n, seed, n_new=2000, **options):
    X, y = make(n + n_new, seed, **options)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.parametrize(("chunk", "n", "every"), [(10, 150, 4), (300, 3000, 3)])
def test_a_linear_stream_is_as_good_as_a_fit(chunk, n, every):
    judge(LINEAR, *split(linear, n, 0), chunk, every)


@pytest.mark.parametrize(("chunk", "n", "every"), [(30, 120, 1)])
def test_a_kernel_stream_is_as_good_as_a_fit(chunk, n, every):
    judge(KERNEL, *split(moons, n, 0), chunk, every)


def without_the_third_at_first(n, late, seed):
    """Three classes, the third of which has no rows among the first ``late``."""
    X, y, X_new, y_new = split(three, n, seed)
    rows = np.flatnonzero((y < 2) | (np.arange(n) >= late))
    return X[rows], y[rows], X_new, y_new


@pytest.mark.parametrize("late", [60, 150])
def test_a_class_may_first_appear_late(late):
    judge(LINEAR, *without_the_third_at_first(260, late, 0), 30, every=2)


@pytest.mark.parametrize("model", [LINEAR, KERNEL], ids=["linear", "kernel"])
def test_the_second_class_may_first_appear_late(model):
    """Rows sorted by label: while one class was met the stream predicts it, but not for sure."""
    X, y, X_new, y_new = split(linear if model is LINEAR else moons, 120, 1)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    stream = clone(model).partial_fit(X[:1], y[:1], classes=[0, 1])
    np.testing.assert_allclose(stream.predict_proba(X_new)[:, 1], 0.25)  # half a count of two
    first = np.count_nonzero(y == 0)
    stream = clone(model).partial_fit(X[:first], y[:first], classes=[0, 1])
    np.testing.assert_allclose(stream.predict_proba(X_new)[:, 1], 0.5 / (first + 1.0))
    judge(model, X, y, X_new, y_new, 20, every=2)


def test_a_stream_of_more_rows_than_the_buffer_is_as_good_as_a_fit():
    judge(LINEAR, *split(linear, 3000, 2), 300, every=5, buffer=400)


def test_rows_may_come_dense_and_then_sparse():
    """The columns are the same in either format, centred or not."""
    X, y, X_new, y_new = split(linear, 200, 3)
    mixed, dense = clone(LINEAR), clone(LINEAR)
    for i in range(0, 200, 20):
        rows = X[i : i + 20] if i % 40 == 0 else sparse.csr_array(X[i : i + 20])
        mixed.partial_fit(rows, y[i : i + 20], classes=[0, 1])
        dense.partial_fit(X[i : i + 20], y[i : i + 20], classes=[0, 1])
    np.testing.assert_allclose(mixed.predict_proba(X_new), dense.predict_proba(X_new), rtol=1e-10)
    fit = clone(LINEAR).fit(X, y)
    assert log_loss(y_new, mixed.predict_proba(X_new)) <= RATIO * log_loss(
        y_new, fit.predict_proba(X_new)
    )


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_columns_are_scaled_by_all_rows_so_far(scale):
    judge(LINEAR, *split(linear, 110, 4, scale=scale), 11)


@pytest.mark.parametrize("n", [30, 100])
def test_a_stream_goes_on_from_a_fit(n):
    """In chunks of one row."""
    X, y, X_new, y_new = split(linear, n + 40, 5)
    model = clone(LINEAR).fit(X[:n], y[:n])
    for i in range(n, n + 40):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        if i % 5 == 0 and i >= FEWEST:
            loss = [
                log_loss(y_new, k.predict_proba(X_new))
                for k in (model, clone(LINEAR).fit(X[: i + 1], y[: i + 1]))
            ]
            assert loss[0] <= RATIO * loss[1]
    frequency = log_loss(y_new, np.full(len(y_new), y.mean()))
    assert log_loss(y_new, model.predict_proba(X_new)) < frequency
