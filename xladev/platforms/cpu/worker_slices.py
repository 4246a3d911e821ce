"""Slices of the pool's threads: which kernel each worked on, when, beside who runs the program."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from xladev.instrument import TraceEvent
from xladev.platforms.cpu.trace_points import HELP, PART

LONGEST_LOOK = 64
"""Kernels, of all threads that run programs, that may begin while one kernel is shared."""


def helper_tracks(rows: npt.NDArray[np.int64]) -> Mapping[int, str]:
    """The threads that helped, each with what a device calls its track; numbered from 1."""
    idents = dict.fromkeys(rows[rows[:, 1] == HELP, 3].tolist())
    return {ident: f"helper {number}" for number, ident in enumerate(idents, 1)}


def help_events(
    rows: npt.NDArray[np.int64], tracks: Mapping[int, str], kernels: Sequence[TraceEvent]
) -> Iterator[TraceEvent]:
    """A slice for each time that a thread helped with a kernel.

    A helper does not know whose kernel it works on. It comes after the kernel began, and the kernel
    ends after it went, so that the time says which it was, unless programs run at the same time;
    then it is the one that began last.

    Args:
        rows: marks of helping threads: program, step, time, thread.
        tracks: of `helper_tracks`.
        kernels: of those that they helped.
    """
    ordered = sorted(kernels, key=lambda e: e.start_ns)
    starts = [e.start_ns for e in ordered]
    for ident, track in tracks.items():
        begin = None
        for _, step, now, _ in rows[rows[:, 3] == ident].tolist():
            if step == HELP:
                begin = now
            elif step == PART:
                begin = None  # its kernels are events of their own
            elif begin is not None:
                index = bisect_right(starts, begin)
                near = reversed(ordered[max(0, index - LONGEST_LOOK) : index])
                kernel = next((k for k in near if now <= k.start_ns + k.duration_ns), None)
                if kernel is not None:
                    yield _help(kernel, begin, now, track)
                begin = None


def _help(kernel: TraceEvent, begin: int, end: int, name: str) -> TraceEvent:
    track = f"{kernel.track.partition('/')[0]}/{name}"
    args = {name: kernel.args[name] for name in ("hlo_op", "hlo_module")}
    return TraceEvent(kernel.name, "help", begin, end - begin, track, args)
