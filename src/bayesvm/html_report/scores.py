"""Scores of predictions of rows left out, with intervals by resampling of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import beta
from sklearn.metrics import precision_recall_curve, roc_curve

from ..core.types import Array
from ..inspection.tables import pandas_for, tails
from .judged import MODEL, Judged

REPEATS = 400  # of the resampling: ends of 90 % intervals vary by a twentieth of their width
BINS, BIN_ROWS = 10, 20  # of the reliability curve: bins, and rows in each at least
METRICS = ("log_loss", "brier", "error", "auc")
LEAST = 1e-15  # probability below which a log loss is cut


def scores(judged: Judged, level: float = 0.9) -> Any:
    """Log loss, Brier score, error and AUC of each model, as a data frame.

    Intervals are percentiles over resampled rows (groups of them, where folds leave out groups);
    the resampled rows are the same for all models, so that differences are compared in pairs.
    """
    pd, ends = pandas_for("scores"), tails(level)
    draws = _resampled(judged)
    values = {name: _all(judged, P, draws) for name, P in judged.proba.items()}
    rows = []
    for name, (point, repeated) in values.items():
        for j, metric in enumerate(METRICS):
            gap = repeated[:, j] - values[MODEL][1][:, j]
            row = [name, metric, point[j], *np.quantile(repeated[:, j], ends)]
            row += [point[j] - values[MODEL][0][j], *np.quantile(gap, ends)]
            rows.append(row)
    stems = ["", "difference"]
    names = [f"{stem}{end}" for stem in stems for end in ("", "_lower", "_upper")]
    names[:3] = ["value", "lower", "upper"]
    return pd.DataFrame(rows, columns=["model", "metric", *names]).set_index(["model", "metric"])


def by_fold(judged: Judged) -> Any:
    """The same scores in each fold, a row for each fold and model."""
    pd, rows = pandas_for("scores"), []
    for fold in np.unique(judged.folds):
        some = judged.folds == fold
        weights = judged.weights[None, some]
        for name, P in judged.proba.items():
            found = _repeated(judged.codes[some], P[some], weights)[0]
            rows.append([fold, name, *found])
    return pd.DataFrame(rows, columns=["fold", "model", *METRICS])


def _resampled(judged: Judged) -> Array:
    """How often each row counts: as given in the first line, then resampled."""
    n = int(judged.units.max()) + 1
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=REPEATS)
    return np.vstack([np.ones(judged.units.size), drawn[:, judged.units]]) * judged.weights


def _all(judged: Judged, P: Array, draws: Array) -> tuple[Array, Array]:
    found = _repeated(judged.codes, P, draws)
    return found[0], found[1:]


def _repeated(codes: Array, P: Array, draws: Array) -> Array:
    """Scores for each line of weights, ``(lines, metrics)``."""
    n, K = P.shape
    hit = codes[:, None] == np.arange(K)
    loss = -np.log(np.clip(P[np.arange(n), codes], LEAST, None))
    brier = np.sum((P - hit) ** 2, axis=1) / (2 if K == 2 else 1)
    each = np.stack([loss, brier, P.argmax(axis=1) != codes], axis=1)
    plain = draws @ each / draws.sum(axis=1, keepdims=True)
    some = [1] if K == 2 else [k for k in range(K) if 0 < hit[:, k].sum() < n]
    areas = np.mean([auc(hit[:, k], P[:, k], draws) for k in some], axis=0) if some else np.nan
    return np.column_stack([plain, np.broadcast_to(areas, len(plain))])


def auc(hit: Array, p: Array, draws: Array) -> Array:
    """Area under the ROC curve for each line of weights: ties count half."""
    order = np.argsort(p, kind="stable")
    first = np.flatnonzero(np.diff(p[order], prepend=-1.0))  # of each run of equal values
    yes = np.add.reduceat(np.where(hit[order], draws[:, order], 0.0), first, axis=1)
    no = np.add.reduceat(np.where(hit[order], 0.0, draws[:, order]), first, axis=1)
    below = np.cumsum(no, axis=1) - 0.5 * no
    pairs = yes.sum(axis=1) * no.sum(axis=1)
    out: Array = np.sum(yes * below, axis=1) / np.where(pairs > 0, pairs, np.nan)
    return out


def reliability(judged: Judged, level: float = 0.9) -> Any:
    """Observed frequency against predicted probability in bins of equally many rows.

    Of two classes the probability of the second; of more that of the label given.  Intervals of
    frequencies are Jeffreys'; ``sure_lower`` and ``sure_upper`` are the mean ends of the intervals
    of the probabilities.
    """
    pd, (low, high) = pandas_for("reliability"), tails(level)
    n, K = judged.P.shape
    label = np.full(n, 1) if K == 2 else judged.P.argmax(axis=1)
    at = np.arange(n), label
    p, hit = judged.P[at], (judged.codes == label).astype(float)
    bins = max(1, min(BINS, n // BIN_ROWS))
    order, rows = np.argsort(p, kind="stable"), []
    for some in np.array_split(order, bins):
        w = judged.weights[some] * (some.size / judged.weights[some].sum())
        yes = float(w @ hit[some])
        ends = beta.ppf([low, high], yes + 0.5, some.size - yes + 0.5)
        row = [some.size, float(w @ p[some]) / some.size, yes / some.size, *ends]
        if judged.lower is not None and judged.upper is not None:
            row += [float(w @ end[at][some]) / some.size for end in (judged.lower, judged.upper)]
        rows.append(row)
    names = ["rows", "predicted", "observed", "lower", "upper", "sure_lower", "sure_upper"]
    return pd.DataFrame(rows, columns=names[: len(rows[0])])


def curves(judged: Judged, classes: Array) -> tuple[Any, Any]:
    """ROC and precision-recall curves of each class (of two, the second), as data frames."""
    pd, K = pandas_for("curves"), len(classes)
    roc, pr = [], []
    for k in [1] if K == 2 else range(K):
        hit, p = judged.codes == k, judged.P[:, k]
        if not 0 < hit.sum() < hit.size:
            continue
        x, y, t = roc_curve(hit, p, sample_weight=judged.weights)
        roc.append(pd.DataFrame({"class": classes[k], "threshold": t, "fpr": x, "tpr": y}))
        y, x, t = precision_recall_curve(hit, p, sample_weight=judged.weights)
        t = np.append(t, np.inf)
        frame = {"class": classes[k], "threshold": t, "recall": x, "precision": y}
        pr.append(pd.DataFrame(frame))
    empty = pd.DataFrame()
    return (
        (pd.concat(roc, ignore_index=True), pd.concat(pr, ignore_index=True))
        if roc
        else (
            empty,
            empty,
        )
    )


def thresholds(judged: Judged) -> Any:
    """Rows of two classes by their label and by whether P reaches a threshold, as a data frame."""
    pd, grid = pandas_for("thresholds"), np.arange(1, 100) / 100
    p, hit = judged.P[:, 1], judged.codes == 1
    above = p[None] >= grid[:, None] - 1e-12
    table = {
        "tp": (above & hit).sum(axis=1),
        "fp": (above & ~hit).sum(axis=1),
        "fn": (~above & hit).sum(axis=1),
        "tn": (~above & ~hit).sum(axis=1),
    }
    return pd.DataFrame(table, index=pd.Index(grid, name="threshold"))


def confusion(judged: Judged, classes: Array) -> Any:
    """Rows by true class (lines) and most probable class (columns), as a data frame."""
    pd, K = pandas_for("confusion"), len(classes)
    counts = np.bincount(judged.codes * K + judged.P.argmax(axis=1), minlength=K * K)
    index, columns = pd.Index(classes, name="true"), pd.Index(classes, name="given")
    return pd.DataFrame(counts.reshape(K, K), index=index, columns=columns)
