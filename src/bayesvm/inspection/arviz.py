"""Fitted models for ArviZ: posterior, log likelihood and predictive labels, from the same draws."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..core import arrays
from ..core.types import Array
from ..predictive.fitted import BinaryModel, Fit, covariances
from ..predictive.posterior import DrawsPosterior

# variables by name, names of their axes, and labels of the coordinates
Draws = tuple[dict[str, Any], dict[str, list[str]], dict[str, Any]]


def to_arviz(self: Any, X: Any = None, y: Any = None, *, groups: Any = None, n: int = 1000) -> Any:
    """Draws of a fitted estimator for ArviZ; see its method ``to_arviz``."""
    model = plain(self)
    fit, rng = model._fitted(), model._generator(None, n)
    model._need_spread()
    thetas = chains(fit, n, rng)
    rows = None if X is None else arrays.to_numpy(model._read_new(X, groups))
    posterior, dims, coords = model._drawn(thetas, rows)
    out = {"posterior": posterior}
    if y is not None and rows is None:
        raise ValueError("to_arviz(y=...) needs the rows X of these labels too.")
    if y is not None and lacks_groups(model, X, groups):
        raise ValueError(
            "the likelihood of y depends on the effects of groups: give groups= as in fit, or, for "
            "a model with a formula, a data frame X with the columns of groups."
        )
    if rows is not None:
        f = f_at(model, rows, thetas, rng)
        posterior["f_obs"] = [f[..., j] for j in range(f.shape[-1])]
        logs = label_logs(fit, f)
        out["posterior_predictive"] = {"y": labels(logs, rng)}
        if has_prior(fit):
            before = [from_prior(machine, n, rng)[None] for machine in fit.machines]
            given = ("variance_", "correlation_")  # conditional on the learned scales
            own = {k: x for k, x in model._drawn(before, rows)[0].items() if k in dims}
            out["prior"] = {k: x for k, x in own.items() if not k.startswith(given)}
            drawn = label_logs(fit, f_at(model, rows, before, rng))
            out["prior_predictive"] = {"y": labels(drawn, rng)}
        dims = dims | {"f_obs": ["obs"], "y": ["obs"]}
        coords = coords | {"obs": np.arange(f.shape[2])}
        if y is not None:
            codes = codes_of(y, fit.classes, f.shape[2])
            out["observed_data"] = {"y": codes}
            if is_normalised(fit):
                each = np.take_along_axis(logs, codes[None, None, :, None], axis=3)[..., 0]
                out["log_likelihood"] = {"y": each}
    return arviz_tree(out, dims, coords, fit.classes)


def arviz_tree(
    groups: dict[str, dict[str, Any]],
    dims: dict[str, list[str]],
    coords: dict[str, Any],
    classes: Array,
) -> Any:
    """Groups of variables by name, in the format of the installed ArviZ.

    Draws are a list by binary model; with several of them the first axis is ``class``.
    """
    several, made = set(), {}
    for key, group in groups.items():
        made[key] = dict(group)
        for name, x in group.items():
            if isinstance(x, list):
                made[key][name] = x[0] if len(x) == 1 else np.stack(x, axis=2)
                several |= {name} if len(x) > 1 else set()
    dims = {name: ["class"] * (name in several) + axes for name, axes in dims.items()}
    coords = coords | ({"class": list(classes)} if several else {})
    if _classic():
        return import_module("arviz").from_dict(**made, dims=dims, coords=coords)
    try:
        package = import_module("arviz_base")
    except ImportError as error:
        raise ImportError(
            "to_arviz needs the package arviz or arviz-base: pip install 'bayesvm[arviz]'"
        ) from error
    return package.from_dict(made, dims=dims, coords=coords)


def _classic() -> bool:
    """Whether the installed ArviZ (below 1) uses InferenceData instead of data trees."""
    try:
        return version("arviz").startswith("0.")
    except PackageNotFoundError:
        return False


# ---------------------------------------------------------------------------------------------
# Draws under the model


def plain(model: Any) -> Any:
    """The estimator with the posterior covariance instead of the robust one."""
    out, fit = copy(model), model._fitted()
    if isinstance(fit.machines[0], BinaryModel):
        out.fit_ = replace(fit, machines=[replace(m, robust_covariance=None) for m in fit.machines])
    return out


def chains(fit: Fit, n: int, rng: np.random.Generator) -> list[Array]:
    """Draws of coefficients by model, ``(chains, draws, K)``: all of a sampler, or ``n``."""
    posts = [m.posterior for m in fit.machines]
    if isinstance(posts[0], DrawsPosterior):
        return [np.asarray(post.theta) for post in posts]  # type: ignore[attr-defined]
    return [theta[None] for theta in fit.thetas(n, rng)]


def lacks_groups(model: Any, X: Any, groups: Any) -> bool:
    """Whether a model with random effects is given rows without groups."""
    if groups is not None or not getattr(model, "factors_", None):
        return False
    formula = getattr(model, "_formula", None)
    if formula is None:
        return "groups" in signature(type(model).predict).parameters
    known = getattr(X, "columns", ())
    return not all(c in known for columns in formula.factors.values() for c in columns)


def has_prior(fit: Fit) -> bool:
    """Whether the prior of the coefficients is Gaussian given its scale, and can be sampled."""
    model, states = fit.machines[0].model, fit.machines[0].ascent.state.priors
    if model.is_latent or len(states) != len(model.terms):
        return False
    mixed = len(model.terms) == 1 and model.terms[0].name == "gp"  # each draw has its own kernel
    return not mixed and all(t.prior.is_isotropic or t.prior.is_blocked for t in model.terms)


def from_prior(machine: BinaryModel, n: int, rng: np.random.Generator) -> Array:
    """Draws of the coefficients from their Gaussian prior, with the learned scale."""
    model, draws = machine.model, machine.draws
    out = rng.standard_normal((n, model.width))
    priors = machine.ascent.state.priors
    for term, state, where in zip(model.terms, priors, model.slices, strict=True):
        prior, p = term.prior, where.stop - where.start
        drawn = None if draws is None else draws.hyper.get(term.name)
        if prior.is_blocked:
            z = out[:, where].reshape(n, -1, prior.size)
            if drawn is None:
                V = np.linalg.inv(prior.matrix(state))[None]
            else:
                V = covariances(term, drawn)
            root = np.linalg.cholesky(V)[rng.integers(len(V), size=n)]
            out[:, where] = np.einsum("njk,ngk->ngj", root, z).reshape(n, -1)
        elif drawn is None:
            out[:, where] /= np.sqrt(prior.precisions(state, p))
        else:
            out[:, where] *= np.sqrt(rng.choice(drawn[..., 0].ravel(), size=n))[:, None]
    return out


def f_at(model: Any, rows: Any, thetas: list[Array], rng: np.random.Generator) -> Array:
    """f at rows for draws of coefficients, ``(chains, draws, n, machines)``."""
    flat = [theta.reshape(-1, theta.shape[-1]) for theta in thetas]
    f = np.stack(model._draws_at(rows, flat, rng), axis=-1)
    return f.reshape(*thetas[0].shape[:2], *f.shape[1:])


# ---------------------------------------------------------------------------------------------
# Labels


def replicates(model: Any, X: Any, n: int, groups: Any = None) -> Array:
    """Class numbers at rows, simulated from the fitted model: ``(draws, rows)``."""
    model = plain(model)
    model._need_spread()
    rng = model._generator()
    if model._draws_f_itself:
        f = model.sample_posterior(n, X, rng)
        f = f[..., None] if f.ndim == 2 else np.moveaxis(f, 1, -1)
    else:
        rows, thetas = arrays.to_numpy(model._read_new(X, groups)), chains(model.fit_, n, rng)
        f = f_at(model, rows, thetas, rng)
    drawn = labels(label_logs(model.fit_, f), rng)
    return drawn.reshape(-1, drawn.shape[-1])


def is_normalised(fit: Fit) -> bool:
    """Whether the likelihood is normalised over labels."""
    if fit.is_joint or not fit.is_binary:
        return fit.is_joint
    model = getattr(fit.machines[0], "model", None)  # factor models do not have this attribute
    return model is not None and bool(model.likelihood.normalised)


def label_logs(fit: Fit, f: Array) -> Array:
    """Log probabilities of all classes given f, ``(..., classes)``.

    From the likelihood if it is normalised over labels, else from the link.
    """
    if fit.is_binary:
        machine, f = fit.machines[0], f[..., 0]
        if is_normalised(fit):
            lik = machine.model.likelihood
            return np.stack([lik.log_prob(np.full_like(f, s), f) for s in (-1.0, 1.0)], axis=-1)
        z = machine.link.logit(f, np.zeros_like(f))
        return np.stack([-np.logaddexp(0.0, z), -np.logaddexp(0.0, -z)], axis=-1)
    logs = f if fit.is_joint else fit.over_classes.logs(f, np.zeros_like(f))
    return logs - logsumexp(logs, axis=-1, keepdims=True)


def labels(logs: Array, rng: np.random.Generator) -> Array:
    """Class numbers drawn with these log probabilities."""
    above = np.cumsum(np.exp(logs[..., :-1]), axis=-1) < rng.random((*logs.shape[:-1], 1))
    return above.sum(axis=-1)


def codes_of(y: Any, classes: Array, n: int) -> Array:
    """Class numbers of labels."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y must have one label for each of the {n} rows; its shape is {y.shape}.")
    known = {label: k for k, label in enumerate(classes.tolist())}
    if new := sorted({str(label) for label in y.tolist() if label not in known}):
        raise ValueError(
            f"y has labels {', '.join(new[:5])} that are not among the classes {list(known)[:10]}."
        )
    return np.array([known[label] for label in y.tolist()], dtype=np.intp)
