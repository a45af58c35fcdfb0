"""Caterpillar plots."""

import numpy as np
import pytest

from bayesvm import MixedSVC
from bayesvm.plot import GroupDisplay


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X, g = rng.standard_normal((500, 2)), rng.integers(0, 50, 500)
    f = X[:, 0] * (1 + rng.standard_normal(50)[g]) + rng.standard_normal(50)[g]
    return X, f, g


def test_effects_are_drawn_in_order(data):
    X, f, g = data
    model = MixedSVC(random=[0]).fit(X, f > 0, groups=np.column_stack([g, g % 7]))
    frame = model.random_effects_.assign(upper=model.random_effects_interval(0.8)[1])
    frame = frame.xs("x0", level="effect").loc["group0"].sort_values("mean")
    display = GroupDisplay.from_estimator(model, effect="x0", level=0.8, color="C1")
    np.testing.assert_array_equal(display.mean, frame["mean"])
    np.testing.assert_array_equal(display.upper, frame["upper"])
    assert display.names == [str(k) for k in frame.index]
    assert "50 groups" in display.ax_.get_ylabel()  # too many to name
    assert display.ax_.get_xlabel() == "x0 of group0 for True (80% interval)"
    second = GroupDisplay.from_estimator(model, factor="group1")
    assert [t.get_text() for t in second.ax_.get_yticklabels()] == second.names
    with pytest.raises(ValueError, match="factor must be one of"):
        GroupDisplay.from_estimator(model, factor="site")
    with pytest.raises(ValueError, match="effect must be one of"):
        GroupDisplay.from_estimator(model, effect="x1")


def test_classes_and_point_estimates(data):
    X, f, g = data
    y = np.digitize(f, [-0.7, 0.7])
    model = MixedSVC(inference="em").fit(X, y, groups=g)
    display = GroupDisplay.from_estimator(model, label=0)
    assert display.lower is None
    expected = model.random_effects_.loc[0]["mean"].sort_values()
    np.testing.assert_array_equal(display.mean, expected)
    with pytest.raises(ValueError, match="factor must be one of"):
        GroupDisplay.from_estimator(MixedSVC().fit(X, y))
