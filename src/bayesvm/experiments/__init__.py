"""Reproductions of the papers' experiments: one file each, and one line in ``REGISTRY``.

A file defines ``EXPERIMENT``, an :class:`~bayesvm.experiments.runner.Experiment`; the runner gives
it parallel work, a file of results that an interrupted run goes on from, tables and a figure.
"""

from __future__ import annotations

from importlib import import_module

from .runner import Experiment

# paper, experiment -> module, what it shows
REGISTRY = {
    ("luts", "simulation"): ("luts_simulation", "Luts & Ormerod (2014), Fig. 1: simulated data"),
    ("luts", "spam"): ("luts_spam", "Luts & Ormerod (2014), Fig. 3: which variables tell spam"),
    ("luts", "toenail"): ("luts_toenail", "Luts & Ormerod (2014), Fig. 2: visits of patients"),
    ("luts", "cardiac"): ("luts_cardiac", "Luts & Ormerod (2014), Fig. 4: missing predictors"),
    ("polson", "spam"): ("polson_spam", "Polson & Scott (2011), Figs 1, 3-5: path, ECME, draws"),
    ("chen", "table1"): ("chen_table1", "Chen et al. (2009), Table I: error, AUC, RMSE on 13 sets"),
    ("chen", "table3"): ("chen_table3", "Chen et al. (2009), Table III: numbers of vectors"),
    ("chen", "tests"): ("chen_tests", "Chen et al. (2009), Tables IV-VI: tests on 13 sets"),
    ("wenzel", "table1"): ("wenzel_table1", "Wenzel et al. (2017), Table 1: error, Brier, time"),
    ("wenzel", "runtime"): ("wenzel_runtime", "Wenzel et al. (2017), Fig. 1: error against time"),
    ("wenzel", "autotune"): ("wenzel_autotune", "Wenzel et al. (2017), Fig. 2: length scales"),
    ("wenzel", "inducing"): ("wenzel_inducing", "Wenzel et al. (2017), Fig. 3: inducing points"),
    ("henao", "table2"): ("henao_table2", "Henao et al. (2014), Table 2: FITC and variational"),
    ("wenzel", "susy"): (
        "wenzel_susy",
        "Wenzel et al. (2017), section 5.2: SUSY, all rows or a sample",
    ),
    ("henao", "table1"): ("henao_table1", "Henao et al. (2014), Table 1: error on six sets"),
    ("henao", "usps"): ("henao_usps", "Henao et al. (2014), Table 3: factors of threes and fives"),
    ("henao", "genes"): ("henao_genes", "Henao et al. (2014), Table 3, on other gene sets"),
    ("chen", "synthetic"): ("chen_synthetic", "Chen et al. (2009), Figs 1, 2, 4: the plane"),
}


def find(paper: str, experiment: str | None) -> Experiment:
    """The experiment of that name; ``LookupError`` with a list of what exists if there is none.

    Examples
    --------
    >>> from bayesvm.experiments import find
    >>> find("luts", "simulation").name
    'luts-simulation'
    """
    key = (paper, experiment or "")
    if key in REGISTRY:
        found: Experiment = import_module(f".{REGISTRY[key][0]}", __name__).EXPERIMENT
        return found
    asked = " ".join(name for name in key if name)
    raise LookupError(f"There is no experiment {asked!r}.\n{listing()}")


def listing() -> str:
    """The commands that repeat an experiment, by paper."""
    width = max(len(p) + len(e) + 1 for p, e in REGISTRY)
    rows = [
        f"  bayesvm reproduce {f'{p} {e}':<{width}}   {what}"
        for (p, e), (_, what) in sorted(REGISTRY.items())
    ]
    return "\n".join(["Experiments of the papers that can be repeated:", *rows])
