"""What all tests share: examples that do not change from run to run, and no window for plots."""

import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
