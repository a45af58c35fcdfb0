"""After the fit: posterior, left-out moments, calibration, diagnostics."""
