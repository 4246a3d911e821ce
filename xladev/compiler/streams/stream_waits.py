"""What streams must wait for: the fewest events that keep an order, and a check that they do.

Work of one stream keeps its order. What a step of another stream must follow needs an event, unless
it is implied: by an earlier wait of its own stream, or by what another awaited step waited for.
For every step a clock says how far each stream is known to be when the step begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.compiler.streams.stream_hazards import MemoryAccess
from xladev.errors import CompileError

MAIN = 0
"""The stream that a launch is given: all others begin after what it holds, and end in it."""

START = -1
"""Number of the moment before the first step."""

_NEVER = -2

Clock = tuple[int, ...]
"""By stream, the last step that is known to be done; `START` if it is known to have begun."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Events that streams wait for.

    Attributes:
        before: for each step, the steps of other streams that its stream waits for, or `START`.
        joined: the steps that the main stream waits for at the end.
    """

    before: tuple[tuple[int, ...], ...]
    joined: tuple[int, ...]


def fewest_waits(needs: Sequence[Sequence[int]], streams: Sequence[int]) -> Waits:
    """The least set of waits that keeps an order.

    Args:
        needs: for each step, earlier steps that it must follow.
        streams: of each step.
    """
    clocks = _Clocks(max(streams, default=MAIN) + 1)
    before: list[tuple[int, ...]] = []
    for number, (needed, stream) in enumerate(zip(needs, streams, strict=True)):
        found = clocks.missing(stream, [(streams[n], n) for n in needed])
        clocks.advance(number, stream, found)
        before.append(tuple(sorted(n for _, n in found)))
    used = sorted(set(streams) - {MAIN})
    last = {stream: number for number, stream in enumerate(streams)}
    joined = clocks.missing(MAIN, [(stream, last[stream]) for stream in used])
    return Waits(tuple(before), tuple(sorted(n for _, n in joined)))


def clocks_of(streams: Sequence[int], waits: Waits) -> list[Clock]:
    """For each step, how far each stream is known to be when it begins."""
    clocks = _Clocks(max(streams, default=MAIN) + 1)
    for number, (stream, awaited) in enumerate(zip(streams, waits.before, strict=True)):
        clocks.advance(number, stream, [(_stream_of(n, streams), n) for n in awaited])
    return clocks.begun


def check_order(accesses: Sequence[MemoryAccess], streams: Sequence[int], waits: Waits) -> None:
    """Checks that steps which touch the same memory are ordered; quadratic, for tests.

    Raises:
        CompileError: two steps that may run at once though one writes what the other touches; a
            stream that begins before the launch does; one that nobody waits for.
    """
    clocks = clocks_of(streams, waits)
    for number, access in enumerate(accesses):
        if clocks[number][MAIN] < START:
            raise _unordered(number, "does not wait for what was enqueued before the launch")
        for earlier in range(number):
            known = clocks[number][streams[earlier]]
            if known < earlier and access.must_follow(accesses[earlier]):
                raise _unordered(number, f"does not wait for step {earlier}, whose memory it uses")
    _check_joined(clocks, streams, waits)


def _check_joined(clocks: Sequence[Clock], streams: Sequence[int], waits: Waits) -> None:
    done = [START if stream == MAIN else _NEVER for stream in range(max(streams, default=0) + 1)]
    ends = {stream: number for number, stream in enumerate(streams)}
    for number in (*waits.joined, *(n for stream, n in ends.items() if stream == MAIN)):
        reached = list(clocks[number])
        reached[streams[number]] = number
        done = [max(pair) for pair in zip(done, reached, strict=True)]
    for stream, number in ends.items():
        if done[stream] < number:
            raise _unordered(number, "is not waited for at the end")


def _unordered(number: int, why: str) -> CompileError:
    return CompileError(f"step {number} of a program of several streams {why}")


def _stream_of(number: int, streams: Sequence[int]) -> int:
    return MAIN if number == START else streams[number]


class _Clocks:
    """How far each stream knows the others to be.

    Attributes:
        begun: the clock of each step when it begins.
    """

    def __init__(self, count: int) -> None:
        self._now = [[_NEVER] * count for _ in range(count)]
        self._now[MAIN][MAIN] = START
        self.begun: list[Clock] = []

    def missing(self, stream: int, wanted: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Those of some steps (stream, number) that a stream must wait for by events."""
        now = self._now[stream]
        last: dict[int, int] = {} if now[MAIN] >= START else {MAIN: START}
        for other, number in wanted:
            if number > max(now[other], last.get(other, _NEVER)):
                last[other] = number
        found = list(last.items())
        return [
            (other, number)
            for other, number in found
            if not any(self._knows(n, other) >= number for o, n in found if o != other)
        ]

    def _knows(self, step: int, stream: int) -> int:
        """How far a stream is when a step is done."""
        return _NEVER if step == START else self.begun[step][stream]

    def advance(self, number: int, stream: int, awaited: Sequence[tuple[int, int]]) -> None:
        """A step follows in its stream, after waits for some others."""
        now = self._now[stream]
        for other, awaited_number in awaited:
            known = self.begun[awaited_number] if awaited_number != START else None
            for s, value in enumerate(known or ()):
                now[s] = max(now[s], value)
            now[other] = max(now[other], awaited_number)
        self.begun.append(tuple(now))
        now[stream] = number
