"""Data types shared by all modules, base classes, array utilities and random numbers."""
