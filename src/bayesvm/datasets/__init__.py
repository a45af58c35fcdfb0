"""Simulators from the papers, and loaders of the real data they use."""

from .real import (
    fetch_susy,
    load_acath,
    load_benchmark,
    load_gene_expression,
    load_raetsch,
    load_spam,
    load_susy,
    load_toenail,
    load_usps,
)
from .simulators import simulate_chen, simulate_luts, simulate_messy_table

__all__ = [
    "simulate_luts", "simulate_chen", "simulate_messy_table", "load_spam", "load_toenail",
    "load_acath", "load_raetsch", "load_usps", "load_susy", "fetch_susy", "load_gene_expression",
    "load_benchmark",
]  # fmt: skip
