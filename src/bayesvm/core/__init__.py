"""Data types shared by all modules, base classes, array utilities and distributions."""
