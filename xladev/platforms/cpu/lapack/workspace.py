"""How much workspace a routine wants: asked of the routine itself, when a program is compiled."""

from __future__ import annotations

import ctypes
from enum import Enum
from functools import lru_cache

from xladev.platforms.cpu.lapack.found import require
from xladev.platforms.cpu.lapack.routines import SIGNATURES


class Unread(Enum):
    """Arguments of a query that are no numbers."""

    ARRAY = 0
    """Any memory: a query does not look at it."""
    SIZE = 1
    """Where the routine says how long this array should be."""


Argument = int | str | Unread
ARRAY, SIZE = Unread.ARRAY, Unread.SIZE

QUERY = -1
"""The length of a workspace that makes the routine say how long it should be."""
_NBYTES = 64
_EXACT = 1 << 24
"""Sizes up to which f32 has every whole number."""


@lru_cache(maxsize=4096)
def workspace_sizes(symbol: str, *arguments: Argument) -> tuple[int, ...]:
    """Elements of each array that is passed as `SIZE`.

    Args:
        symbol: a routine, such as ``dgesdd``.
        arguments: characters, integers and what stands for arrays, in LAPACK's order.

    Raises:
        CompileError: there is no such routine.
    """
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(SIGNATURES[symbol]))(
        require((symbol,), f"the workspace of {symbol}")[symbol]
    )
    buffers = [_buffer(argument) for argument in arguments]
    function(*map(ctypes.addressof, buffers))
    kinds = SIGNATURES[symbol]
    return tuple(
        max(_size(buffer, _number_type(kind, symbol[0])), 1)
        for buffer, argument, kind in zip(buffers, arguments, kinds, strict=True)
        if argument is SIZE
    )


def _buffer(argument: Argument) -> ctypes.Array[ctypes.c_char]:
    buffer = (ctypes.c_char * _NBYTES)()
    if isinstance(argument, str):
        buffer[0] = argument.encode()
    elif isinstance(argument, int):
        ctypes.c_int32.from_buffer(buffer).value = argument
    return buffer


def _number_type(kind: str, letter: str) -> type[ctypes.c_int32 | ctypes.c_float | ctypes.c_double]:
    if kind == "i":
        return ctypes.c_int32
    return ctypes.c_float if letter in "sc" else ctypes.c_double


def _size(
    buffer: ctypes.Array[ctypes.c_char],
    number: type[ctypes.c_int32 | ctypes.c_float | ctypes.c_double],
) -> int:
    """The number in a buffer; a little more where f32 may have rounded it down."""
    found = int(number.from_buffer(buffer).value)
    return found if found <= _EXACT else found + found // _EXACT + 1
