"""Effects of patients: true and estimated."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bayesvm import MixedSVC

rng = np.random.default_rng(0)
patient = np.repeat([f"p{k:03d}" for k in range(120)], 8)
visit = np.tile(np.arange(8.0), 120)
own = 2.0 * rng.standard_normal(120)
f = 2.0 - 0.6 * visit + np.repeat(own, 8) + 0.7 * rng.logistic(size=960)
model = MixedSVC().fit(pd.DataFrame({"visit": visit}), f > 0, groups=patient)
table = model.random_effects_
order = np.argsort(table["mean"].to_numpy())
rank, own = np.arange(120), own / 0.7  # on the scale of the logistic

fig, ax = plt.subplots(figsize=(6.8, 3.0))
ax.vlines(rank, table["lower"].iloc[order], table["upper"].iloc[order], color="C0", alpha=0.35)
ax.plot(rank, table["mean"].iloc[order], ".", color="C0", label="estimate, 90 % interval")
ax.plot(rank, own[order], "x", color="C1", markersize=4, label="truth")
ax.set(xlabel="patients, in order", ylabel="effect on f")
ax.legend()
