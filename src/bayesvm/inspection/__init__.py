"""Reports of fitted estimators."""
