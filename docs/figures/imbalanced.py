"""Costs move the threshold; weights move the probabilities."""

import matplotlib.pyplot as plt
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from bayesvm import BayesianLinearSVC

X, y = make_classification(40_000, 6, weights=[0.97], class_sep=1.2, flip_y=0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=4000, stratify=y, random_state=0
)
fig, ax = plt.subplots(figsize=(4.8, 3.3))
ax.plot([0, 1], [0, 1], color="0.6", linestyle="--")
for weight, name in ((None, "no weights"), ("balanced", 'class_weight="balanced"')):
    model = BayesianLinearSVC(class_weight=weight).fit(X_train, y_train)
    p = model.predict_proba(X_test)[:, 1]
    share, mean = calibration_curve(y_test, p, n_bins=8)
    ax.plot(mean, share, "o-", label=name)
ax.set(xlabel="predicted probability", ylabel="share of positives")
ax.legend()
