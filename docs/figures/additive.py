"""Two terms of an additive model: a smooth function and effects of groups."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bayesvm import AdditiveSVC
from bayesvm.terms import Columns, Groups, Process

rng = np.random.default_rng(0)
n, names = 600, [f"H{k}" for k in range(12)]
frame = pd.DataFrame({"age": rng.uniform(-2, 2, n), "dose": rng.standard_normal(n)})
frame["hospital"] = rng.choice(names, n)
own = dict(zip(names, rng.standard_normal(12)))
f = 2 * np.sin(2 * frame.age) + frame.dose + frame.hospital.map(own)
y = f + 0.4 * rng.logistic(size=n) > 0
terms = [
    ("curve", Process("age", n_inducing=20)),
    ("dose", Columns("dose")),
    ("hospital", Groups("hospital")),
]
model = AdditiveSVC(terms, likelihood="logistic", random_state=0).fit(frame, y)
order = np.argsort(frame.age.to_numpy())
adds, std = model.partial(frame, return_std=True)
age, mean, sd = frame.age.iloc[order], adds["curve"][order], std["curve"][order]
centre = mean.mean()
effects = model.random_effects_

fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.9), width_ratios=[3, 2])
left.fill_between(age, mean - centre - 1.645 * sd, mean - centre + 1.645 * sd, alpha=0.25)
left.plot(age, mean - centre, label="estimate, 90 % band")
truth = 2 * np.sin(2 * age) / 0.4
left.plot(age, truth - truth.mean(), "--", color="0.3", label="truth")
left.set(xlabel="age", ylabel="smooth term")
left.legend(fontsize="small")
levels = [index[-2] for index in effects.index]
right.hlines(levels, effects["lower"], effects["upper"], color="C0", alpha=0.5)
right.plot(effects["mean"], levels, "o", color="C0")
right.plot([own[level] / 0.4 for level in levels], levels, "x", color="C1")
right.set(xlabel="effect of the hospital")
