"""Answers about rows that are not at hand: read in blocks, or held by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import accuracy_score

from ..blocks import block_rows, cut
from ..blocks.lazy import at_hand, lazily
from ..core import arrays
from ..core.random import stream
from ..core.types import Array
from ..inputs import reading
from ..inputs.dask import is_dask

PIECE = 1000  # rows at which f is drawn jointly, and held for all draws


class Away:
    """What every estimator does where rows come a few at a time."""

    machines_: list[Any]

    if TYPE_CHECKING:  # the classes that mix this in have them

        def _new_rows(self, X: Any) -> Any: ...

        def predict(self, X: Any) -> Any: ...

    def _asked(self, X: Any) -> Any:
        """A question as the methods take it; with groups, where these are asked of."""
        return X

    def _pieces(self, X: Any, size: int = 0) -> Iterator[Any]:
        """Rows on the host: all of them, or those of a source a block at a time."""
        if not reading.is_source(X):
            yield arrays.to_numpy(X)
            return
        none = np.broadcast_to(0.0, X.shape[:1])
        for b in cut(X, none, none, size or block_rows(self.machines_[0].model.width)):
            yield b.X

    def _lazy(self, method: str, X: Any, **options: Any) -> Any:
        """What a method says of each partition of a Dask collection; ``None`` for other rows."""
        return lazily(self, method, X, **options) if is_dask(X) else None

    def _halves(self, X: Any, method: str, **options: Any) -> Any:
        """The same for a method that gives two arrays."""
        both = self._lazy("_both", X, ask=method, options=options)
        if both is None:
            return None
        k = both.shape[1] // 2
        a, b = both[:, :k], both[:, k:]
        return (a, b) if method == "predict_interval" or k > 1 else (a[:, 0], b[:, 0])

    def _both(self, X: Any, ask: str, options: dict[str, Any], **groups: Any) -> Array:
        """Two answers side by side."""
        return np.column_stack(getattr(self, ask)(X, **options, **groups))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of ``predict``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source
            Rows.
        y : array-like of shape (n,)
            Their labels; not needed where the source has them.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.

        Returns
        -------
        score : float
            Share of rows predicted right.
        """
        y, found, c = at_hand(reading.labels_of(X, y), self.predict(X), sample_weight)
        return float(accuracy_score(y, found, sample_weight=c))

    # ----- draws of f

    def _draws_away(self, X: Any, n: int, rng: np.random.Generator) -> Any:
        """Draws of f at rows of a source or of a Dask collection; ``None`` for other rows.

        Coefficients are drawn once, for all rows.  What lies outside of them is drawn jointly for
        neighbouring rows, by a generator for each thousand of these.
        """
        if not reading.is_source(arrays.inner(X)):
            return None
        thetas = [m.posterior.sample(n, rng) for m in self.machines_]
        how: dict[str, Any] = {"thetas": thetas, "seed": int(rng.integers(2**32))}
        f = self._lazy("_f_at", X, numbered=True, **how)
        if f is None:
            f = self._f_of(self._pieces(self._new_rows(X), PIECE), **how)
        each = [f.T[j :: len(thetas)] for j in range(len(thetas))]
        return each[0] if len(thetas) == 1 else np.stack(each, axis=1)

    def _f_at(self, X: Any, number: int = 0, **options: Any) -> Array:
        """Draws of f at the rows of one partition."""
        how = {name: options.pop(name) for name in ("thetas", "seed")}
        X = self._new_rows(self._asked(X, **options))
        pieces = (X[i : i + PIECE] for i in range(0, X.shape[0], PIECE))
        return self._f_of(pieces, number=number, **how)

    def _f_of(
        self, pieces: Iterator[Any], thetas: list[Array], seed: int, number: int = 0
    ) -> Array:
        """Draws of f, a row for each row: ``(rows, draws * machines)``."""
        parts = []
        for k, X in enumerate(pieces):
            f = self._drawn_at(X, thetas, stream(seed, "rows of f", number, k))
            parts.append(np.stack(f, axis=1).reshape(-1, X.shape[0]).T)
        return np.concatenate(parts)

    def _drawn_at(self, X: Any, thetas: list[Array], rng: np.random.Generator) -> list[Array]:
        """f of each machine at rows, for draws of its coefficients, ``(draws, rows)``."""
        return [m.predictors(X, t, rng) for m, t in zip(self.machines_, thetas, strict=True)]
