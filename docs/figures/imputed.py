"""Missing cells: truth against imputed mean, with intervals."""

import matplotlib.pyplot as plt
import numpy as np

from bayesvm import BayesianLinearSVC

rng = np.random.default_rng(0)
whole = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 4))
y = whole[:, 0] + whole[:, 1] + rng.standard_normal(300) > 0
X = np.where(rng.random(whole.shape) < 0.2, np.nan, whole)
keep = ~np.isnan(X).all(axis=1)
model = BayesianLinearSVC(missing="model").fit(X[keep], y[keep])
mean, std = model.impute(X)
gone = np.argwhere(np.isnan(X))[::3]

fig, ax = plt.subplots(figsize=(5.2, 3.4))
for column in range(2):
    row = gone[gone[:, 1] == column, 0]
    m, s, t = mean[row, column], std[row, column], whole[row, column]
    ax.errorbar(m, t, xerr=1.645 * s, fmt=".", alpha=0.6, label=f"column {column}")
ax.axline((0, 0), slope=1, color="0.3", linewidth=1)
ax.set(xlabel="imputed, with 90 % interval", ylabel="true value")
ax.legend(fontsize="small")
