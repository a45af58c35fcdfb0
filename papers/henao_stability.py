"""Which genes load, and whether they are the same in two halves of the rows.

In place of the gene ontology search of Henao, Yuan & Carin (2014), section 6, whose annotations
and data are not at hand: it asked whether the genes of a factor have a meaning; this asks what a
meaning needs first, that other tumours give the same genes.  Rows are divided into halves of equal
shares of the classes, a model is fitted to each, factors of the two are matched, and of every pair
the 50 genes with the largest loadings are compared.  Two sets of 50 among d genes share 50^2 / d by
chance.  Also the genes of the machine: those with the largest loadings weighted by the relevance
of the factors.  Chains are run on metabric, the set with the question of the paper and most rows.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from bayesvm.core.types import Array
from bayesvm.datasets import load_gene_expression
from bayesvm.factor_models.fitted import match

from .factor_models import SWEEPS, build, sweeps_of
from .running import Task

SETS = ("metabric", "gravier", "subramanian")
METHODS = ("FM+L", "VLDFM", "LDFM", "VNDFM", "NDFM")
TOP, FACTORS, REPETITIONS = 50, 10, 3
MEASURED = ("shared", "best", "machine", "chance", "stable", "cpu")


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by division by method; ``quick`` has metabric, once, without chains."""
    return [
        {"set": name, "method": method, "repetition": k, "seed": seed, "sweeps": sweeps_of(method)}
        for name in SETS[: 1 if quick else None]
        for k in range(1 if quick else REPETITIONS)
        for method in METHODS
        if method not in SWEEPS or (name == "metabric" and not quick)
    ]


def leading(score: Array, m: int = TOP) -> frozenset[int]:
    return frozenset(np.argsort(-np.abs(score), kind="stable")[:m].tolist())


def compare(one: tuple[Array, Array], two: tuple[Array, Array]) -> dict[str, float]:
    """Loadings in units of the columns' spread, and relevance, of two models."""
    (A, a), (B, b) = one, two
    at, _ = match(B, A)
    top = min(TOP, len(A) // 4)
    share = np.array(
        [len(leading(A[:, k], top) & leading(B[:, j], top)) / top for k, j in enumerate(at)]
    )
    both = (leading(np.sqrt(M**2 @ r), top) for M, r in ((A, a), (B, b)))
    chance = top / len(A)
    # of the number two random lists share, hypergeometric, 5 in 100 exceed about this
    high = chance + 1.645 * np.sqrt(chance * (1 - chance) ** 2 / top)
    first, second = both
    return {
        "shared": float(share.mean()),
        "best": float(share.max()),
        "machine": len(first & second) / top,
        "chance": chance,
        "stable": float(np.sum(share > high)),
    }


def solve(task: Task) -> dict[str, float]:
    bunch = load_gene_expression(task["set"])
    seed = task["seed"] + task["repetition"]
    halves = train_test_split(
        np.arange(len(bunch.target)), train_size=0.5, stratify=bunch.target, random_state=seed
    )
    keep = np.all([bunch.data[half].std(axis=0) > 0 for half in halves], axis=0)
    found, start = [], time.process_time()
    for half in halves:
        model = build(task["method"], FACTORS, seed, True, task["sweeps"])
        model.fit(bunch.data[half][:, keep], bunch.target[half])
        found.append((model.loadings_ / model.scale_[:, None], model.factor_relevance_))
    return compare(*found) | {"cpu": (time.process_time() - start) / 2}


def report(frame: Any, console: Any) -> None:
    by = frame.groupby(["set", "method"], sort=False)[list(MEASURED)].mean().round(3)
    console.print(f"Share of {TOP} leading genes that two halves of the rows have in common:")
    console.print("shared: mean over factors; best: of the best factor; machine: of f;")
    console.print("chance: two random lists; stable: factors, of 10, that share more than chance")
    console.print(by.to_string())
