"""The tube and intervals of support vector regression under three kinds of noise."""

import matplotlib.pyplot as plt
import numpy as np

from bayesvm import BayesianSVR

rng = np.random.default_rng(0)
n = 300
x = rng.uniform(-2, 2, n)
kinds = {
    "uniform": rng.uniform(-(3**0.5), 3**0.5, n),
    "Gaussian": rng.standard_normal(n),
    "Laplace": rng.laplace(scale=0.5**0.5, size=n),
}
at = np.linspace(-2.4, 2.4, 50)

fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.8), sharey=True)
for ax, (name, noise) in zip(axes, kinds.items()):
    y = 1.5 * x + noise
    model = BayesianSVR().fit(x[:, None], y)
    mean, ends = model.predict(at[:, None]), model.predict_interval(at[:, None])
    ax.fill_between(at, *ends, color="C0", alpha=0.2, linewidth=0)
    tube = model.epsilon_
    ax.fill_between(at, mean - tube, mean + tube, color="C0", alpha=0.35, linewidth=0)
    ax.plot(at, mean, color="C0")
    ax.plot(x, y, ".", color="0.3", markersize=2)
    ax.set(title=name, xlabel="x")
axes[0].set_ylabel("y")
fig.tight_layout()
