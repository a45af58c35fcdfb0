"""What users see of every estimator: its parameters, notes, how a notebook shows it.

Functions that are methods of the base of all estimators.
"""

from __future__ import annotations

from html import escape
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..inputs.parameters import is_among
from ..predictive.machine import Machine
from .nested import changed, flat, separated
from .predictions import logs

SHOWN = 10  # classes, at most
MODEL_WIDTH = (
    "Standard deviations and intervals are those of the posterior, as with width='model', and may "
    "be too narrow: robust standard errors are not available {why}."
)
FILLED = (
    "Missing cells were modelled by variational inference, whose intervals do not fully count the "
    "uncertainty of the cells and are too narrow. Use inference='gibbs'."
)
SURE = (
    "Probabilities of inclusion by variational inference are too sure of themselves: columns are "
    "taken for independent. For the probabilities themselves use inference='gibbs'."
)
MEANS = (
    "Coefficients are those of the filled-in table: missing cells of {which} became means of "
    "their columns beside indicators, which is for predictions and biases coefficients of columns "
    "that are correlated with these. For coefficients use {instead}."
)
SEPARATED = (
    "A plane separates the classes, or nearly: {wrong} of {n} training rows, each left out, {are} "
    "on the wrong side of it. Such rows bound the size of coefficients from below only: "
    "their size is set by the prior and varies with the rows. Read their signs and ratios."
)


def get_params(self: Any, deep: bool = True) -> dict[str, Any]:
    """Parameters of the estimator and of its components.

    Parameters
    ----------
    deep : bool, default=True
        Also those of components that are objects: ``prior__precision``, ``inference__tol``,
        ``kernel__length_scale``, ``terms__x__standardize``.  Components given by name have
        none.

    Returns
    -------
    params : dict
        Values by name.
    """
    out: dict[str, Any] = BaseEstimator.get_params(self, deep)
    if deep:
        for name, value in BaseEstimator.get_params(self, deep=False).items():
            out.update(flat(name, value))
    return out


def set_params(self: Any, **params: Any) -> Any:
    """Set parameters of the estimator and of its components.

    Parameters
    ----------
    **params
        Values by name, as in :meth:`get_params`.  A component is replaced by one with the new
        values; it is not changed itself.

    Returns
    -------
    self : estimator
        The estimator.
    """
    plain, inner = separated(params, BaseEstimator.get_params(self, deep=False) | params)
    BaseEstimator.set_params(self, **plain)
    for name, changes in inner.items():
        setattr(self, name, changed(name, getattr(self, name), changes))
    return self


def predict_log_proba(self: Any, X: Any, *args: Any, **options: Any) -> Any:
    """Natural logarithms of :meth:`predict_proba`, which takes the same arguments.

    Parameters
    ----------
    X : array-like or sparse of shape (n, n_features)
        Rows.
    *args, **options
        As for :meth:`predict_proba`.

    Returns
    -------
    log_proba : array of shape (n, n_classes)
        Never below that of the smallest number, -708.
    """
    return logs(self.predict_proba(X, *args, **options))


def doc_link(self: Any) -> str:
    """Address of the page of an estimator, where the package says where its pages are."""
    pages = documentation()
    return pages and f"{pages}/generated/bayesvm.{type(self).__name__}.html"


def repr_html(self: Any) -> str:
    """scikit-learn's diagram, and below it what was fitted."""
    return str(BaseEstimator._repr_html_inner(self)) + fitted_html(self)


def mimebundle(self: Any, **kwargs: Any) -> dict[str, str]:
    """What notebooks show."""
    out: dict[str, str] = BaseEstimator._repr_mimebundle_(self, **kwargs)
    if "text/html" in out:
        out["text/html"] += fitted_html(self)
    return out


def fitted_html(self: Any) -> str:
    """One line about the fit; empty before it."""
    fit = self.__dict__.get("fit_")
    if fit is None:
        return ""
    total = max(fit.weight, 1e-300)
    pairs = list(zip(fit.classes, fit.masses, strict=False))
    shares = [f"{label} ({100 * mass / total:.3g} %)" for label, mass in pairs[:SHOWN]]
    more = [f"{len(pairs) - SHOWN} more"] if len(pairs) > SHOWN else []
    drawn = fit.machines[0].draws is not None
    steps = f"{fit.n_iter} {'draws of each chain' if drawn else 'iterations'}"
    end = "converged" if fit.converged else "not converged"
    labels = f"{', '.join(shares + more)}; " if pairs else ""  # a regressor has none
    text = f"{fit.weight:.6g} rows; {labels}{steps}, {end}."
    return f'<p style="font-family:monospace">Fitted: {escape(text)}</p>'


def documentation() -> str:
    """Where the pages of the installed package are, if its metadata has the address."""
    try:
        links = metadata("bayesvm").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    pages = (link.partition(",")[2].strip() for link in links if link.startswith("Documentation"))
    return next(pages, "").rstrip("/")


def note_of_width(self: Any) -> str:
    """A note if widths are the posterior's although ``width`` is ``"data"``."""
    first, why = self.machines_[0], ""
    if not isinstance(first, Machine) or not is_among(getattr(self, "width", ""), ("data",)):
        return ""
    if first.model.has_gates:
        why = "under a selection prior"
    elif self.fit_.is_joint:
        why = "for multiclass fits"
    elif self._stream is not None:
        why = "after partial_fit"
    return MODEL_WIDTH.format(why=why) if why and first.posterior.has_spread else ""


def is_separated(right: Any, c: Any, share: float = 0.03, rows: float = 6.0) -> bool:
    """Whether (nearly) all rows, each left out, are on the right side; ``c`` are their weights.

    At most a ``share`` of them is on the wrong side, or so many ``rows``.
    """
    return float(c @ ~right) <= max(rows, share * float(c.sum()))


def with_note(self: Any, frame: Any) -> Any:
    """A summary, with a note if its widths are not those of the data, or coefficients biased."""
    first = self.machines_[0]
    notes = [frame.attrs["note"]] if "note" in frame.attrs else []
    if note := note_of_width(self):
        notes.append(note)
    if first.model.has_gates and first.draws is None and first.posterior.has_spread:
        notes.append(SURE)
    if first.draws is None and any(each and each.cells for each in first.state.latents):
        notes.append(FILLED)
    if filled := self.encoding_.flagged:
        names = self._input_names()
        which = ", ".join(repr(str(names[j])) for j in filled[:SHOWN])
        more = f" and {len(filled) - SHOWN} more" if len(filled) > SHOWN else ""
        instead = "missing='model', inference='gibbs'"
        if not self._has_imputer:
            instead = "a term Missing(Columns(...)) and inference='gibbs'"
        notes.append(MEANS.format(which=which + more, instead=instead))
    held = self.fit_.left_out
    if held is not None and held.proba.size and is_separated(held.proba > 0.5, held.c):
        wrong = int(np.count_nonzero(held.proba <= 0.5))
        are = "is" if wrong == 1 else "are"
        notes.append(SEPARATED.format(wrong=wrong or "none", n=held.proba.size, are=are))
    if notes:
        frame.attrs["note"] = " ".join(notes)
    return frame
