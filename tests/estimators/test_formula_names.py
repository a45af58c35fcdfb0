"""Names in formulas that the data frame does not have."""

import numpy as np
import pytest

from bayesvm import (
    MixedSVC,
)

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
N, P = 40, 4
X = RNG.standard_normal((N, P))
Y = (X[:, 0] + 0.5 * RNG.standard_normal(N) > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["age", "dose", "size", "mass"])


@pytest.fixture
def visits():
    pytest.importorskip("formulae")
    table = FRAME.assign(y=Y, treatment=np.arange(N) % 2, patient=np.arange(N) % 5)
    return table.rename(columns={"age": "a"})


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ a + tretment + (1|patient)", "a column 'tretment'.*did you mean 'treatment'"),
        ("y ~ a + (1|pateint)", "a column 'pateint'.*did you mean 'patient'"),
        ("z ~ a + (1|patient)", "a column 'z', which the data frame does not have"),
        ("y ~ scale(tretment)", "a column 'tretment'.*did you mean 'treatment'"),
        ("y ~ np.log(abs(a) + 1) + (1|patient)", "calls 'abs', which.* Write np.abs"),
        ("y ~ nothing(a)", "calls 'nothing', which.*compute other columns beforehand"),
        ("y ~ (a", "cannot be read"),
    ],
)
def test_names_that_a_formula_does_not_know_are_explained(formula, message, visits):
    with pytest.raises(ValueError, match=message):
        MixedSVC.from_formula(formula, visits)
