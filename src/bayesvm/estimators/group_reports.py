"""Reports of effects of groups, as properties of the estimators that have them."""

from __future__ import annotations

from typing import Any

from ..core.types import Array
from ..inspection.effects import GroupEffects
from ..predictive.fit import Fit


class GroupReports:
    """Properties that estimators with groups take over; it is no base of theirs."""

    _group_effects: GroupEffects

    def _fitted(self) -> Fit:
        raise NotImplementedError  # of the estimator

    @property
    def _effects(self) -> GroupEffects:
        self._fitted()
        return self._group_effects

    @property
    def factors_(self) -> list[str]:
        """Names of the grouping factors; empty if there are no groups."""
        return list(self._effects.levels.names)

    @property
    def levels_(self) -> dict[str, Array]:
        """Labels of the groups of each factor."""
        return self._effects.labels

    @property
    def random_effects_(self) -> Any:
        """Effects of every group, as a data frame.

        Indexed by factor, level and effect (and class, for more than two): mean, sd, and the lower
        and upper ends of 90 % intervals; under EM only the estimate.  An intercept is that at zero
        of the columns as given; a slope is per unit of its column.
        """
        return self._effects.random_effects()

    def random_effects_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the intervals of ``random_effects_`` with mass ``level``."""
        return self._effects.interval(self._effects.random_effects(level))

    @property
    def variance_components_(self) -> Any:
        """Variances and correlations of the effects of groups, as a data frame.

        Indexed by factor and component (and class, for more than two): mean, and the lower and
        upper ends of 90 % intervals, under EM those of the variational fit that learned them.
        Where one factor has up to three effects for each group, VB integrates them out by
        quadrature: on the toenail data the variance of patients is 16.8 (12.1 to 22.6), by Gibbs
        17.0 (12.1 to 22.9).  Other variances that are learned and not drawn are too small, and
        their intervals too narrow; a column ``note`` marks them.
        """
        return self._effects.variance_components()

    def variance_components_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the intervals of ``variance_components_`` with mass ``level``."""
        return self._effects.interval(self._effects.variance_components(level))

    @property
    def intraclass_share_(self) -> Any:
        r"""Share of the groups in the variance that the columns leave, as a data frame.

        .. math::

            \frac{\bar v_b}{\sum_k \bar v_k + \pi^2 / 3a^2}, \qquad
            \bar v_b = \frac{\sum_i c_i z_{bi}^\top \Sigma_b z_{bi}}{\sum_i c_i},

        with the variance of a factor's effects averaged over the training rows, and that of a
        logistic variable on the scale of f: *a* is the slope of the log odds at f = 0 under the
        link.  For the logistic likelihood with ``probability="normalised"`` a = 1.
        Indexed by factor (and class, for more than two): mean, the ends of 90 % intervals, and a
        ``note`` where the variances are biased, see ``variance_components_``.
        """
        return self._effects.intraclass_share()

    def intraclass_share_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the intervals of ``intraclass_share_`` with mass ``level``."""
        return self._effects.interval(self._effects.intraclass_share(level))
