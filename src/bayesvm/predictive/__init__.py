"""After the fit: posterior, leave-one-out moments, calibration, diagnostics."""
