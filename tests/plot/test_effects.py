"""Average effects, drawn."""

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.plot import EffectsDisplay


def test_effects_are_drawn_by_size():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 3)), columns=list("abc"))
    y, g = X["a"] * 0.3 - 2 * X["c"] + rng.logistic(size=200) > 0, rng.integers(0, 9, 200)
    model = MixedSVC().fit(X, y, groups=g)
    frame = model.average_effects(X, change="unit", level=0.8, groups=g)
    display = EffectsDisplay.from_estimator(model, X, change="unit", level=0.8, groups=g, top=2)
    assert display.names == ["c, +1", "a, +1"]
    np.testing.assert_array_equal(display.lower, frame["lower"].iloc[[2, 0]])
    assert display.ax_.get_xlabel() == "average change of P(True) (80% interval)"
    pipe = make_pipeline(StandardScaler(), BayesianLinearSVC(inference="em")).fit(X, y)
    display = EffectsDisplay.from_estimator(pipe, X)
    assert display.lower is None
    assert display.names[0] == "c, +1 sd"
