"""
Few points instead of all rows
==============================

A kernel classifier can be fitted with a few inducing points. The variational approximation and FITC
treat the variance that these do not explain differently. The figures show both for a function of
one variable, and the posterior of the kernel's length scale when it is drawn too.
"""

import matplotlib.pyplot as plt
import numpy as np

from bayesvm import BayesianSVC
from bayesvm.inference import Gibbs
from bayesvm.kernels import RBF

rng = np.random.default_rng(0)
x = rng.uniform(-4, 4, 80)
y = (np.sin(2 * x) + 0.5 * rng.standard_normal(80) > 0).astype(int)
X, grid = x[:, None], np.linspace(-6, 6, 200)[:, None]

# %%
# Five points, the same kernel. The variational bound lies far below the bound with all rows, and
# the function follows the data only near a point. The bound of FITC is higher, but it bounds the
# evidence of another model: the two cannot be compared.

kernel = 4.0 * RBF(0.25)  # on standardised columns
few = {"kernel": kernel, "tune": False, "n_inducing": 5, "random_state": 0}
fits = {
    "all rows": BayesianSVC(kernel, tune=False).fit(X, y),
    "5 points, variational": BayesianSVC(**few).fit(X, y),
    "5 points, FITC": BayesianSVC(approximation="fitc", **few).fit(X, y),
}
fig, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
for ax, (name, fit) in zip(axes.flat, fits.items()):
    f, v = fit.machines_[0].moments(grid)
    ax.fill_between(grid[:, 0], f - np.sqrt(v), f + np.sqrt(v), alpha=0.3)
    ax.plot(grid[:, 0], f)
    ax.plot(x, 2.0 * y - 1.0, "k|", ms=8)
    ax.plot(fit.inducing_points_[:, 0], np.full(len(fit.inducing_points_), -3.4), "r^", ms=4)
    ax.set(title=f"{name}: bound {fit.elbo_:.1f}", ylim=(-3.7, 3.7), xlabel="x", ylabel="f")

# %%
# Draw the kernel too (``tune="sample"``): slice sampling of its log parameters with f integrated
# out; every draw predicts with its own kernel. The likelihood here is logistic, because the hinge
# is not a density of the labels and favours large values of f whatever the labels are.

drawn = BayesianSVC(
    RBF(0.5),
    n_inducing=15,
    likelihood="logistic",
    inference=Gibbs(draws=300, burn_in=100, chains=2),
    tune="sample",
    random_state=0,
).fit(X, y)
scales = np.exp(drawn.kernel_draws_[..., 1]).ravel()
axes[1, 1].hist(scales, bins=25)
axes[1, 1].set(title="draws of the length scale", xlabel="standard deviations of x")
print(f"length scale {np.median(scales):.2f}, 90 % of draws in {np.quantile(scales, [0.05, 0.95])}")
plt.show()
