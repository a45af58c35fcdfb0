"""Parameters and attributes that many estimators have, described once.

An estimator describes what is its own.  The base of all estimators adds to its docstring the
entries that it lacks, in the order of its signature.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from inspect import cleandoc

PARAMETERS = """
    categorical : {"auto", "error"} or list of names or positions, default="auto"
        Which columns hold categories: those of text, categories or truth values, and those listed.
        ``"error"`` refuses columns that are not numbers.  Each level becomes an indicator (two
        levels one column); a level that was not seen in training has none.
    missing : {"auto", "error"}, default="auto"
        What to do with missing cells: ``"auto"`` puts the mean of the column there, and adds an
        indicator of such cells where they are 1 % or more of the training rows; of categories they
        are a level.  ``"error"`` refuses them.
    probability : {"calibrated", "normalised", "probit"}, default="calibrated"
        The link from f to probabilities.
    width : {"data", "model"}, default="data"
        Width of intervals, standard deviations and draws.  ``"data"``: robust (sandwich)
        covariance, corrected for shrinkage and calibration uncertainty (:doc:`/intervals`).
        ``"model"``: the posterior.  Predictions are the same.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, times ``sample_weight``.  Multiplies the likelihood; not treated as
        replication in leave-one-out.
    max_iter, tol : int and float, optional
        Override those of the inference scheme.
    random_state : int, RandomState, Generator or None, default=None
        Seed of everything drawn.
    n_jobs : int, optional
        Threads over rows, and chains run in parallel under Gibbs.
    verbose : int, default=0
        1 shows progress.
    callbacks : list of callables, optional
        Each is called with a :class:`~bayesvm.inference.Progress` after every iteration; returning
        ``True`` ends the fit there.
    warm_start : bool, default=False
        Start from the previous fit when the shape allows.
    checkpoint : str or path, optional
        File that holds the state of a long fit; a later fit with the same file resumes from it.
"""
ATTRIBUTES = """
    classes_ : array of shape (n_classes,)
        Labels.
    offset_ : array of shape (1,) or (n_classes,)
        What calibration adds to f before the sign is taken.
    n_iter_, converged_ : int, bool
        Passes made, and whether the stopping rule was met.
"""


def described(doc: str, parameters: Collection[str]) -> str:
    """A docstring with the entries of shared parameters and attributes that it lacks."""
    doc = _completed(cleandoc(doc), "Parameters", PARAMETERS, parameters)
    return _completed(doc, "Attributes", ATTRIBUTES, ())


def _completed(doc: str, section: str, shared: str, order: Collection[str]) -> str:
    """A docstring with more entries in a section: in an order, or else after its own."""
    before, title, rest = doc.partition(f"\n{section}\n{'-' * len(section)}\n")
    text, gap, after = rest.partition("\n\n")
    own, more = _entries(text), _entries(cleandoc(shared))
    known = own | {name: entry for name, entry in more.items() if name not in own}
    entries = dict.fromkeys(known[name] for name in order or known if name in known)
    return before + title + "\n".join(entries) + gap + after if title else doc


def _entries(text: str) -> dict[str, str]:
    """Entries of a section by the names that they describe."""
    parts = re.split(r"\n(?=\S)", text)
    return {name: part for part in parts for name in re.findall(r"\w+", part.split(" :")[0])}
