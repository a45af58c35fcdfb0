"""A machine from Gaussian sites at the rows, for processes that are no plain sum of columns."""

from __future__ import annotations

from typing import Any

from ..calibration import fit_link, plain_link
from ..gaussian import covariance
from ..gram import Labels, fit_sites, left_out
from ..inference.loop import State, Watch, silent
from ..lowrank import LowRank
from ..machine import Machine
from ..model import Model
from ..posterior import GaussianPosterior
from ..stats import sandwich
from ..types import Coef


def fit_by_sites(
    process: LowRank,
    labels: Labels,
    model: Model,
    scheme: Any,
    probability: str,
    watch: Watch = silent,
) -> Machine:
    """Fit sites at the rows, and say what they mean to the coefficients of the columns."""
    likelihood = model.likelihood
    limits = getattr(scheme, "vb", scheme)
    fit = fit_sites(
        process,
        labels,
        likelihood.expected,
        tol=limits.tol,
        max_iter=limits.max_iter,
        watch=watch,
    )
    seen, _ = process.through(fit.sites)
    C = process.C.copy()
    C[:, 0] = 1.0  # the level's own prior has its variance
    cov = covariance(sandwich(C, seen.w, "dense"), model.precision(model.init()))
    coef = Coef(cov.solve(C.T @ seen.b), cov)
    link = plain_link(probability, likelihood)
    if link is None:
        link = fit_link(labels.y, *left_out(fit, labels, likelihood.expected), labels.c)
    path = list(fit.path)
    return Machine(
        model,
        GaussianPosterior(coef),
        State(coef, model.init()),
        link,
        fit.bound,
        path,
        fit.passes,
        fit.converged,
        path[-1] - path[-2] if len(path) > 1 else float("inf"),
        {"moments": (fit.m[labels.at], fit.v[labels.at])},
    )
