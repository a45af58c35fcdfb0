"""The scikit-learn estimators, one file each; :mod:`bayesvm` exports them."""
