"""
Three sparse kernel machines
============================

A support vector machine, a relevance vector machine and a probabilistic classification vector
machine are the same kind of function, :math:`f(x) = \\sum_j w_j k(x, x_j) + b`.  They differ in
which rows become vectors and in the signs that their weights may have.  The figures follow the
first two of Chen, Tiňo and Yao (2009).
"""

# %%
# Three classifiers, one kernel
# -----------------------------
# Two classes that overlap.  Vectors are ringed; a square marks a vector whose weight has the sign
# of the other class.  :class:`bayesvm.PCVC` forbids those: its prior is truncated at zero.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from bayesvm import PCVC, RVC
from bayesvm.kernels import RBF
from bayesvm.plot import VectorDisplay

X, y = make_moons(250, noise=0.35, random_state=0)
X_test, y_test = make_moons(5000, noise=0.35, random_state=1)

models = {
    "SVC": lambda s: SVC(gamma=0.5 / s**2),
    "RVC": lambda s: RVC(RBF(s), tune=False, standardize=False),
    "PCVC": lambda s: PCVC(RBF(s), tune=False, standardize=False),
}


def draw(scale):
    """Boundaries and vectors of the three machines at one length scale."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharey=True, layout="constrained")
    for ax, (name, make) in zip(axes, models.items()):
        model = make(scale).fit(X, y)
        display = VectorDisplay.from_estimator(model, X, y, ax=ax)
        error = 100 * np.mean(model.predict(X_test) != y_test)
        ax.set_title(f"{name}, {error:.1f} % error: {ax.get_title()}", fontsize="medium")
        print(f"{name}, length scale {scale}: {len(display.vectors)} vectors, {error:.1f} % error")
    plt.show()


draw(0.5)

# %%
# A kernel that is too narrow
# ---------------------------
# With a shorter length scale every classifier keeps more vectors and errs more: the kernel values
# of a vector fall faster, and boundaries follow the noise.  The restriction of signs does not
# prevent that; the length scale has more effect than the prior of the weights.

draw(0.2)

# %%
# The learned kernel
# ------------------
# By default the length scale maximises the evidence.  Leave-one-out predictions determine the
# smoothness of the function and calibrate the probabilities.  A rate selects vectors; some are then
# removed one by one while the function stays within 0.07 posterior standard deviations of the
# Gaussian process with all rows.

for model in (PCVC(), RVC()):
    model.fit(X, y)
    print(
        f"{type(model).__name__}: {model.kernel_}, {model.n_vectors_} vectors, "
        f"error {100 * np.mean(model.predict(X_test) != y_test):.1f} %, "
        f"log loss {log_loss(y_test, model.predict_proba(X_test)):.3f}"
    )

# %%
# ``summary`` lists the vectors, largest weight first.

print(PCVC().fit(X, y).summary().head())
