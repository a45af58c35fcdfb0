"""Cells that were not recorded: reading them, modelling them, reporting them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..blocks import Blocks
from ..core.types import Array, Engine
from ..designs import Filled, Missing, Standardised, fit_columns
from ..designs.table import numbers
from ..inference.draws import PAIRS, Pair
from ..inputs import reading
from ..machines.machine import Machine
from ..machines.posterior import mixture
from ..model.latent import settled
from ..model.model import Latent, Problem
from . import choices as check
from ._base import BayesianClassifier


class Imputed(NamedTuple):
    """Missing cells of the training rows, given all else and the labels, one entry a cell."""

    row: Array
    column: Array
    mean: Array
    std: Array


class ImputedCells(BayesianClassifier):
    """What an estimator says of cells for which some of its terms have a distribution."""

    _no_cells = "no term has a distribution for missing cells."

    def _latent_terms(self) -> list[tuple[int, Missing | Filled, Array]]:
        """Terms with such cells: number, design, and which columns of numbers they read."""
        terms = self.machines_[0].model.terms
        found = [
            (k, t.design, getattr(t.design.inner, "where", np.arange(t.design.width)))
            for k, t in enumerate(terms)
            if isinstance(t.design, Missing | Filled)
        ]
        if not found:
            raise AttributeError(self._no_cells)
        return found

    def impute(self, X: Any) -> tuple[Array, Array]:
        """Missing cells of rows without labels, from the other cells of each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows, with NaN where cells are missing.

        Returns
        -------
        mean, std : arrays of shape (n, n_features)
            Expected value and standard deviation of each cell; those that were observed are
            returned as they are, with 0.  Columns that name groups are left out, those that no term
            reads are NaN.  What was learned of training cells, which saw the labels too, is in
            ``imputed_``.
        """
        check_is_fitted(self, "machines_")
        terms = self._latent_terms()
        X = self._new_rows(X)
        cells = np.array(numbers(X), dtype=float)
        mean, std = cells.copy(), np.zeros_like(cells)
        for k, design, columns in terms:
            known = ~np.isnan(cells[:, columns])
            m, v = self._filled_in(k, X)
            filled = m * design.scale + design.center
            mean[:, columns] = np.where(known, cells[:, columns], filled)
            std[:, columns] = np.where(known, 0.0, np.sqrt(v) * design.scale)
        mean[:, self._unread()] = np.nan
        return mean, std

    def _unread(self) -> Array:
        """Columns of numbers that no term reads."""
        return np.empty(0, dtype=int)

    def _filled_in(self, k: int, X: Any) -> tuple[Array, Array]:
        """Columns of a term at new rows, on the scale of the model, and variances of its cells."""
        design = self.machines_[0].model.terms[k].design
        if isinstance(design, Filled):
            C, var = np.asarray(design.columns(X)), design.variances(X)
            return C, np.zeros_like(C) if var is None else var
        means, variances = zip(*(m.entries(X, k) for m in self.machines_), strict=True)
        return mixture(np.stack(means), np.stack(variances))

    @property
    def imputed_(self) -> Imputed:
        """Missing cells of the training rows, given the other cells and the labels."""
        check_is_fitted(self, "machines_")
        parts = [self._cells_of(*term) for term in self._latent_terms()]
        row, column, mean, std = (np.concatenate(x) for x in zip(*parts, strict=True))
        order = np.lexsort((column, row))
        return Imputed(row[order], column[order], mean[order], std[order])

    def _cells_of(self, k: int, design: Missing | Filled, columns: Array) -> Imputed:
        """Training cells of one term."""
        row, column, mean, var = (
            design.cells if isinstance(design, Filled) else self._learned_cells(k)
        )
        center, scale = design.center[column], design.scale[column]
        return Imputed(
            self._training_rows[row], columns[column], mean * scale + center, np.sqrt(var) * scale
        )

    def _learned_cells(self, k: int) -> tuple[Array, Array, Array, Array]:
        """Row, column, mean and variance of training cells, on the scale of the model."""
        each = []
        for machine in self.machines_:
            parts = [
                (
                    np.repeat(cells.rows, cells.columns.shape[1]),
                    cells.columns.ravel(),
                    cells.mean.ravel(),
                    np.diagonal(cells.cov, axis1=1, axis2=2).ravel(),
                )
                for cells in machine.state.latents[k].cells
            ]
            none = (np.empty(0, int), np.empty(0, int), np.empty(0), np.empty(0))
            each.append([np.concatenate(x) for x in zip(none, *parts, strict=True)])
        row, column = each[0][:2]
        mean, var = mixture(np.stack([e[2] for e in each]), np.stack([e[3] for e in each]))
        return row, column, mean, var


class MissingCells(ImputedCells):
    """What an estimator with a parameter ``missing`` shares."""

    _no_cells = "missing cells are modelled with missing='model' only."

    def _kind(self) -> dict[str, Any]:
        kind = super()._kind()
        if check.models_missing(self.missing):
            # sparse rows are accepted here and refused below, where the reason can be given
            kind["ensure_all_finite"] = "allow-nan"
        return kind

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = check.models_missing(self.missing)
        if tags.input_tags.allow_nan:
            tags.input_tags.sparse = False
        return tags

    def _of_missing_cells(self) -> str:
        return (
            f"{type(self).__name__}(missing='model'), by inference='vb' or 'gibbs' and of dense "
            "rows, learns a distribution of such cells; else fill them in, for instance by "
            "sklearn.impute.SimpleImputer in a pipeline, or leave such rows out."
        )

    def _check_cells(self, X: Any) -> None:
        """Refuse what no distribution can fill in; warn of rows that say nothing but a label."""
        if reading.is_sparse(X):
            raise ValueError(
                "missing='model' needs dense rows: the distribution of the columns would fill "
                "sparse ones in. Give X.toarray(), or use missing='error'."
            )
        gone = np.isnan(X)
        never = np.flatnonzero(gone.all(axis=0))
        if never.size:
            names = getattr(self, "feature_names_in_", None)
            which = ", ".join(str(j if names is None else names[j]) for j in never[:5])
            raise ValueError(
                f"{never.size} column(s) have no observed value at all (first: {which}), so "
                "nothing can be learned of them. Drop them."
            )
        empty = int(gone.all(axis=1).sum())
        if empty:
            warnings.warn(
                f"{empty} row(s) have every cell missing; they inform the intercept only.",
                UserWarning,
                stacklevel=4,
            )

    def _with_cells(self, columns: Standardised, blocks: Blocks, engine: Engine) -> Any:
        """Columns of training rows, with a distribution of missing cells where that is needed."""
        design = self._latent(columns, blocks, engine)
        complete = not np.isnan(numbers(blocks.X)).any()
        return columns if complete and isinstance(design, Missing) else design

    def _latent(self, columns: Standardised, blocks: Blocks, engine: Engine) -> Missing | Filled:
        """The columns with a distribution for cells that are missing."""
        level, spread = np.zeros(columns.width), np.ones(columns.width)
        if not (self.standardize and self.fit_intercept):
            seen = fit_columns(blocks, engine, standardize=True)
            level, spread = seen.center / columns.scale, seen.scale / columns.scale
        imputer = check.choose_imputer(self.missing, blocks.n, columns.width)
        if check.fills_in(imputer, columns.width):
            count = np.broadcast_to(blocks.copies, (blocks.n,))
            return Filled.learned(columns, level, spread, imputer, blocks.X, count)
        return Missing(columns, level, spread, imputer)

    def _attached(self, machines: list[Machine], problem: Problem, X: Any) -> list[Machine]:
        """Machines fitted on complete rows ``X``, with the distribution of these beside.

        With no cell missing, neither depends on the other.
        """
        columns = problem.model.find("coef")[0].design
        if not isinstance(columns, Standardised) or not check.models_missing(self.missing):
            return machines
        blocks: Any = replace(problem.blocks, X=X, ready=False)
        design: Any = self._latent(columns, blocks, problem.engine)
        total: Any = None
        for b in blocks:
            first = b.number * blocks.size
            count = np.broadcast_to(blocks.copies, (blocks.n,))[first : first + b.y.shape[0]]
            sums = design.sums(b.X, design.columns(b.X), count, ())
            total = sums if total is None else total + sums
        latent = Latent(settled(design, total), (), total, total)
        out = []
        for machine in machines:
            terms = tuple(
                t._replace(design=design) if t.design is design.inner else t
                for t in machine.model.terms
            )
            latents = tuple(latent if t.design is design else None for t in terms)
            post: Any = machine.posterior
            if machine.draws is not None:
                flat = post.flat[:: -(-len(post.flat) // PAIRS)]
                params = tuple(each and each.params for each in latents)
                post = replace(post, pairs=tuple(Pair(theta, params) for theta in flat))
            model = replace(machine.model, terms=terms)
            state = machine.state._replace(latents=latents)
            out.append(replace(machine, model=model, posterior=post, state=state))
        return out

    # ----- asking

    def _new_rows(self, X: Any) -> Any:
        X = super()._new_rows(X)
        if check.models_missing(self.missing) and reading.is_sparse(X):
            raise ValueError("missing='model' needs dense rows; give X.toarray().")
        return X
