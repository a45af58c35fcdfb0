"""Reports of kernel models: the kernel, its draws, and draws of the function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array
from ..kernels import Precomputed, Scaled
from ..predictive.fitted import BinaryModel
from .arviz import Draws
from .display import Inside
from .tables import convergence, draws_table, pandas_for, stacked


@dataclass(frozen=True, eq=False)
class KernelReport:
    """Tables and exports of models whose last term is a Gaussian process."""

    machines: list[BinaryModel]  # one for two classes, else one for each class
    classes: Array  # labels

    @property
    def design(self) -> Any:
        return self.machines[0].model.terms[-1].design

    @property
    def log_draws(self) -> list[Array]:
        """Draws of the kernel's log parameters for each binary model; empty if not sampled."""
        if len(self.machines[0].model.terms) > 1:  # a mixture of draws has one term
            return []
        return [m.draws.hyper["kernel"] for m in self.machines if m.draws is not None]

    @property
    def kernel(self) -> Any:
        """The kernel; if sampled, with the means of its log parameters."""
        kernel, drawn = self.design.kernel, self.log_draws
        return kernel.with_theta(np.mean(drawn, axis=(0, 1, 2))) if drawn else kernel

    @property
    def points(self) -> Array:
        """Inducing points on the scale of the input; positions of training rows if precomputed."""
        design = self.design
        kernel = design.kernel
        if isinstance(kernel.kernel if isinstance(kernel, Scaled) else kernel, Precomputed):
            return np.asarray(design.Z[:, 0], dtype=int)
        return np.asarray(design.inputs.to_input(design.Z))

    def importances(self, made: Sequence[Sequence[int]]) -> Array:
        """Importance of each column of a table with encoded columns ``made``; the sum is one.

        The root mean square of the slope of f along a column, at a spread subset of points, times
        the standard deviation of the column, averaged over binary models.
        """
        design, kernel = self.design, self.design.kernel
        inner = kernel.kernel if isinstance(kernel, Scaled) else kernel
        if self.log_draws or isinstance(inner, Precomputed):
            what = "kernels that were drawn" if self.log_draws else "precomputed kernels"
            raise AttributeError(
                f"feature_importances_ needs one kernel of columns; {what} have no slopes along "
                "them. average_effects(X) compares columns for any kernel of columns."
            )
        Z = design.Z
        at = Z[np.unique(np.linspace(0, len(Z) - 1, 1000).astype(int))]
        size, spread = np.zeros(Z.shape[1]), Z.std(axis=0)
        for machine in self.machines:
            weights = getattr(machine, "alpha", None)  # of kernel values, for an exact process
            if weights is None or not weights.size:
                weights = design.inverse.T @ machine.posterior.mean[-len(Z) :]
            try:
                slopes = kernel.pull_points(np.tile(weights, (len(at), 1)), at, Z)[0]
            except (AttributeError, TypeError) as error:
                raise AttributeError(
                    f"feature_importances_ needs slopes along columns, which {inner} does not "
                    "have; use a kernel of bayesvm.kernels or average_effects(X)."
                ) from error
            size += spread * np.sqrt(np.mean(np.square(slopes), axis=0))
        owner = np.arange(size.size)
        for j, first, last in design.inputs.spans:
            owner[first:last] = j
        each = np.array([size[np.isin(owner, list(columns))].max() for columns in made])
        return each / (each.sum() or 1.0)

    def summary(self, level: float = 0.9) -> Any:
        """Parameters of the kernel, as a data frame."""
        pd, kernel = pandas_for("summary"), self.kernel
        names = pd.Index(kernel.names, name="name")
        frames = []
        for logs in self.log_draws:
            table = draws_table(np.exp(logs), level, ddof=1) | convergence(logs)
            frames.append(pd.DataFrame(table, index=names))
        if not frames:
            return pd.DataFrame({"mean": np.exp(kernel.theta)}, index=names)
        return stacked(frames, self.classes, pd)

    def group(self, thetas: Sequence[Array], X: Any = None) -> Draws:
        """Draws for ArviZ: of the kernel if it was sampled, else of f at the points.

        With rows ``X``, only the kernels of the draws that predict there.
        """
        if drawn := self.log_draws:
            name, axis = "kernel", "parameter"
            logs = drawn if X is None else [m.terms[0].design.thetas[None] for m in self.machines]
            values, labels = [np.exp(x) for x in logs], list(self.kernel.names)
        else:
            L = np.tril(self.design.L)
            name, axis, values = "f", "point", [t[..., :1] + t[..., 1:] @ L.T for t in thetas]
            labels = list(range(values[0].shape[-1]))
        return {name: values}, {name: [axis]}, {axis: labels}


def relevances(inside: Inside) -> tuple[list[str], list[Array]]:
    """Names of columns and inverse length scales, for each component of the kernel."""
    kernel, encoding = inside.model.kernel_, inside.model.encoding_
    stems = np.array([name.split("[")[0] for name in kernel.names])
    sets = list(dict.fromkeys(stem for stem in stems if stem.endswith("length_scale")))
    if not sets or sets[1:] not in ([], ["local.length_scale"]):
        raise ValueError(f"one set of length scales is needed; {kernel} does not have that.")
    # indicators of one column share a length scale and the column's name
    names = encoding.group_names(inside.names(made=False))
    return names, [np.broadcast_to(np.exp(-kernel.theta[stems == s]), len(names)) for s in sets]


def scale_names(inside: Inside) -> dict[str, str]:
    """Parameters of a kernel that are length scales of columns, with column names."""
    try:
        names, _ = relevances(inside)
    except (AttributeError, ValueError):  # no kernel, or no length scales of columns
        return {}
    out = {}
    for name in inside.model.kernel_.names:
        part, is_one, number = name.partition("length_scale[")
        if is_one:
            out[name] = f"{part.replace('.', ' ')}length scale of {names[int(number[:-1])]}"
    return out
