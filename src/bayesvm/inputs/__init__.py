"""What users give, checked once at ``fit``: cells, labels, weights, groups, parameters."""
