"""Values that each device can make for itself, in whatever parts: nothing needs to be moved."""

from __future__ import annotations

from xladev.hlo.ir import HloInstruction
from xladev.passes.sharding.graph import is_constant

_DEPTH = 8
_PASSING = frozenset({"copy", "convert", "reshape", "transpose", "broadcast", "concatenate"})


def is_made_of_constants(i: HloInstruction) -> bool:
    """True for constants and counters, and for what moves or converts their elements in few steps.

    A use that needs other parts than another one makes them again, which costs no more than a
    move of elements does.
    """
    return _is_made(i, _DEPTH)


def _is_made(i: HloInstruction, depth: int) -> bool:
    if is_constant(i):
        return True
    if not depth or i.opcode not in _PASSING or i.shape.is_dynamic:
        return False
    return all(_is_made(o, depth - 1) for o in i.operands)
