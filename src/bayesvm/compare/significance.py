"""Tests for differences between classifiers, on one data set and over many."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from ..core.types import Array
from ..inspection.tables import pandas_for
from .evaluation import LOWER_IS_BETTER, score_table


class FTest(NamedTuple):
    """Statistic and p value of :func:`f_test_5x2`."""

    statistic: float
    pvalue: float


def f_test_5x2(differences: Any) -> FTest:
    r"""Combined 5x2cv F test: do two classifiers differ on one data set?

    With :math:`p_i^{(j)}` the difference of the scores on half :math:`j` of replication
    :math:`i`, :math:`\bar p_i` its mean over the halves and
    :math:`s_i^2 = \sum_j (p_i^{(j)} - \bar p_i)^2`,

    .. math:: f = \frac{\sum_{i=1}^5 \sum_{j=1}^2 (p_i^{(j)})^2}{2 \sum_{i=1}^5 s_i^2}

    is approximately F with 10 and 5 degrees of freedom if they do not.  (If the ten differences
    were independent and normal, :math:`2f - 1` would be F with 5 and 5 degrees of freedom, and f
    would exceed its 5 % critical value 4.74 in 1.8 % of cases: the test is conservative.)

    Parameters
    ----------
    differences : array-like of shape (5, 2) or (10,)
        Differences of the scores, with the two halves of a replication side by side.

    Returns
    -------
    result : FTest
        ``statistic``, ``pvalue``.  If all differences are zero, 0 and 1; if differences never vary
        within a replication, infinity and 0.

    References
    ----------
    Alpaydin (1999). Combined 5x2 cv F test for comparing supervised classification learning
    algorithms. Neural Computation 11, 1885-1892.  Dietterich (1998). Approximate statistical tests
    for comparing supervised classification learning algorithms. Neural Computation 10, 1895-1923.

    Examples
    --------
    >>> from bayesvm.compare import f_test_5x2
    >>> f_test_5x2([0.02, 0.03, 0.01, 0.03, 0.02, 0.02, 0.04, 0.03, 0.03, 0.02])
    FTest(statistic=9.857..., pvalue=0.0104...)
    """
    p = np.asarray(differences, float)
    if p.size != 10 or p.ndim > 2 or (p.ndim == 2 and p.shape != (5, 2)):
        raise ValueError(
            f"differences must be 5 replications of 2 halves; got an array of shape {p.shape}."
        )
    p = p.reshape(5, 2)
    if not np.isfinite(p).all():
        raise ValueError("differences must be finite numbers.")
    spread = ((p - p.mean(axis=1, keepdims=True)) ** 2).sum()
    if not p.any():
        return FTest(0.0, 1.0)
    statistic = float((p**2).sum() / (2 * spread)) if spread > 0 else np.inf
    return FTest(statistic, float(stats.f.sf(statistic, 10, 5)))


class Friedman(NamedTuple):
    """Result of :func:`friedman`."""

    names: list[str]  # of the k classifiers
    ranks: Array  # (k,) mean ranks, 1 the best
    n_datasets: int
    chi2: float  # Friedman's statistic, chi-squared with k - 1 degrees of freedom
    chi2_pvalue: float
    statistic: float  # Iman and Davenport, F with k - 1 and (k - 1)(n - 1) degrees of freedom
    pvalue: float


def friedman(scores: Any, lower_is_better: bool = False, tie_correction: bool = False) -> Friedman:
    r"""Friedman's test with the correction of Iman and Davenport: k classifiers on n data sets.

    With :math:`R_j` the mean rank of classifier :math:`j` (ties get average ranks),

    .. math::

        \chi_F^2 = \frac{12 n}{k (k + 1)} \Big\{\sum_j R_j^2 - \frac{k (k + 1)^2}{4}\Big\},
        \qquad F_F = \frac{(n - 1) \chi_F^2}{n (k - 1) - \chi_F^2} .

    Parameters
    ----------
    scores : DataFrame or array-like of shape (n, k)
        A row per data set, a column per classifier, as from :func:`~bayesvm.compare.score_table`.
    lower_is_better : bool, default=False
        Whether lower scores are better, as for errors.
    tie_correction : bool, default=False
        Divide :math:`\chi_F^2` by :math:`1 - \sum (t^3 - t) / \{n (k^3 - k)\}`, with :math:`t` the
        sizes of tied groups, as in :func:`scipy.stats.friedmanchisquare`; the tables of Demšar do
        not.

    Returns
    -------
    result : Friedman

    References
    ----------
    Demšar (2006). Statistical comparisons of classifiers over multiple data sets. J. Machine
    Learning Research 7, 1-30, section 3.2.2.  Iman and Davenport (1980). Approximations of the
    critical region of the Friedman statistic. Communications in Statistics A 9, 571-595.

    Examples
    --------
    >>> from bayesvm.compare import friedman
    >>> result = friedman([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.7, 0.8, 0.5], [0.9, 0.7, 0.6]])
    >>> result.ranks, round(result.pvalue, 3)
    (array([1.25, 1.75, 3.  ]), 0.007)
    """
    table = np.asarray(scores, float)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 2:
        raise ValueError(
            "scores must have a row per data set and a column per classifier, two of each at least;"
            f" got an array of shape {table.shape}."
        )
    if not np.isfinite(table).all():
        raise ValueError("scores must be finite: leave out data sets that not all could be run on.")
    n, k = table.shape
    names = [str(label) for label in getattr(scores, "columns", range(k))]
    if len(set(names)) < k:
        raise ValueError(f"columns of scores must have different names; got {', '.join(names)}.")
    each = stats.rankdata(table if lower_is_better else -table, axis=1) - (k + 1) / 2
    mean = each.mean(axis=0)
    # the sum of squared deviations of the ranks from their centre; ties reduce it
    spread = (each**2).sum() if tie_correction else n * k * (k**2 - 1) / 12
    chi2 = float(n**2 * (k - 1) * (mean**2).sum() / spread) if spread > 0 else 0.0
    rest = n * (k - 1) - chi2
    statistic = (n - 1) * chi2 / rest if rest > 1e-12 * n * k else np.inf
    pvalues = stats.chi2.sf(chi2, k - 1), stats.f.sf(statistic, k - 1, (k - 1) * (n - 1))
    ranks = mean + (k + 1) / 2
    return Friedman(names, ranks, n, chi2, float(pvalues[0]), float(statistic), float(pvalues[1]))


def critical_difference(
    k: int, n: int, alpha: float = 0.05, test: Literal["nemenyi", "bonferroni-dunn"] = "nemenyi"
) -> float:
    r"""Critical difference of mean ranks at level alpha: :math:`q_\alpha \sqrt{k (k + 1) / (6 n)}`.

    Parameters
    ----------
    k, n : int
        Numbers of classifiers and data sets.
    alpha : float, default=0.05
        Significance level.
    test : {'nemenyi', 'bonferroni-dunn'}, default='nemenyi'
        All pairs: :math:`q_\alpha` is the quantile of the studentised range of k, divided by
        :math:`\sqrt 2`.  All against one: the normal quantile at :math:`\alpha / \{2 (k - 1)\}`.

    Examples
    --------
    >>> from bayesvm.compare import critical_difference
    >>> round(critical_difference(4, 14), 2)  # Demšar (2006), section 3.2.2
    1.25
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1; got {alpha}.")
    if k < 2 or n < 1:
        raise ValueError(f"two classifiers and one data set at least; got k={k}, n={n}.")
    if test == "nemenyi":
        q = stats.studentized_range.isf(alpha, k, np.inf) / np.sqrt(2)
    elif test == "bonferroni-dunn":
        q = stats.norm.isf(alpha / (2 * (k - 1)))
    else:
        raise ValueError(f"test must be 'nemenyi' or 'bonferroni-dunn'; got {test!r}.")
    return float(q * _standard_error(k, n))


