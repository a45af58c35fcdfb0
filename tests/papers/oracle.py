"""One data set of six rows with known answers: design [1, x].

``ELBO``, ``MU``, ``SIGMA`` are the converged values of the variational algorithms,
SIGMA being (Sigma_00, Sigma_01, Sigma_11).  ``LOG_EVIDENCE`` and ``EXACT_MOMENTS`` come
from quadrature and carry the digits printed.
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

for _array in [value for value in vars().values() if isinstance(value, np.ndarray)]:
    _array.flags.writeable = False
