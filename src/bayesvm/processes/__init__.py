"""Gaussian processes: exact and through inducing points, their evidence and tuning."""
