"""Gaussian processes: posteriors, evidence of kernels, kernel search, inducing points, Gibbs."""
