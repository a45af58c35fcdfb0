"""How loops are compiled, and functions of BLAS that they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding
from numba import njit, types
from numba.extending import get_cython_function_address


def compiled(**how: Any) -> Callable[[Callable[..., Any]], Any]:
    """A function in machine code that other threads run beside, kept on disk where that can be."""
    how = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, **how}

    def compiling(fn: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **how)(fn)
        except RuntimeError:  # no folder to keep it in
            return njit(**how)(fn)

    return compiling


def blas(name: str, arguments: int) -> Any:
    """A function of SciPy's BLAS; its arguments are addresses.

    It is found by a symbol, not by its address, which is another one in the next process.
    """
    symbol = f"bayesvm_{name}"
    binding.add_symbol(symbol, get_cython_function_address("scipy.linalg.cython_blas", name))
    return types.ExternalFunction(symbol, types.void(*[types.uintp] * arguments))
