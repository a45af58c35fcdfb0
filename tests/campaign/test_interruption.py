"""Killed and resumed."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

import bayesvm.data.checkpoint
from bayesvm import PCVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.inference import VB, Gibbs
from bayesvm.kernels import RBF
from bayesvm.priors import Lasso
from bayesvm.sparse_kernel import Power
from tests.campaign.estimators import terms
from tests.campaign.judge import require

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RNG = np.random.default_rng(5)
X = RNG.standard_normal((150, 4))
Y = (X[:, 0] + X[:, 1] ** 2 + RNG.logistic(size=150) > 1).astype(int)

FITS = {
    "VB": lambda **how: BayesianLinearSVC(tol=1e-12, **how),
    "EM": lambda **how: BayesianLinearSVC(Lasso(), "em", **how),
    "Gibbs": lambda **how: BayesianLinearSVC(
        inference=Gibbs(draws=150, burn_in=50, chains=2), random_state=0, **how
    ),
    "kernel, tuned": lambda **how: BayesianSVC(random_state=0, **how),
    "kernel, given": lambda **how: BayesianSVC(
        2.0 * RBF(1.0), 20, tune=False, inference=VB(bound="augmented"), random_state=0, **how
    ),
    "PCVC": lambda **how: PCVC(**how),
    "PCVC, power": lambda **how: PCVC(weight_prior=Power(n_starts=2), max_iter=40, **how),
    "additive": lambda **how: AdditiveSVC(terms(), random_state=0, **how),
    "mixed": lambda **how: MixedSVC(tol=1e-12, **how),
}
MOMENTS = 6  # of each fit, or all where there are fewer


def killed(make, path, step):
    """A fit in a process of its own that is killed at a step; whether it came so far."""

    def run():
        bayesvm.data.checkpoint.SAVE_SECONDS = 0.0  # every step is written
        seen = []

        def callback(progress):
            seen.append(progress)
            if len(seen) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        make(checkpoint=path, callbacks=[callback]).fit(X, Y)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(120)
    return process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("name", FITS)
def test_a_killed_fit_goes_on(name, tally, tmp_path):
    make, steps = FITS[name], []
    whole = make(callbacks=[lambda p: steps.append(p) and None]).fit(X, Y)
    for moment in np.unique(np.linspace(1, len(steps), MOMENTS).astype(int)):

        def action():
            path = tmp_path / f"{moment}.npz"
            require(killed(make, path, moment), "the fit was not interrupted")
            resumed = make(checkpoint=path).fit(X, Y)
            gap = np.abs(resumed.predict_proba(X) - whole.predict_proba(X)).max()
            require(gap <= 1e-10, f"probabilities of the resumed fit differ by {gap:.2g}")
            again = make(checkpoint=path).fit(X, Y)  # from the finished file
            gap = np.abs(again.predict_proba(X) - whole.predict_proba(X)).max()
            require(gap <= 1e-10, f"a finished file gives other probabilities, by {gap:.2g}")

        tally.judge(f"{name}: killed at step {moment} of {len(steps)}", action, limit=300)
    tally.close()


def test_killed_at_any_time(tally, tmp_path):
    """From outside, also in the middle of writing: the file can be read and the fit goes on."""
    make = FITS["Gibbs"]
    whole = make().fit(X, Y)

    def run(path):
        bayesvm.data.checkpoint.SAVE_SECONDS = 0.0
        make(checkpoint=path).fit(X, Y)

    for k in range(12):

        def action():
            path = tmp_path / f"{k}.npz"
            process = multiprocessing.get_context("fork").Process(target=run, args=(path,))
            process.start()
            time.sleep(0.02 + 0.03 * k)
            process.kill()
            process.join()
            resumed = make(checkpoint=path).fit(X, Y)
            gap = np.abs(resumed.predict_proba(X) - whole.predict_proba(X)).max()
            require(gap <= 1e-10, f"probabilities of the resumed fit differ by {gap:.2g}")
            left = [f.name for f in tmp_path.iterdir() if f.name.startswith(f"{k}.npz.")]
            require(len(left) <= 1, f"files are left: {left}")

        tally.judge(f"killed after {0.02 + 0.03 * k:.2f} s", action, limit=300)
    tally.close()
