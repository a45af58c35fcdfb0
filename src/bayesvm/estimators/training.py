"""Training rows with their classes and weights, as a fit reads them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core import arrays
from ..core.types import Array
from ..inputs import reading


class Training(NamedTuple):
    """Training rows with the numbers of their classes and their weights."""

    X: Any
    classes: Array
    codes: Any  # (n,), places of the labels in ``classes``
    c: Any  # (n,), sample weight times class weight
    copies: Any  # (n,), sample weight alone
    rows: Array  # numbers of the rows in the input; empty for a source

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any, class_weight: Any) -> Training:
        """Checked rows with the codes of their labels and with their weights."""
        classes, codes = reading.encode(y, X)
        c = reading.check_weights(sample_weight, class_weight, codes, classes, X)
        copies = c
        if class_weight is not None:
            copies = reading.check_weights(sample_weight, None, codes, classes, X)
        reading.check_two_sided(codes, c, classes)
        rows = np.arange(0 if reading.is_source(X) else codes.shape[0])
        return cls(X, classes, codes, c, copies, rows)

    def weighted(self) -> Training:
        """The rows of positive weight; a source must have no others."""
        if reading.is_source(self.X):
            reading.check_positive_weights(self.c)
        elif not np.all(self.c > 0):
            return self.take(np.flatnonzero(self.c > 0))
        return self

    def take(self, at: Array) -> Training:
        c, copies, rows = self.c[at], self.copies[at], self.rows[at]
        return Training(arrays.pick(self.X, at), self.classes, self.codes[at], c, copies, rows)

    def repeated(self) -> Training:
        """Rows with missing cells as often as they count: a chain draws each copy's cells."""
        at = reading.repeated(self.X, self.copies)
        c, copies = reading.shared(self.c, self.copies, at)
        return self.take(at)._replace(c=c, copies=copies)
