"""
Patients seen several times
===========================

A trial compares two treatments of an infection; patients are seen up to seven times.  Some are ill
for reasons that no column records, and remain ill from visit to visit.  The data are simulated
after section 4.3 of Luts and Ormerod (2014); ``python -m papers run luts-toenail``
runs the real ones.
"""

# sphinx_gallery_thumbnail_number = 2

# %%
# A model without patients
# ------------------------
# One row in five is of an ill patient.  A linear classifier on time, treatment and their product
# predicts that no patient is ill.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.data import from_memmap
from bayesvm.plot import GroupDisplay

rng = np.random.default_rng(0)
patient = np.repeat(np.arange(294), 7)
time = np.tile([0.0, 1, 2, 3, 6, 9, 12], 294) + rng.uniform(-0.2, 0.2, 294 * 7)
treated = np.repeat(rng.integers(0, 2, 294), 7).astype(float)
own = 3.5 * rng.standard_normal(294)
f = -0.7 - 0.35 * time - 0.12 * time * treated + own[patient]
y = rng.random(f.size) < 1 / (1 + np.exp(-f))
came = rng.random(f.size) < 0.93  # some visits are missed
X = np.column_stack([time, treated, time * treated])[came]
y, patient = y[came], patient[came]

train, test = train_test_split(np.arange(len(y)), train_size=0.75, random_state=0)
plain = BayesianLinearSVC().fit(X[train], y[train])
error = 1 - balanced_accuracy_score(y[test], plain.predict(X[test]))
print(f"ill rows: {y.mean():.0%}; balanced error without patients: {error:.1%}")

# %%
# A random intercept
# ------------------
# Every patient gets an intercept; their variance is learned.

mixed = MixedSVC().fit(X[train], y[train], groups=patient[train])
known = mixed.predict(X[test], groups=patient[test])
print(f"balanced error with patients: {1 - balanced_accuracy_score(y[test], known):.1%}")
for name, model, options in (
    ("without patients", plain, {}),
    ("with patients", mixed, {"groups": patient[test]}),
    ("with patients, labels of patients not given", mixed, {}),
):
    print(f"log loss {name}: {log_loss(y[test], model.predict_proba(X[test], **options)):.3f}")
print(mixed.variance_components_.round(2))
print(mixed.intraclass_share_.round(2))

# %%
# The patients in order, with the simulated effects.  Effects are on the scale of f, where the
# margin is 1, and shrunk towards zero; compare their order.

figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
display = GroupDisplay.from_estimator(mixed, ax=axes[0], color="C0", ecolor="0.75")
effects = mixed.random_effects_["mean"]
axes[1].scatter(own[effects.index.get_level_values("level")], effects, s=8)
axes[1].set(xlabel="simulated effect", ylabel="posterior mean")
plt.show()

# %%
# A new patient
# -------------
# The effect of a new patient is averaged over: the probability is nearer to one half and its
# interval wider than for a known one.

months = np.linspace(0, 12, 60)
rows = np.column_stack([months, np.ones(60), months])
worst = effects.idxmax()[1]
figure, ax = plt.subplots(layout="constrained")
for label, groups, color in (
    (f"patient {worst}", np.full(60, worst), "C3"),
    ("a new patient", None, "C0"),
):
    lower, upper = mixed.predict_interval(rows, groups=groups)
    ax.plot(months, mixed.predict_proba(rows, groups=groups)[:, 1], color=color, label=label)
    ax.fill_between(months, lower[:, 1], upper[:, 1], color=color, alpha=0.2)
ax.set(xlabel="months", ylabel="probability to be ill", ylim=(0, 1))
ax.legend()
plt.show()

# %%
# Visits in a file
# ----------------
# Rows and groups may stay in files (or on a Dask cluster, or on a GPU): labels come with the rows,
# and the fit is the same.

folder = Path(tempfile.mkdtemp())
np.save(folder / "visits.npy", X[train])
np.save(folder / "patients.npy", patient[train])
visits = from_memmap(folder / "visits.npy", y[train], groups=folder / "patients.npy")
from_file = MixedSVC().fit(visits)
gap = np.abs(from_file.predict_proba(visits) - mixed.predict_proba(X[train], patient[train])).max()
print(f"largest difference of two probabilities: {gap:.1e}")
