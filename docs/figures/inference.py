"""The bound of variational Bayes, and its standard deviations beside those of Gibbs sampling."""

import matplotlib.pyplot as plt
import numpy as np

from bayesvm import BayesianLinearSVC
from bayesvm.inference import VB, Gibbs

rng = np.random.default_rng(0)
X = rng.standard_normal((150, 4))
y = X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(150) > 0
schemes = {
    "Gibbs sampling": Gibbs(2000, 500, chains=2),
    'VB(bound="tight")': VB(bound="tight"),
    'VB(bound="augmented")': VB(bound="augmented"),
}
fig, ax = plt.subplots(figsize=(6.4, 3.0))
for shift, (name, scheme) in zip((-0.2, 0, 0.2), schemes.items()):
    model = BayesianLinearSVC("fixed", scheme, "hinge", covariance="model", random_state=0).fit(
        X, y
    )
    ends = model.coef_interval(level=0.9)
    at = np.arange(4) + shift
    centre = (ends[0][0] + ends[1][0]) / 2
    ax.errorbar(at, centre, yerr=(ends[1][0] - ends[0][0]) / 2, fmt="o", capsize=3, label=name)
ax.axhline(0, color="0.6", linewidth=1)
ax.set(xticks=range(4), xlabel="coefficient", ylabel="posterior, 90 % interval")
ax.legend()
