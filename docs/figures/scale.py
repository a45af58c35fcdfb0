"""Time of a default linear fit against the number of rows (numbers of this machine)."""

import time

import matplotlib.pyplot as plt
import numpy as np

from bayesvm import BayesianLinearSVC

sizes = [1000, 3000, 10_000, 30_000, 100_000]
seconds = []
for n in sizes:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10))
    y = X[:, 0] - X[:, 1] + rng.logistic(size=n) > 0
    start = time.process_time()
    BayesianLinearSVC(random_state=0).fit(X, y)
    seconds.append(time.process_time() - start)

fig, ax = plt.subplots(figsize=(5.2, 3.0))
ax.loglog(sizes, seconds, "o-")
ax.set(xlabel="rows, of 10 columns", ylabel="CPU seconds of a fit")
ax.grid(alpha=0.3)
ax.yaxis.set_minor_formatter("")
