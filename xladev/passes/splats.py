"""Values all of whose elements are equal, as far as that is plain to see."""

from __future__ import annotations

import numpy as np

from xladev.hlo.ir import HloInstruction
from xladev.hlo.literal import Array

_KEEPS_ELEMENTS = frozenset({"broadcast", "reshape", "copy", "transpose", "bitcast"})
_LARGEST = 4096
"""Constants with more elements are not looked through."""


def splat_of(instruction: HloInstruction) -> Array | None:
    """The one element of a constant, or of a broadcast of a constant; None if there is none.

    Returns:
        An array of rank 0.
    """
    while instruction.op.name in _KEEPS_ELEMENTS and instruction.shape.is_array:
        if instruction.op.name == "bitcast" and not _keeps_type(instruction):
            return None
        instruction = instruction.operands[0]
    if instruction.op.name != "constant" or not instruction.shape.is_array:
        return None
    literal = instruction["literal"]
    if literal.elided or not 0 < literal.shape.size <= _LARGEST:
        return None
    flat = literal.array.reshape(-1)
    first = flat[:1]
    if flat.size > 1 and flat.tobytes() != first.tobytes() * flat.size:
        return None
    return np.asarray(first.reshape(()))


def _keeps_type(instruction: HloInstruction) -> bool:
    return instruction.shape.element_type is instruction.operands[0].shape.element_type


def all_elements(instruction: HloInstruction, value: complex) -> bool:
    """True if every element is known to have the bits of ``value`` in the array's type."""
    found = splat_of(instruction)
    if found is None:
        return False
    with np.errstate(all="ignore"):
        wanted = np.asarray(value).astype(found.dtype)
    exact = complex(wanted) == value or value != value
    return exact and wanted.tobytes() == found.tobytes()
