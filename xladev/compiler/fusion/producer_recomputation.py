"""Which values are better computed by each kernel that reads them than written once.

A value that is one cheap step from a single array of its size costs each reader as many bytes as
the value itself would: writing it would be the only difference.
"""

from __future__ import annotations

from xladev.hlo.expense import PAIR
from xladev.hlo.ir import HloInstruction


def is_worth_copying(value: HloInstruction, least_nbytes: int) -> bool:
    """True if each reader should compute the value itself.

    Args:
        value: what several kernels read.
        least_nbytes: size from which writing it costs more than another step in each of them.
    """
    if not _is_cheap(value) or not value.shape.is_array:
        return False
    if value.shape.nbytes < least_nbytes:
        return False
    large = {o for o in value.operands if o.shape.size == value.shape.size and not _is_spread(o)}
    return len(large) <= 1 and all(o.shape.nbytes <= value.shape.nbytes for o in large)


def _is_cheap(value: HloInstruction) -> bool:
    """True for one or two machine instructions for a vector."""
    return value.opcode == "broadcast" or (value.op.elementwise and value.op.expense <= PAIR)


def _is_spread(operand: HloInstruction) -> bool:
    """True for a broadcast of a smaller array, which kernels read instead."""
    return operand.opcode == "broadcast" and operand.operands[0].shape.size < operand.shape.size
