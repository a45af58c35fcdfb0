"""
Rows in files
=============

A fit needs two sums over its rows, so rows may stay in a file: here a classifier with inducing
points reads them in blocks, with the same result as for an array.
"""

# %%
# The file
# --------
# 200,000 rows of six columns, written in pieces.  (20 million take about a minute.)

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.data import Serial, from_memmap

N, P = 200_000, 6
folder = Path(tempfile.mkdtemp())
rows = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (N, P))
labels = np.empty(N, np.int8)


def draw(rng, n):
    X = rng.standard_normal((n, P), dtype=np.float32)
    f = 2.0 * np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * f))


for i in range(0, N, 50_000):
    rows[i : i + 50_000], labels[i : i + 50_000] = draw(np.random.default_rng(i), 50_000)
rows.flush()

# %%
# The linear classifier, then the kernel classifier
# -------------------------------------------------
# Pass the source as X.  ``verbose`` prints whether columns are kept in memory or computed again
# on every pass.

source = from_memmap(folder / "X.npy")
linear = BayesianLinearSVC(random_state=0).fit(source, labels)
kernel = BayesianSVC(n_inducing=64, tune=False, random_state=0, verbose=1).fit(source, labels)
print(f"passes over all rows: {linear.n_iter_} and {kernel.n_iter_}")

# %%
# The same fit without columns in memory, on one thread:

again = BayesianSVC(n_inducing=64, tune=False, random_state=0, engine=Serial(memory=0))
again.fit(source, labels)
X_test, y_test = draw(np.random.default_rng(10**6), 20_000)
gap = np.abs(again.predict_proba(X_test) - kernel.predict_proba(X_test)).max()
print(f"largest difference of two probabilities: {gap:.1e}")

# %%
# More rows
# ---------
# The linear classifier does not improve after a few thousand rows; the kernel classifier does.

sizes = [2_000, 5_000, 20_000, 60_000, N]
losses = {"linear": [], "64 inducing points": []}
for n in sizes:
    for name, model in (
        ("linear", BayesianLinearSVC(random_state=0)),
        ("64 inducing points", BayesianSVC(n_inducing=64, tune=False, random_state=0)),
    ):
        p = model.fit(np.asarray(rows[:n]), labels[:n]).predict_proba(X_test)[:, 1]
        losses[name].append(log_loss(y_test, p))
print(f"AUC of the last: {roc_auc_score(y_test, p):.3f}")

fig, ax = plt.subplots(layout="constrained")
for name, values in losses.items():
    ax.plot(sizes, values, "o-", label=name)
ax.set(xscale="log", xlabel="rows", ylabel="log loss of test rows")
ax.legend()
plt.show()
