"""Models and the state of fits in files."""
