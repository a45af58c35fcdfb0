"""The scikit-learn estimators, one file each; :mod:`bayesvm` has their names."""
