"""What vector machines share: rows merged, candidates chosen, vectors reported."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..blocks import Blocks, block_rows
from ..core.types import Array, Coef, Term
from ..designs import Basis, Chosen, Intercept, Standardised, fit_columns
from ..files.checkpoint import opened
from ..inference.loop import State
from ..inputs import reading
from ..inputs.parameters import SWITCH, check_rule, is_among
from ..kernels import Scaled, with_columns
from ..kernels.precomputed import check_square, skew
from ..likelihoods import Probit
from ..machines.calibration import Link
from ..machines.machine import Machine
from ..model.model import Model
from ..priors import Fixed
from ..processes.evidence import extent_of
from ..processes.points import Distinct, merge, merge_values
from ..vectors import Journal, Sparse, SparsePosterior, Training
from ..vectors.newton import FLAT
from ..vectors.training import choose_candidates, has_length_scale, tune_kernel
from . import choices as check
from ._base import BayesianClassifier, arviz_tree, pandas_for

MOST = 3000  # rows that may become vectors, if it is left to us;
HELD = 3 * 10**7  # or so many kernel values of all rows with them,
FEWEST = 500  # but no fewer


class Found(NamedTuple):
    """What a fit found: a kernel, and for each machine its vectors and its link."""

    kernel: Any
    sparse: list[Sparse]  # columns are numbers of candidates, coefficients unsigned
    links: list[Link]


class VectorClassifier(BayesianClassifier):
    """Base of the vector machines; a subclass finds vectors and this class does the rest."""

    _accept_sparse = False
    _by_label = True  # a row that occurs with two labels is two candidates

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    # ----- fitting

    def _check_settings(self, least: dict[str, float]) -> None:
        """Refuse settings that are not numbers of at least so much, whole where that is."""
        for name, low in least.items():
            value, whole = getattr(self, name), isinstance(low, int)
            good = isinstance(value, Integral if whole else Real) and float(value) >= low
            if not good or isinstance(value, bool):
                kind = "whole number" if whole else "number"
                raise ValueError(f"{name} must be a {kind} of at least {low:g}; got {value!r}.")
        for name in ("tune", "warm_start"):
            check_rule(name, getattr(self, name), SWITCH)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        check.check_probability(self.probability)
        reading.check_served(X, type(self).__name__)
        X, y = self._read(X, y, reset=True)
        classes, codes = np.unique(y, return_inverse=True)
        c = reading.check_weights(sample_weight, self.class_weight, codes, classes)
        reading.check_two_sided(codes, c, classes)
        self.classes_ = classes
        rng = self._fit_generator("vectors")
        kept = np.flatnonzero(c > 0)
        if self._precomputed:
            X, inputs, named = check_square(X), None, False
            kernel: Any = None
            values = np.asarray(X[np.ix_(kept, kept)], dtype=float)
            if gap := skew(X):
                warnings.warn(
                    f"the matrix of kernel values differs from its transpose by up to {gap:.3g}. "
                    "Entry (i, j) is taken as the value at row i of the function that vector j "
                    "brings, which need not be symmetric; if it should be, give (K + K.T) / 2.",
                    UserWarning,
                    stacklevel=3,
                )
                each = np.arange(kept.size)  # equal rows may still bring other functions
                data = Distinct(values, each, codes[kept], c[kept], each)
            else:
                data = merge_values(values, codes[kept], c[kept])
            points = data.X
        else:
            data = merge(X[kept], codes[kept], c[kept])
            inputs = self._inputs(data)
            points = inputs.columns(data.X)
            extent = extent_of(points, self.standardize)
            kernel, named = check.choose_kernel(self.kernel, extent)
            kernel = kernel.kernel if named and isinstance(kernel, Scaled) else kernel
            kernel, named = self._last_kernel(kernel, named)
        # where each merged row first stands in X
        first = kept[np.unique(data.back, return_index=True)[1]]
        seen = Training(
            points,
            data.at,
            data.c,
            data.codes,
            list(self._targets(data.codes)),
            self._candidates(data, rng),
        )
        threads = check.blas_threads(points.shape[0], "dense")

        def about() -> dict[str, str]:
            # functions may have the same name, as all lambdas have: their values tell them apart
            some = seen.points if kernel is None else kernel(seen.points[:50])
            return self._about(seen.points, seen.at, seen.c, seen.codes, some)

        with opened(self.checkpoint, about) as store, threads, self._reporting() as report:
            journal = Journal(report, store)
            self._amplitude = None
            if self.tune and has_length_scale(kernel):
                how = (named, seen, bool(self.standardize), rng, journal)
                kernel, self._amplitude = tune_kernel(kernel, *how)
            found = self._find(kernel, seen, rng, journal)
        self._store(X, found, seen, inputs, first)

    def _last_kernel(self, kernel: Any, named: bool) -> tuple[Any, bool]:
        """The kernel to start from: that of the last fit, if asked and if it is of this kind."""
        last: Any = getattr(self, "kernel_", None)
        if not self.warm_start or type(last) is not type(kernel):
            return kernel, named
        columns = with_columns(kernel, self.n_features_in_)
        fits = last.names in (kernel.names, columns.names)
        return (last, False) if fits else (kernel, named)

    def _inputs(self, data: Distinct) -> Standardised:
        """Centre and scale of the columns, rows counted by their weights."""
        blocks = Blocks(data.X[data.at], np.empty(data.c.size), data.c, block_rows(data.X.shape[1]))
        engine = check.choose_engine("serial", data.c.size, 1, None)
        return fit_columns(blocks, engine, self.standardize)

    def _candidates(self, data: Distinct, rng: np.random.Generator) -> Array:
        """Rows that may become vectors: all, or a random part of every class."""
        most = self.n_candidates
        if not is_among(most, ("auto",)) and not (isinstance(most, int | np.integer) and most >= 2):
            raise ValueError(
                f"n_candidates must be 'auto' or a whole number of at least 2; got {most!r}."
            )
        return choose_candidates(data, most, self._by_label, rng)

    @abstractmethod
    def _find(
        self, kernel: Any, seen: Training, rng: np.random.Generator, journal: Journal
    ) -> Found:
        """The kernel and the machines of all classes."""

    # ----- reporting

    def _store(self, X: Any, found: Found, seen: Training, inputs: Any, first: Array) -> None:
        """Vectors of all machines side by side, and a machine for each that uses its own."""
        used = np.unique(np.concatenate([s.columns for s in found.sparse]).astype(int))
        rows = seen.candidates[used]
        self.support_ = first[rows]
        self.vectors_ = X[self.support_]
        if found.kernel is None:
            design: Any = Chosen(self.support_)
        else:
            design = Basis(inputs, found.kernel, seen.points[seen.at[rows]])
        terms = (Term("bias", Intercept(), Fixed(FLAT)), Term("vectors", design, Fixed(1.0)))
        model = Model(terms, Probit())
        machines, width = [], 1 + used.size
        for sparse, link in zip(found.sparse, found.links, strict=True):
            columns = np.append(1 + np.searchsorted(used, sparse.columns), 0)
            post = SparsePosterior.of(sparse, columns, width)
            machines.append(
                Machine(
                    model,
                    post,
                    State(Coef(post.mean, post.inner.coef.cov), ()),
                    link,
                    sparse.value,
                    sparse.path,
                    sparse.n_iter,
                    sparse.converged and not self._stopped,
                    sparse.change,
                )
            )
        self._conclude(machines)
        self.kernel_ = "precomputed" if found.kernel is None else found.kernel
        self.dual_coef_ = np.stack([m.posterior.mean[1:] for m in machines])
        self.intercept_ = np.array([m.posterior.mean[0] for m in machines])
        self.offset_ = np.array([m.link.offset for m in machines])
        self.n_vectors_ = int(used.size)
        self.empty_ = any(s.columns.size == 0 for s in found.sparse)
        if self.empty_:
            warnings.warn(self._empty_hint, ConvergenceWarning, stacklevel=4)

    _empty_hint = (
        "no vector survived: the machine predicts about the classes' frequencies everywhere. The "
        "kernel may not see the classes, or its length scale is far off."
    )

    # ----- asking

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draw from the Gaussian approximation of the posterior.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like of shape (rows, n_features), optional
            Give draws of f at these rows instead of draws of the weights.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, n_vectors), or (n, rows) with ``X``
            One more axis, of classes, after the first when there are more than two.  The
            approximation does not know of signs.
        """
        check_is_fitted(self, "machines_")
        C = None if X is None else self.machines_[0].model.rows(self._new_rows(X)).C
        rng = self._generator(random_state)
        draws = [m.posterior.sample(n, rng) for m in self.machines_]
        out = np.stack([t[:, 1:] if C is None else t @ C.T for t in draws], axis=1)
        return out[:, 0] if len(draws) == 1 else out

    def to_arviz(self) -> Any:
        """Draws from the Gaussian approximation of the posterior as an ArviZ data tree.

        Returns
        -------
        tree : xarray.DataTree
            Group ``posterior`` with ``dual_coef``, one weight per vector, which goes by its row in
            the training data, and ``intercept``; of every class when there are more than two.
        """
        check_is_fitted(self, "machines_")
        rng = self._generator()
        draws = [m.posterior.sample(1000, rng)[None] for m in self.machines_]  # one chain
        single = len(draws) == 1
        theta = draws[0] if single else np.stack(draws, axis=2)
        first = [] if single else ["class"]
        coords: dict[str, Any] = {} if single else {"class": list(self.classes_)}
        return arviz_tree(
            {"intercept": theta[..., 0], "dual_coef": theta[..., 1:]},
            {"intercept": first, "dual_coef": [*first, "vector"]},
            coords | {"vector": self.support_},
        )

    def summary(self) -> Any:
        """The vectors as a data frame.

        Returns
        -------
        frame : pandas.DataFrame
            One line per vector, largest weight first: its row in the training data, weight and
            standard deviation (one pair of columns per class when there are more than two).
        """
        check_is_fitted(self, "machines_")
        pd = pandas_for("summary")
        table: dict[str, Any] = {}
        names: Sequence[str] = [""]
        if len(self.machines_) > 1:
            names = [f" {k}" for k in self.classes_]
        for name, machine in zip(names, self.machines_, strict=True):
            table[f"weight{name}"] = machine.posterior.mean[1:]
            table[f"sd{name}"] = np.sqrt(machine.posterior.variance()[1:])
        frame = pd.DataFrame(table, index=pd.Index(self.support_, name="row"))
        order = np.argsort(-np.abs(self.dual_coef_).max(axis=0), kind="stable")
        return frame.iloc[order]
