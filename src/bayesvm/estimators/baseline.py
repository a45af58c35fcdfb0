"""Whether a fit predicts better than the shares of the classes."""

from __future__ import annotations

import numpy as np

from ..predictive.fit import Fit


def baseline_warning(name: str, fit: Fit, min_rows: int = 100, min_gain: float = 2.0) -> str:
    """What a fit is to warn of; empty if it beats the class shares, or if too little is known.

    Leave-one-out log losses are compared.  Fewer than ``min_rows`` rows tell little; ``min_gain``
    nats is what a link with two coefficients gains on the rows that it is fitted to, by AIC.
    """
    held = fit.left_out
    if held is None or fit.weight < min_rows or held.codes.size < min_rows:
        return ""
    loss = float(np.average(-np.log(np.maximum(held.proba, 1e-300)), weights=held.c))
    share = np.maximum(fit.masses - 1.0, 1e-3) / (fit.weight - 1.0)  # without the row itself
    base = float(-(fit.masses @ np.log(share)) / fit.weight)
    if held.c.sum() * (base - loss) > min_gain:
        return ""
    other = "BayesianSVC" if name == "BayesianLinearSVC" else "BayesianLinearSVC"
    return (
        f"leave-one-out predictions of {name} are no better than the shares of the classes (log "
        f"loss {loss:.3f} against {base:.3f}). Check that X and y are aligned and that informative "
        f"columns are included, or try {other}()."
    )
