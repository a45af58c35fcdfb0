"""Regularisation path: coefficients as a function of the scale of the prior."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for, feature_names, machine_for


def coefficient_path(
    estimator: Any, X: Any, y: Any, nus: Any, *, label: Any = None, sample_weight: Any = None
) -> tuple[Array, Array]:
    """Fit a lasso or bridge prior over a grid of scales, each fit warm-started at the previous one.

    The grid runs from the weakest penalty to the strongest, so that coefficients shrink to zero:
    with a power below 1, a coefficient that has reached zero stays zero.

    Parameters
    ----------
    estimator : BayesianLinearSVC
        With ``prior="lasso"``, ``"bridge"`` or an object with a ``nu``, and ``inference="em"``;
        alone, as the last step of a pipeline, or in a search.
    X, y : array-like
        Observations and labels.
    nus : array-like of shape (k,)
        Scales, positive, in any order.
    label : object, optional
        Class whose coefficients are returned; by default the last.
    sample_weight : array-like, optional
        Weights of rows.

    Returns
    -------
    nus : array of shape (k,)
        Scales, ascending.
    coefs : array of shape (k, p)
        Coefficients for each scale; of standardised columns if the estimator standardises.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC
    >>> from bayesvm.plot import coefficient_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLinearSVC("lasso", "em", likelihood="hinge")
    >>> nus, coefs = coefficient_path(model, X, y, [0.01, 0.1])
    >>> (coefs != 0).sum(axis=1)
    array([ 6, 12])
    """
    from ..estimators.linear import BayesianLinearSVC
    from ..estimators.options import choose_prior, choose_scheme
    from ..inference import EM

    estimator, X, _ = _prepared(estimator, X, y)
    if not isinstance(estimator, BayesianLinearSVC):
        raise ValueError(f"only BayesianLinearSVC has a path; got {type(estimator).__name__}.")
    scheme = choose_scheme(estimator.inference, None, None)
    prior = choose_prior(estimator.prior, scheme)
    if not prior.implements("corner") or not isinstance(scheme, EM):
        raise ValueError(
            "a path needs inference='em' and a prior with a scale nu: prior='lasso', 'bridge' or "
            f"an object; got prior={estimator.prior!r}, inference={estimator.inference!r}."
        )
    nus = np.sort(np.atleast_1d(np.asarray(nus, dtype=float)))
    model = clone(estimator).set_params(warm_start=True)
    coefs = []
    with warnings.catch_warnings():  # predictions under a strong penalty are poor by design
        warnings.filterwarnings("ignore", message="leave-one-out predictions of")
        for nu in nus[::-1]:
            model.set_params(prior=replace(prior, nu=float(nu)))
            model.fit(X, y, sample_weight=sample_weight)
            machine, j, _ = machine_for(model, label)
            coefs.append(model.coef_[j] * machine.model.find("coef")[0].design.scale)
    return nus, np.stack(coefs[::-1])


def _prepared(estimator: Any, X: Any, y: Any) -> tuple[Any, Any, list[str]]:
    """The linear estimator, rows transformed by the earlier steps, and column names."""
    inside, names = Inside.of(estimator), None
    for steps in inside.before:
        steps = clone(steps)
        X = steps.fit_transform(X, y)
        names = feature_names(steps, names)
    return inside.model, X, names or []


@dataclass(repr=False)
class PathDisplay(Display):
    """Regularisation path of coefficients, and the number of nonzero coefficients.

    Parameters
    ----------
    names : list of str of length p
        Coefficients.
    nus, coefs : arrays of shape (k,) and (k, p)
        Scales, ascending, and coefficients for each scale.
    best : float, optional
        A scale to mark, such as the learned one.

    References
    ----------
    Polson & Scott (2011), Fig. 1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLinearSVC("lasso", "em", likelihood="hinge")
    >>> plot.PathDisplay.from_estimator(model, X, y, nus=[0.01, 0.1], top=5).counts
    array([ 6, 12])
    """

    names: list[str]
    nus: Array
    coefs: Array
    best: float | None = None

    @property
    def counts(self) -> np.ndarray:
        """Number of nonzero coefficients at each scale."""
        return np.count_nonzero(self.coefs, axis=1)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, nus: Any = None, names: Sequence[str] | None = None,
        best: float | None = None, label: Any = None, **kwargs: Any,
    ) -> PathDisplay:  # fmt: skip
        """Compute the path of :func:`coefficient_path` and draw it.

        ``nus`` is by default 20 scales from 0.001 to 10.
        """
        grid = np.geomspace(1e-3, 10.0, 20) if nus is None else nus
        model, X, made = _prepared(estimator, X, y)
        grid, coefs = coefficient_path(model, X, y, grid, label=label)
        if names is None:
            names = list(getattr(X, "columns", made))
            names = names or [f"x{j}" for j in range(coefs.shape[1])]
        return cls([str(name) for name in names], grid, coefs, best).plot(**kwargs)

    def plot(self, ax: Any = None, *, top: int = 10, **kwargs: Any) -> PathDisplay:
        """Draw on two Axes; the ``top`` largest coefficients at the largest scale are named."""
        upper, lower = axes_for(self, ax, 2, 1, (6.4, 3.2), sharex=True)
        loud = np.argsort(-np.abs(self.coefs[-1]), kind="stable")[:top]
        for j in range(self.coefs.shape[1]):
            named = {"label": self.names[j]} if j in loud else {"color": "0.75", "zorder": 1}
            upper.plot(self.nus, self.coefs[:, j], **({"linewidth": 1.0} | named | kwargs))
        lower.step(self.nus, self.counts, where="mid", color="black")
        for panel in (upper, lower):
            panel.set_xscale("log")
            if self.best is not None:
                panel.axvline(self.best, color="0.4", linewidth=0.8, linestyle=":")
        upper.set_ylabel("standardised coefficient")
        upper.legend(fontsize="x-small", ncols=2)
        lower.set(xlabel="scale ν of the prior", ylabel="nonzero coefficients")
        lower.yaxis.get_major_locator().set_params(integer=True)
        return self
