"""A machine from Gaussian sites at the rows, for processes that are no plain sum of columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.types import Array, Coef, Term
from ..gaussian.covariances import Point, covariance
from ..gaussian.forms import sandwich
from ..inference.draws import LIKELIHOOD, Draws
from ..inference.loop import State
from ..inference.progress import Watch, silent
from ..machines.calibration import fit_link, leave_one_out_draws, plain_link
from ..machines.diagnostics import r_hat
from ..machines.machine import AGREED, Machine
from ..machines.posterior import DrawsPosterior, GaussianPosterior, Posterior
from ..model.model import Model
from ..priors import Fixed
from ..processes.gibbs import Chains, Mixture, Sampled, run_chains
from ..processes.process import Labels, LowRank, fit_sites
from ..processes.whitened import Whitened

MIXED = 100  # draws, each with a kernel of its own, that predict


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
        apart = fit.left_out(labels, likelihood.expected)
        link = fit_link(labels.y, *apart, labels.c)
    path = fit.path
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
        in_sample=(fit.m[labels.at], fit.v[labels.at]),
    )


def fit_by_chains(
    what: Sampled,
    design: Whitened,
    model: Model,
    scheme: Any,
    probability: str,
    rng: np.random.Generator,
    watch: Watch = silent,
    n_jobs: int | None = None,
) -> Machine:
    """Run chains over f, and over the kernel if it has a prior, from near the variational fit."""
    labels, likelihood = what.labels, what.likelihood
    process = what.at(what.process.kernel.theta)
    near = fit_sites(process, labels, likelihood.expected, tol=1e-4)
    start = (near.R @ (process.C.T @ process.through(near.sites)[0].b)) @ near.R
    chains = run_chains(what, scheme, rng, start, watch, n_jobs)
    hyper = {"kernel": chains.theta}
    if likelihood.is_learned:
        hyper[LIKELIHOOD] = chains.scale[..., None]
        likelihood = likelihood.with_scale(np.exp(np.log(chains.scale).mean()))
    model = replace(model, likelihood=likelihood)
    if what.prior is None:
        theta = chains.z.copy()
        theta[..., 0] *= np.sqrt(what.process.level)
        post: Posterior = DrawsPosterior(theta)
    else:
        mixture = _mixture(chains, what, design)
        model = Model((Term("gp", mixture, Fixed(1.0)),), likelihood)
        post = DrawsPosterior(np.eye(mixture.width)[None])
    f = chains.f.reshape(-1, chains.f.shape[-1]).T[labels.at]  # (rows, draws)
    link = plain_link(probability, likelihood)
    if link is None:
        logs = likelihood.log_prob(labels.y[:, None], f)
        link = fit_link(labels.y, *leave_one_out_draws(f, logs, labels.c), labels.c)
    seen = chains.f if what.prior is None else np.concatenate([chains.f, _alongside(chains)], 2)
    worst = float(np.max(r_hat(seen)))
    draws = Draws(chains.z, hyper, chains.fit)
    return Machine(
        model,
        post,
        State(Coef(post.mean, Point(model.width)), model.init()),
        link,
        float("nan"),
        list(chains.fit.mean(axis=0)),
        chains.fit.shape[1],
        worst <= AGREED,
        worst,
        draws=draws,
        in_sample=(f.mean(axis=1), f.var(axis=1)),
    )


def _alongside(chains: Chains) -> Array:
    """Kernel parameters of the draws whose f was kept."""
    every = -(-chains.theta.shape[1] // chains.f.shape[1])
    return chains.theta[:, ::every][:, : chains.f.shape[1]]


def _mixture(chains: Chains, what: Sampled, design: Whitened) -> Mixture:
    """Draws spread evenly over the chains."""
    theta, z = (x.reshape(-1, x.shape[-1]) for x in (chains.theta, chains.z))
    some = np.unique(np.linspace(0, len(z) - 1, MIXED).astype(int))
    values = z[some].copy()
    values[:, 0] *= np.sqrt(what.process.level)
    return Mixture(design.inputs, what.process.kernel, design.Z, theta[some], values)
