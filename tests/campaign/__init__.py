"""Thousands of generated cases, each judged: right, a clear error, unclear, wrong or a hang.

``make test-campaign`` runs them and prints a table of the outcomes.
"""
