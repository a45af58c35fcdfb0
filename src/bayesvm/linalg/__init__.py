"""From sums over rows to a Gaussian over the coefficients: forms of S, covariances, gates."""
