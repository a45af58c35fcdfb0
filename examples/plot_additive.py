"""
A sum of several kinds of terms
===============================

One model with a smooth function, columns to select from, missing cells and repeated measurements
of patients.
"""

# %%
# The table
# ---------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from bayesvm import AdditiveSVC, BayesianLinearSVC
from bayesvm.terms import Columns, Groups, Intercept, Missing, Process

rng = np.random.default_rng(1)
n, patients = 900, 60
frame = pd.DataFrame(rng.standard_normal((n, 8)), columns=[f"marker{j}" for j in range(8)])
frame["age"] = rng.uniform(20, 80, n)
frame["patient"] = rng.choice([f"p{k:02d}" for k in range(patients)], n)
own = pd.Series(1.2 * rng.standard_normal(patients), [f"p{k:02d}" for k in range(patients)])
curve = 2.0 * np.sin((frame.age - 20) / 12)
f = curve + 1.5 * frame.marker0 - frame.marker1 + frame.patient.map(own)
y = np.where(f + rng.logistic(size=n) * 0.5 > 0, "well", "ill")
for name in ("marker0", "marker5"):
    frame.loc[rng.random(n) < 0.25, name] = np.nan
train, test = frame.index < 600, frame.index >= 600

# %%
# The sum
# -------
# Markers have a selection prior, and their missing cells are latent variables; age enters as a
# smooth function; patients have intercepts.

markers = [f"marker{j}" for j in range(8)]
model = AdditiveSVC(
    [
        ("level", Intercept()),
        ("markers", Missing(Columns(markers)), "laplace_zero"),
        ("age", Process("age", n_inducing=25)),
        ("patient", Groups("patient")),
    ],
    random_state=0,
).fit(frame[train], y[train])
print(model.summary().round(2))

# %%
# For comparison, a linear classifier that also models missing cells:

plain = BayesianLinearSVC(missing="model").fit(frame.loc[train, [*markers, "age"]], y[train])
print(f"sum of terms {log_loss(y[test], model.predict_proba(frame[test])):.3f}")
print(
    f"line         {log_loss(y[test], plain.predict_proba(frame.loc[test, [*markers, 'age']])):.3f}"
)

# %%
# Contributions of terms
# ----------------------
# ``partial`` gives the contribution of a term to f at any rows, here along a grid of ages, with two
# posterior standard deviations.  The level of a term is not identified, so both curves are centred.

grid = frame.iloc[np.zeros(100, dtype=int)].copy()
grid["age"] = np.linspace(20, 80, 100)
mean, std = model.partial(grid, return_std=True)
centre = mean["age"].mean()
truth = 2.0 * np.sin((grid.age - 20) / 12)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(grid.age, mean["age"] - centre)
left.fill_between(
    grid.age,
    mean["age"] - centre - 2 * std["age"],
    mean["age"] - centre + 2 * std["age"],
    alpha=0.2,
)
left.plot(grid.age, truth - truth.mean(), color="0.4", linestyle="--")
left.set(xlabel="age", ylabel="share of f", title="A curve")
effects = model.random_effects_.droplevel(["factor", "effect"])
right.scatter(own[effects.index], effects["mean"], s=12)
right.axline((0, 0), slope=1, color="0.6", linestyle="--")
right.set(xlabel="true effect", ylabel="estimate", title="Patients")
plt.show()
