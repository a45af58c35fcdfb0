"""Tables as people have them, made ready for a fit."""
