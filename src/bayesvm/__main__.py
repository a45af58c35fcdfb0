"""``python -m bayesvm``: the command ``bayesvm``."""

from __future__ import annotations

from .cli import app

if __name__ == "__main__":
    app()
