"""
Few factors of many genes
=========================

Two thousand genes of 62 tissues, 40 of them tumours (Alon et al., 1999).  A discriminative factor
model explains the genes by a few factors, some of which separate tumours from healthy tissue, and
estimates the loadings of the genes on them.
"""

# %%
# The data are read from the folder ``BAYESVM_DATA``; without it, a table of the same size is
# simulated.  Intensities are raw: take logarithms.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, cross_val_score

from bayesvm import FactorSVC
from bayesvm.datasets import load_gene_expression
from bayesvm.inference import Gibbs
from bayesvm.plot import FactorScoreDisplay, LoadingHeatDisplay, TopLoadingDisplay

try:
    bunch = load_gene_expression("alon")
    X, y = np.log(bunch.data), np.where(bunch.target > 0, "tumour", "healthy")
    names = bunch.feature_names
except FileNotFoundError:
    print("simulated data")
    rng = np.random.default_rng(0)
    W = rng.standard_normal((62, 5))
    A = rng.laplace(size=(2000, 5)) * (rng.random((2000, 5)) < 0.3)
    X = W @ A.T + rng.standard_normal((62, 2000))
    y = np.where(W[:, 0] + 0.5 * rng.standard_normal(62) > -0.4, "tumour", "healthy")
    names = [f"gene{j}" for j in range(2000)]
X = pd.DataFrame(X, columns=names)

# %%
# Joint, or in two steps
# ----------------------
# ``joint=False`` learns factors from the genes alone.  Error over five folds:

folds = StratifiedKFold(5, shuffle=True, random_state=0)
for joint in (True, False):
    model = FactorSVC(5, "linear", coef_prior="lasso", joint=joint)
    error = 1 - cross_val_score(model, X, y, cv=folds)
    print(f"joint={joint}: {100 * error.mean():.1f} % ± {100 * error.std() / np.sqrt(5):.1f}")

# %%
# Tissues on the two factors that matter most
# -------------------------------------------
# Colours are the probability of a tumour where all other factors are average.

model = FactorSVC(5, "linear", coef_prior="lasso").fit(X, y)
print("relevance of the factors:", model.factor_relevance_.round(2))
FactorScoreDisplay.from_estimator(model, X, y)
plt.show()

# %%
# Genes with large loadings
# -------------------------
# By Gibbs sampling, whose intervals include the uncertainty of the rotation of factors.

draws = FactorSVC(5, "linear", Gibbs(draws=150, burn_in=100, chains=1), coef_prior="lasso")
draws.set_params(random_state=0).fit(X, y)
TopLoadingDisplay.from_estimator(draws, n_top=8)
plt.show()

# %%
LoadingHeatDisplay.from_estimator(draws, n_columns=25)
plt.show()
