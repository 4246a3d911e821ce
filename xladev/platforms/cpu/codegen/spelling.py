"""A computation as text: all that its code depends on, whatever its parts are named."""

from __future__ import annotations

import hashlib
from typing import Any

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Literal


def digest(computation: HloComputation) -> str:
    """Sixteen hexadecimal digits, the same for computations that compute the same alike."""
    return hashlib.sha256(_spelled(computation).encode()).hexdigest()[:16]


def _spelled(computation: HloComputation) -> str:
    numbers = {i: n for n, i in enumerate(computation.instructions)}
    lines = [_line(i, numbers) for i in computation.instructions]
    return f"{{{';'.join([*lines, str(numbers[computation.root])])}}}"


def _line(i: HloInstruction, numbers: dict[HloInstruction, int]) -> str:
    operands = ",".join(str(numbers[o]) for o in i.operands)
    attributes = ",".join(f"{key}={_value(value)}" for key, value in sorted(i.attrs.items()))
    return f"{i.opcode} {i.shape} ({operands}) {attributes}"


def _value(value: Any) -> str:
    match value:
        case HloComputation():
            return _spelled(value)
        case Literal():
            return f"{value.shape} {value.bits().hex()}"
        case tuple():
            return f"({','.join(map(_value, value))})"
        case _:
            return repr(value)
