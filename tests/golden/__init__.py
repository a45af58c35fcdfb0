"""Recorded results of the library, and the rules by which a change is compared with them."""