class Nemenyi(NamedTuple):
    """Result of :func:`nemenyi`."""

    names: list[str]  # of the k classifiers
    ranks: Array  # (k,) mean ranks, 1 the best
    critical_difference: float  # mean ranks that differ by more are significantly different
    alpha: float
    pvalues: Array  # (k, k) of each pair, adjusted for their number
    groups: list[list[str]]  # the largest groups without significant differences, best first


def nemenyi(scores: Any, alpha: float = 0.05, lower_is_better: bool = False) -> Nemenyi:
    """Nemenyi's post-hoc test of all pairs, after a significant Friedman test.

    Parameters
    ----------
    scores : DataFrame or array-like of shape (n, k)
        A row per data set, a column per classifier.
    alpha : float, default=0.05
        Family-wise significance level.
    lower_is_better : bool, default=False
        Whether lower scores are better.

    Returns
    -------
    result : Nemenyi

    References
    ----------
    Demšar (2006), section 3.2.2.

    Examples
    --------
    >>> from bayesvm.compare import nemenyi
    >>> nemenyi([[0.9, 0.8, 0.7]] * 10).groups
    [['0', '1'], ['1', '2']]
    """
    base = friedman(scores, lower_is_better)
    k, n = len(base.names), base.n_datasets
    cd = critical_difference(k, n, alpha)
    z = np.abs(base.ranks[:, None] - base.ranks) / _standard_error(k, n)
    pvalues = np.clip(stats.studentized_range.sf(z * np.sqrt(2), k, np.inf), 0.0, 1.0)
    np.fill_diagonal(pvalues, 1.0)
    order = np.argsort(base.ranks, kind="stable")
    ranks, groups, end = base.ranks[order], [], 0
    for start in range(k):  # maximal runs no longer than cd
        after = int(np.searchsorted(ranks, ranks[start] + cd, side="right"))
        if after > end:
            groups.append([base.names[j] for j in order[start:after]])
            end = after
    return Nemenyi(base.names, base.ranks, cd, alpha, pvalues, groups)


