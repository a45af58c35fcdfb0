"""Values that are passed through a fit, contracts of components, arrays and random numbers."""
