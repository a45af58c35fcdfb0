"""The experiments of the five papers: one file each, and one line in ``REGISTRY``.

A file defines ``tasks``, ``solve``, ``MEASURED`` and ``report``, the parts of an
:class:`~papers.running.Experiment`.  ``python -m papers list`` lists them, ``python -m papers
run NAME`` runs one, or ``all``: tasks in parallel, a file of results from which an interrupted run
resumes, a line in ``record.csv`` and tables.  What the pages of the papers quote is in
``papers/results``; ``python -m papers show NAME`` prints it.
"""

from __future__ import annotations

from importlib import import_module

from .running import Experiment

REGISTRY = {  # name, which is that of the file with _ for -, and title
    "chen-boundaries": "Chen et al. (2009), Figs 1, 2, 4: widths, boundaries",
    "chen-growth": "Chen et al. (2009), section V: vectors as rows grow",
    "chen-margin": "Chen et al. (2009), section IV: signs and margins",
    "chen-prior": "Chen et al. (2009), Fig. 3, Appendix A: priors of a weight",
    "chen-spirals": "Chen et al. (2009), section III-A: spirals in two halves",
    "chen-synthetic": "Chen et al. (2009), Figs 1, 2, 4: two-dimensional sets",
    "chen-table1": "Chen et al. (2009), Table I: error, AUC, RMSE on 13 sets",
    "chen-table3": "Chen et al. (2009), Table III: numbers of vectors",
    "chen-tests": "Chen et al. (2009), Tables IV-VI: tests on 13 sets",
    "chen-times": "Chen et al. (2009), Tables VII-VIII: times on 13 sets",
    "chen-tuning": "Chen et al. (2009), section III-B: parameters as printed",
    "chen-variants": "Chen et al. (2009), eqs 10, 21, 22: variants of the prior",
    "henao-dual": "Henao et al. (2014), eq. 13: support vectors, rounds of ECM",
    "henao-figure1": "Henao et al. (2014), Fig. 1: the augmented likelihood",
    "henao-gamma": "Henao et al. (2014), eq. 7: gamma and gamma0 drawn",
    "henao-genes": "Henao et al. (2014), Table 3, on other gene sets",
    "henao-labels": "Henao et al. (2014), section 6: factors and labels",
    "henao-scale": "Henao et al. (2014), section 3: where gamma of ECM ends",
    "henao-stability": "Henao et al. (2014), section 6: which genes load",
    "henao-table1": "Henao et al. (2014), Table 1: error on six sets",
    "henao-table2": "Henao et al. (2014), Table 2: FITC and variational",
    "henao-usps": "Henao et al. (2014), Table 3: factors of threes and fives",
    "henao-wide": "Henao et al. (2014), section 6: few rows of many columns",
    "luts-cardiac": "Luts & Ormerod (2014), Fig. 4: missing predictors",
    "luts-simulation": "Luts & Ormerod (2014), Fig. 1: simulated data",
    "luts-spam": "Luts & Ormerod (2014), Fig. 3: variables selected for spam",
    "luts-toenail": "Luts & Ormerod (2014), Fig. 2: visits of patients",
    "polson-averages": "Polson & Scott (2011), sections 3.3, 4.1: averages, steps",
    "polson-likelihoods": "Polson & Scott (2011), section 2: relatives",
    "polson-sampler": "Polson & Scott (2011), section 4.2, Fig. 5: sweeps, ranges",
    "polson-spam": "Polson & Scott (2011), Figs 1, 3-5: path, ECME, draws",
    "polson-starts": "Polson & Scott (2011), Fig. 2: several starts",
    "wenzel-autotune": "Wenzel et al. (2017), Fig. 2: length scales",
    "wenzel-inducing": "Wenzel et al. (2017), Fig. 3: inducing points",
    "wenzel-linear": "Wenzel et al. (2017), section 4.5: the linear scheme",
    "wenzel-mixtures": "Wenzel et al. (2017), section 5.5: Gaussian mixtures",
    "wenzel-moving": "Wenzel et al. (2017), section 4.2: points that move",
    "wenzel-passes": "Wenzel et al. (2017), Table 1: passes of S-BSVM",
    "wenzel-runtime": "Wenzel et al. (2017), Fig. 1: error against time",
    "wenzel-sgpc": "Wenzel et al. (2017), section 5.3: settings of S-GPC",
    "wenzel-susy": "Wenzel et al. (2017), section 5.2: SUSY, all rows or a sample",
    "wenzel-table1": "Wenzel et al. (2017), Table 1: error, Brier, time",
}
SHARED = {"chen-table3": "chen-table1"}  # has the fits, and so the file of results, of the other


def find(name: str) -> Experiment:
    """The experiment of that name; ``LookupError`` with a list of all names if there is none.

    Examples
    --------
    >>> from papers import find
    >>> find("luts-simulation").title[:14]
    'Luts & Ormerod'
    """
    if name not in REGISTRY:
        raise LookupError(f"There is no experiment {name!r}.\n{listing()}")
    own = import_module(f".{name.replace('-', '_')}", __name__)
    parts = own.tasks, own.solve, own.MEASURED, own.report
    return Experiment(name, REGISTRY[name], *parts, results=SHARED.get(name, name))


def listing() -> str:
    """Names of all experiments and what each shows."""
    width = max(map(len, REGISTRY))
    rows = [f"  python -m papers run {name:<{width}}   {what}" for name, what in REGISTRY.items()]
    return "\n".join(["Experiments of the papers:", *rows])