class BonferroniDunn(NamedTuple):
    """Result of :func:`bonferroni_dunn`."""

    control: str  # the control classifier
    names: list[str]  # of the others
    differences: Array  # (k - 1,) mean ranks minus the control's: positive if the control is better
    critical_difference: float  # larger differences are significant at the level alpha
    alpha: float
    pvalues: Array  # (k - 1,) adjusted for their number

    @property
    def significant(self) -> Array:
        """Whether each classifier differs from the control."""
        return np.abs(self.differences) > self.critical_difference


def bonferroni_dunn(
    scores: Any, control: Any, alpha: float = 0.05, lower_is_better: bool = False
) -> BonferroniDunn:
    """Bonferroni-Dunn test of all classifiers against a control, after a significant Friedman test.

    Parameters
    ----------
    scores : DataFrame or array-like of shape (n, k)
        A row per data set, a column per classifier.
    control : str or int
        The control classifier: the label of its column, this label as text, or the column number.
    alpha : float, default=0.05
        Family-wise significance level.
    lower_is_better : bool, default=False
        Whether lower scores are better.

    Returns
    -------
    result : BonferroniDunn

    References
    ----------
    Demšar (2006), section 3.2.2.  Dunn (1961). Multiple comparisons among means. J. American
    Statistical Association 56, 52-64.

    Examples
    --------
    >>> from bayesvm.compare import bonferroni_dunn
    >>> bonferroni_dunn([[0.9, 0.8, 0.7]] * 10, control=0).significant
    array([False,  True])
    """
    base = friedman(scores, lower_is_better)
    k, n = len(base.names), base.n_datasets
    at = _column(list(getattr(scores, "columns", range(k))), control)
    others = [j for j in range(k) if j != at]
    differences = base.ranks[others] - base.ranks[at]
    pvalues = np.minimum(
        1.0, (k - 1) * 2 * stats.norm.sf(np.abs(differences) / _standard_error(k, n))
    )
    cd, names = critical_difference(k, n, alpha, "bonferroni-dunn"), [base.names[j] for j in others]
    return BonferroniDunn(base.names[at], names, differences, cd, alpha, pvalues)


def win_loss_tie(
    frame: Any, control: Any, metric: str, lower_is_better: bool | None = None,
    alpha: float | None = None,
) -> Any:  # fmt: skip
    """Number of data sets on which each classifier wins, loses and ties against a control.

    Parameters
    ----------
    frame : DataFrame
        Result of :func:`~bayesvm.compare.evaluate`.
    control : str
        Name of the control classifier.
    metric : str
        The metric to compare.
    lower_is_better : bool, default=None
        ``None`` is ``True`` for 'error', 'log_loss', 'brier', 'rmse', 'n_vectors' and the seconds,
        and ``False`` for every other metric.
    alpha : float, default=None
        ``None`` compares the means.  With a level, only differences that the combined 5x2cv F test
        finds significant count, all others are ties; the frame must then contain the ten splits of
        :func:`~bayesvm.compare.five_by_two`.

    Returns
    -------
    table : DataFrame
        Columns ``win``, ``loss``, ``tie``; a row per classifier other than the control.  Data sets
        with a missing score (NaN) of either are not counted.
    """
    pd = pandas_for("win_loss_tie")
    table = score_table(frame, metric)
    control = table.columns[_column(list(table.columns), control)]
    lower = metric in LOWER_IS_BETTER if lower_is_better is None else lower_is_better
    sign = -1.0 if lower else 1.0
    part = frame[frame["metric"] == metric]
    groups = part.groupby(["dataset", "estimator"], sort=False)
    cells = {key: cell.sort_values("split")["value"].to_numpy() for key, cell in groups}
    rows = {}
    for name in table.columns.drop(control):
        verdicts = np.sign(sign * (table[name] - table[control]).to_numpy())
        if alpha is not None:
            for at in np.flatnonzero(np.isfinite(verdicts)):
                pair = (cells[table.index[at], which] for which in (name, control))
                verdicts[at] *= f_test_5x2(np.subtract(*pair)).pvalue < alpha
        rows[name] = [int((verdicts == v).sum()) for v in (1, -1, 0)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["win", "loss", "tie"])


def _column(labels: Sequence[Any], control: Any) -> int:
    """Position of the control, given by its label, the label as text, or its position."""
    if not isinstance(control, bool | np.bool_):
        for names in (labels, [str(label) for label in labels]):
            if control in names:
                return names.index(control)
        if isinstance(control, Integral) and 0 <= int(control) < len(labels):
            return int(control)
    raise ValueError(
        f"control must be one of {', '.join(map(repr, labels))}, or a column below {len(labels)}; "
        f"got {control!r}."
    )


def _standard_error(k: int, n: int) -> float:
    """Standard error of the difference of two mean ranks."""
    return float(np.sqrt(k * (k + 1) / (6 * n)))
