"""The parameter ``missing``: a distribution of cells that were not recorded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..core.arrays import inner
from ..core.types import Array, Block, Engine
from ..data import Blocks, Serial, tables
from ..data.labels import Training
from ..designs import Filled, Missing, Standardised, fit_columns
from ..designs.missing import incomplete
from ..inference import VB, Gibbs
from ..inference.draws import PAIRS, Pair
from ..inference.latent import fit_params
from ..inference.problem import Latent, Problem
from ..predictive.fitted import Machine
from . import options as check


@dataclass(frozen=True)
class MissingCells:
    """Missing cells of the columns of a linear predictor."""

    value: Any  # "model" or an object of bayesvm.designs.imputation, as given by the user

    def check(self, scheme: Any, checkpoint: Any) -> None:
        """Refuse values without a meaning, and what the scheme cannot fit."""
        if isinstance(self.value, str) and self.value != "model":
            raise ValueError(
                f"missing={self.value!r} is not known; choose 'auto', 'error', which refuses "
                "NaN, 'model', or an object of bayesvm.designs.imputation."
            )
        check.choose_imputer(self.value, 1, 1)
        if scheme.is_tight:
            raise ValueError(
                "missing='model' is fitted with the augmented bound, in which cells have a "
                "distribution. Use VB(bound='augmented')."
            )
        if not isinstance(scheme, VB | Gibbs):
            raise ValueError(
                f"missing='model' cannot be fitted by {type(scheme).__name__}, which has no "
                "distribution of missing cells. Use inference='vb' or 'gibbs'."
            )
        if checkpoint is not None and isinstance(scheme, Gibbs):
            raise ValueError(
                "a checkpoint does not hold drawn cells, so missing='model' with inference='gibbs' "
                "cannot resume from one. Leave checkpoint out."
            )

    def checked(self, data: Training, names: Sequence[str], scheme: Any) -> Training:
        """Training rows without what no distribution can fill in; copies apart for a sampler.

        Warns of rows without any observed cell.
        """
        X = data.X
        tables.check_in_memory(X, "missing='model'")
        if sparse.issparse(X):
            raise ValueError(
                "missing='model' needs dense rows: the distribution of the columns would fill "
                "sparse ones in. Give X.toarray(), or use missing='error'."
            )
        gone = np.isnan(X)
        never = np.flatnonzero(gone.all(axis=0))
        if never.size:
            which = ", ".join(str(names[j]) for j in never[:5])
            raise ValueError(
                f"{never.size} column(s) have no observed value at all (first: {which}), so "
                "nothing can be learned of them. Drop them."
            )
        empty = int(gone.all(axis=1).sum())
        if empty:
            warnings.warn(
                f"{empty} row(s) have every cell missing; they inform the intercept only.",
                UserWarning,
                stacklevel=3,
            )
        return data.repeated() if isinstance(scheme, Gibbs) else data

    def design(
        self, columns: Standardised, blocks: Blocks, engine: Engine, c: Array, unit: Any
    ) -> Any:
        """Columns of training rows, with a distribution of missing cells where there are any."""
        design = self._latent(columns, blocks, engine, c, c / unit)
        complete = not np.isnan(inner(blocks.X)).any()
        return columns if complete and isinstance(design, Missing) else design

    def _latent(
        self, columns: Standardised, blocks: Blocks, engine: Engine, c: Array, copies: Array
    ) -> Missing | Filled:
        """The columns with a distribution for cells that are missing."""
        seen = fit_columns(blocks, c, engine, standardize=True, distances=True)
        level, spread = (seen.center - columns.center) / columns.scale, seen.scale / columns.scale
        imputer = check.choose_imputer(self.value, blocks.n, columns.width)
        return incomplete(columns, level, spread, imputer, blocks.X, copies)

    def attached(self, machines: list[Machine], problem: Problem, X: Any) -> list[Machine]:
        """Machines fitted on complete rows ``X``, with the distribution of these beside.

        With no cell missing, neither depends on the other.
        """
        columns = problem.model.find("coef")[0].design
        if not isinstance(columns, Standardised):
            return machines
        blocks: Any = replace(problem.blocks, X=X, ready=False)
        weights = problem.c, problem.copies
        design: Any = self._latent(columns, blocks, problem.engine, *weights)

        def sums(b: Block, copies: Array) -> Any:
            return design.sums(b.X, design.columns(b.X), copies, ())

        total = Serial().sum(sums, blocks, problem.copies)
        latent = Latent(fit_params(design, total), (), total, total)
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
