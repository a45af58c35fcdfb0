"""A model, its data, and the pass over rows that sums statistics."""
