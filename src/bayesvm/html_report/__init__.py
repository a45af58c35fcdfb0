"""A report on a model for readers: one HTML page, and its tables."""
