"""What a kernel machine has to report: its kernel's parameters and draws of its function."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.types import Array
from ..estimators import choices as check
from ..estimators._base import BayesianClassifier, arviz_tree, pandas_for
from ..machines.diagnostics import ess, r_hat


class KernelReport(BayesianClassifier):
    """Tables and exports of a machine with a kernel."""

    def summary(self, level: float = 0.9) -> Any:
        """Parameters of the kernel, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval, where parameters were drawn.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by name: the value that was learned or given; with ``tune="sample"`` mean, sd,
            lower, upper, r_hat and ess of the draws (class and name, for more than two classes).
        """
        check_is_fitted(self, "machines_")
        pd = pandas_for("summary")
        names = pd.Index(getattr(self.kernel_, "names", ()), name="name")
        drawn = self._kernel_draws()
        if not drawn:
            values = np.exp(getattr(self.kernel_, "theta", np.empty(0)))
            return pd.DataFrame({"mean": values}, index=names)
        frames = []
        for values in drawn:
            low, high = np.quantile(values, check.tails(level), axis=(0, 1))
            table = {
                "mean": values.mean(axis=(0, 1)),
                "sd": values.std(axis=(0, 1), ddof=1),
                "lower": low,
                "upper": high,
                "r_hat": r_hat(np.log(values)),
                "ess": ess(np.log(values)),
            }
            frames.append(pd.DataFrame(table, index=names))
        if len(frames) == 1:
            return frames[0]
        return pd.concat(frames, keys=list(self.classes_), names=["class"])

    def to_arviz(self) -> Any:
        """Draws (variational ones unless sampled) as an ArviZ data tree.

        Returns
        -------
        tree : xarray.DataTree
            Group ``posterior`` with ``f`` at the inducing points.  With ``tune="sample"``, where
            every draw of f has a kernel of its own, with the parameters of these kernels instead.
        """
        check_is_fitted(self, "machines_")
        single = len(self.machines_) == 1
        coords: dict[str, Any] = {} if single else {"class": list(self.classes_)}
        first = [] if single else ["class"]
        if drawn := self._kernel_draws():
            values = drawn[0] if single else np.stack(drawn, axis=2)
            coords["parameter"] = list(self.kernel_.names)
            return arviz_tree({"kernel": values}, {"kernel": [*first, "parameter"]}, coords)
        rng = self._generator()
        f = [self._at_points(m.model, self._draws(m, rng)) for m in self.machines_]
        coords["point"] = np.arange(f[0].shape[-1])
        values = f[0] if single else np.stack(f, axis=2)
        return arviz_tree({"f": values}, {"f": [*first, "point"]}, coords)

    def _kernel_draws(self) -> list[Array]:
        """Draws of the kernel's parameters, (chains, draws, k) for each machine."""
        held = getattr(self, "kernel_draws_", None)
        if held is None:
            return []
        return [np.exp(x) for x in (held if isinstance(held, list) else [held])]

    @staticmethod
    def _at_points(model: Any, theta: Array) -> Array:
        """f at the inducing points from whitened coefficients, the level's first."""
        L = np.tril(model.terms[-1].design.L)
        out: Array = theta[..., :1] + theta[..., 1:] @ L.T
        return out
