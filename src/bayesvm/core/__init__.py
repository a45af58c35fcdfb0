"""Values that travel through a fit, contracts of components, arrays and random numbers."""
