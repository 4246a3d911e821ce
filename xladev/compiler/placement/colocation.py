"""Which instructions go to one device together.

Halves of an asynchronous pair, and those that have the frontend attribute `xladev_colocate` with
the same value, which is any word. It is to placement what `_class` is to TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from xladev.hlo.ir import HloInstruction
from xladev.hlo.place_attributes import COLOCATE_KEY

_ENDS = ("-start", "-update", "-done")


def colocated(instructions: Sequence[HloInstruction]) -> Iterator[list[HloInstruction]]:
    """The instructions in groups; most are alone.

    Args:
        instructions: of one computation, operands first.
    """
    groups: dict[Hashable, list[HloInstruction]] = {}
    keys: dict[HloInstruction, Hashable] = {}
    for i in instructions:
        key = keys[i] = _key(i, keys)
        groups.setdefault(key, []).append(i)
    yield from groups.values()


def _key(i: HloInstruction, keys: dict[HloInstruction, Hashable]) -> Hashable:
    """What an instruction has in common with those that it goes with."""
    if i.opcode.endswith(_ENDS[1:]) and i.operands and i.operands[0] in keys:
        return keys[i.operands[0]]
    for key, value in i.note.frontend_attributes:
        if key == COLOCATE_KEY:
            return value
    return i


def colocates(instructions: Iterable[HloInstruction]) -> bool:
    """Whether any of them names what it goes with."""
    return any(key == COLOCATE_KEY for i in instructions for key, _ in i.note.frontend_attributes)
