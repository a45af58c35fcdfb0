"""Linear algebra of Gaussian posteriors: forms of the Gram matrix S, covariances, inclusion."""
