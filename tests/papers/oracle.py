"""One data set of six rows with known answers: design [1, x].

``ELBO``, ``MU``, ``SIGMA`` are the converged values of the variational algorithms,
SIGMA being (Sigma_00, Sigma_01, Sigma_11).  ``LOG_EVIDENCE`` and ``EXACT_MOMENTS`` come
from quadrature and carry the digits printed, as do the dictionaries and arrays named EXACT,
INCLUSION and BETA of the selection problems.
"""

import numpy as np

X = np.array([0.3, -1.2, 0.8, 1.5, -0.4, 0.1])
Y = np.array([1.0, -1.0, 1.0, 1.0, 1.0, -1.0])
DESIGN = np.column_stack([np.ones(6), X])
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 1.5, 1.0])

# Algorithm 1, prior precision I
ALG1_MU = np.array([0.5183053452, 1.1878778298])
ALG1_SIGMA = np.array([0.1103055529, -0.0150030911, 0.1615761675])
ALG1_ELBO = -8.8213513551
ALG1_LOG_EVIDENCE = -8.119241

# The same with the case weights above
ALG1_WEIGHTED_MU = np.array([0.5429715338, 1.3243725399])
ALG1_WEIGHTED_SIGMA = np.array([0.0980374173, 0.0396098813, 0.1135312128])
ALG1_WEIGHTED_ELBO = -10.2499162319
ALG1_WEIGHTED_LOG_EVIDENCE = -9.542479

# Algorithm 2, intercept ~ N(0, 4), slope ~ N(0, sigma^2), sigma^2 ~ IG(3, 2)
ALG2_INTERCEPT_VARIANCE = 4.0
ALG2_A, ALG2_B = 3.0, 2.0
ALG2_MU = np.array([0.5872969469, 1.1091539709])
ALG2_TAU = 1.2990217481
ALG2_ELBO = -9.5583728622
ALG2_EXACT_MOMENTS = {
    "b0": 0.6542,
    "u": 1.1699,
    "b0^2": 0.6910,
    "u^2": 1.7486,
    "u>0": 0.9849,
    "1/sigma^2": 1.3011,
}

# EM-SVM, ridge, nu = 1, flat intercept (whose minimiser is an interval)
EM_RIDGE_NU = 1.0
EM_RIDGE_SLOPE = 1.0
EM_RIDGE_OBJECTIVE = 7.0

# Algorithm 3, the prior of Algorithm 2 with a gate of prior probability 0.4 on the slope
ALG3_RHO = 0.4
ALG3_MU = np.array([0.600849886, 1.2162621305])
ALG3_INCLUSION = 0.9833939513
ALG3_TAU = 1.3726437873
ALG3_ELBO = -10.6448167099
ALG3_EXACT = {"inclusion": 0.79038, "b0": 0.74043, "slope": 1.06181}

# Algorithm 4, the prior of Algorithm 2 and the third x missing: Psi = 1, nu = 3, s_mu = 4
ALG4_GONE = 2
ALG4_PSI, ALG4_NU, ALG4_MEAN_VARIANCE = 1.0, 3.0, 4.0
ALG4_MU = np.array([0.6777442267, 1.0344241963])
ALG4_CELL, ALG4_CELL_VARIANCE = 0.5534537416, 0.3311584347
ALG4_MU_MU = 0.13831797
ALG4_ELBO = -19.4211090267
ALG4_EXACT = {"b0": 0.7354, "u": 1.1040, "d": 0.6559}

# EM-SVM, lasso, nu = 1, flat intercept
EM_LASSO_BETA = np.array([0.6, 4 / 3])
EM_LASSO_OBJECTIVE = 20 / 3

# Both coefficients lasso of scales nu (1, 0.7), 1/nu ~ Gamma(4, rate 3)
LASSO_SCALES = np.array([1.0, 0.7])
LASSO_A, LASSO_B = 4.0, 3.0
LASSO_EXACT = {"b0": 0.50787, "u": 1.12744, "b0^2": 0.48586, "u^2": 1.75112, "1/nu": 1.20348}

# Both coefficients bridge of scale 1.3, alpha uniform on (0.15, 2)
BRIDGE_NU = 1.3
BRIDGE_ALPHA_RANGE = (0.15, 2.0)
BRIDGE_EXACT = {"alpha": 1.33337, "b0": 0.54691, "u": 1.38071}

# Spike and slab: three candidate columns, the last two correlated; slab N(0, 1), pi = 0.3.
# Enumeration of the eight models, accurate to about 1e-4.
SELECTION_X = np.array(
    [
        [1.1, 1.8, -1.0],
        [-0.1, 1.0, 1.7],
        [0.7, 1.5, 1.1],
        [0.6, 0.2, -0.8],
        [-0.8, 0.4, -0.2],
        [1.3, 1.3, 2.2],
        [0.0, 1.4, 0.1],
        [-0.8, 0.1, 0.3],
        [-1.6, -1.7, -0.8],
        [-0.9, 1.2, 1.0],
    ]
)
SELECTION_Y = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
SELECTION_PI = 0.3
SELECTION_INCLUSION = np.array([0.8461, 0.8174, 0.1768])
SELECTION_BETA = np.array([1.1590, 0.8219, -0.0215])

for _array in [value for value in vars().values() if isinstance(value, np.ndarray)]:
    _array.flags.writeable = False
