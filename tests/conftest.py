"""What all tests share: examples that do not change from run to run, and no window for plots."""

import os
import sys

import numpy as np
import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(autouse=True)
def _the_same_draws_in_every_run():
    """Seed what estimators without `random_state` draw from."""
    np.random.seed(0)  # noqa: NPY002 - scikit-learn's own default


@pytest.fixture(autouse=True)
def _figures_are_closed():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
