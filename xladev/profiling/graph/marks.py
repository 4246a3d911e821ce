"""The word about each instruction that differs from another program."""

from __future__ import annotations

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.profiling.structure import differences


def difference_marks(first: HloModule, second: HloModule) -> dict[HloInstruction, str]:
    """``removed``, ``added`` or ``rewired``, of instructions of both."""
    marks: dict[HloInstruction, str] = {}
    for difference in differences(first, second):
        marks |= dict.fromkeys(difference.removed, "removed")
        marks |= dict.fromkeys(difference.added, "added")
        for pair in difference.rewired:
            marks |= dict.fromkeys(pair, "rewired")
    return marks
