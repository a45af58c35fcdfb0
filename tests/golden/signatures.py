"""Public names, and parameters, methods and attributes of the estimators, as recorded.

python -m tests.golden.signatures    # write `signatures.json` again after an intended change
"""

from __future__ import annotations

import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

import bayesvm

RECORD = Path(__file__).parent / "signatures.json"
SCHEMES = ("VB", "EM", "SVI", "Gibbs")


def arguments(function: Any) -> str:
    """Parameters of a function with their defaults, without annotations."""
    found = inspect.signature(function).parameters.values()
    return ", ".join(str(p.replace(annotation=p.empty)) for p in found if p.name != "self")


def fitted(cls: type) -> set[str]:
    """Names that a fit adds to an estimator and that end in an underscore."""
    X, y = load_iris(return_X_y=True)
    more = {"groups": np.arange(100) % 10} if cls is bayesvm.MixedSVC else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cls(random_state=0).fit(X[50:], y[50:], **more)
    return {name for name in dir(model) if hasattr(model, name)}


def interface(cls: type) -> dict[str, Any]:
    """Parameters, methods and attributes of an estimator; what scikit-learn adds is left out."""
    ours = [c for c in cls.__mro__ if c.__module__.startswith("bayesvm.")]
    names = {name for c in ours for name in vars(c) if hasattr(cls, name)}
    methods = {name for name in names if callable(getattr(cls, name)) and name[0] != "_"}
    methods = {m for m in methods if not (m.startswith("set_") and m.endswith("_request"))}
    names |= fitted(cls) if "random_state" in inspect.signature(cls).parameters else set()
    return {
        "parameters": arguments(cls),
        "methods": {name: arguments(getattr(cls, name)) for name in sorted(methods)},
        "attributes": sorted(n for n in names - methods if n.endswith("_") and n[0] != "_"),
    }


def describe() -> dict[str, Any]:
    """All of the public interface that is recorded."""
    classes = {n: c for n in bayesvm.__all__ if isinstance(c := getattr(bayesvm, n), type)}
    return {
        "names": sorted(bayesvm.__all__),
        "estimators": {name: interface(cls) for name, cls in sorted(classes.items())},
        "schemes": {name: arguments(getattr(bayesvm.inference, name)) for name in SCHEMES},
    }


if __name__ == "__main__":
    RECORD.write_text(json.dumps(describe(), indent=1) + "\n", encoding="utf-8")
