"""What one stream hands to another, so that a wait that is left out shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xladev.runtime.event import Event
from xladev.runtime.stream import Stream
from xladev.testing.conformance.probe import Probe, ended

ITERATIONS = 128
_BUSY_NBYTES = 1 << 19
LARGE_NBYTES = 1 << 22
"""Bytes of a copy that takes long; a check takes `Probe.at_most` of them."""
_COPIES = 20
"""So many that a stream that does not wait reads before the last of them."""


def hand_on(probe: Probe, one: Stream, other: Stream, event: Callable[[Stream], Event]) -> None:
    """Each stream in turn waits for the other, takes its byte at once, and gives it on after long.

    Args:
        probe: the check's.
        one, other: streams of one device.
        event: what a stream waits for of the other.

    Raises:
        CheckFailure: a byte was taken before it was given.
    """
    nbytes, size = 2 * ITERATIONS, probe.at_most(_BUSY_NBYTES)
    held, busy = (probe.device.allocate_nbytes(n, "handed on") for n in (nbytes, size))
    memory, where = held.memory, busy.memory.slice(0, size)
    empty, zeros = np.zeros(nbytes, np.uint8), np.zeros(size, np.uint8)
    sent, found = np.full(1, 7, np.uint8), np.zeros(nbytes, np.uint8)
    with ended(one, other):
        one.copy(memory.slice(0, nbytes), empty)
        one.copy(memory.slice(0, 1), sent)
        one.copy(memory.slice(1, 1), memory.slice(0, 1))
        for iteration in range(1, ITERATIONS):
            last, now = (one, other) if iteration % 2 else (other, one)
            now.wait(event(last))
            taken = memory.slice(2 * iteration, 1)
            now.copy(taken, memory.slice(2 * iteration - 1, 1))
            now.copy(where, zeros)  # so long that a stream that does not wait is too early
            now.copy(memory.slice(2 * iteration + 1, 1), taken)
        last = other if (ITERATIONS - 1) % 2 else one
        last.synchronize()
        one.copy(found, memory.slice(0, nbytes))
    if not (found == 7).all():
        late = f"iteration {int(np.argmin(found == 7)) // 2} of {ITERATIONS}"
        probe.fail("a stream did not wait for the event of another", late)


def pass_on(
    probe: Probe, one: Stream, other: Stream, event: Callable[[Stream], Event], iterations: int
) -> None:
    """One stream writes for long, then the other one reads what it wrote last; so often.

    Args:
        probe: the check's.
        one, other: streams of one device; whoever calls ends them.
        event: what a stream waits for of the other.
        iterations: how often.

    Raises:
        CheckFailure: something was read before it was written.
    """
    size = probe.at_most(LARGE_NBYTES)
    held = probe.device.allocate_nbytes(size, "passed on")
    memory = held.memory.slice(0, size)
    zeros, sent, found = (np.full(size, n, np.uint8) for n in (0, 7, 0))
    for iteration in range(iterations):
        found[:] = 0
        for _ in range(_COPIES):
            one.copy(memory, zeros)
        one.copy(memory, sent)
        other.wait(event(one))
        other.copy(found, memory)
        one.wait(event(other))
        other.synchronize()
        right = bool((found == 7).all())
        late = f"iteration {iteration}"
        probe.require(right, "a stream did not wait for the event of another", late)
