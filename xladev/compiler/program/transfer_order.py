"""When values are transferred: as soon as they are there, before their device is given more work.

A run enqueues a copy where its transfer stands, or puts it off until the value is there. So a
transfer stands behind what makes its value, before the next work of the device that holds it: the
copy is the first thing that its stream has to do, and the host has it early.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.compiler.program.program import Slot
from xladev.compiler.program.thunks import (
    Constant,
    Slots,
    Thunk,
    Transfer,
    reads,
    writes,
)


def with_early_transfers(
    thunks: Sequence[Thunk], slots: Sequence[Slot], parameters: Slots
) -> tuple[Thunk, ...]:
    """The thunks, each transfer before the next region on the platform that it reads from.

    Nothing else changes its place, and a transfer comes after what makes its value.

    Args:
        thunks: of one procedure, in order.
        slots: what they work on.
        parameters: the slots that are filled before.
    """
    if len({slot.platform for slot in slots}) < 2:
        return tuple(thunks)
    early: list[list[Thunk]] = [[] for _ in thunks]
    own: list[list[Thunk]] = [[] for _ in thunks]
    written = dict.fromkeys(parameters, -1)
    runs = _runs_by_platform(thunks, slots)
    for at, thunk in enumerate(thunks):
        goal = _goal(at, thunk, slots, runs, written)
        (own if goal == at else early)[goal].append(thunk)
        written.update(dict.fromkeys(writes(thunk), goal))
    return tuple(t for row in zip(early, own, strict=True) for group in row for t in group)


def _goal(
    at: int,
    thunk: Thunk,
    slots: Sequence[Slot],
    runs: dict[int, list[int]],
    written: dict[int, int],
) -> int:
    """The place in whose stead a thunk goes; its own, if it is no transfer that has to wait."""
    if not isinstance(thunk, Transfer):
        return at
    made = written[thunk.source]
    later = runs.get(slots[thunk.source].platform, [])
    return next((n for n in later if made < n < at), at)


def _runs_by_platform(thunks: Sequence[Thunk], slots: Sequence[Slot]) -> dict[int, list[int]]:
    """Where each platform is given work."""
    runs: dict[int, list[int]] = {}
    for at, thunk in enumerate(thunks):
        if isinstance(thunk, (Transfer, Constant)):
            continue
        used = writes(thunk) or reads(thunk)
        for platform in {slots[slot].platform for slot in used}:
            runs.setdefault(platform, []).append(at)
    return runs
