"""Measures rounds of messages between the processes of this job, all of one machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from xladev.hlo.in_threads import processors
from xladev.profiling.mesh.round_times import RoundTimes, TransportTimes
from xladev.runtime.distributed.job import Job
from xladev.runtime.distributed.messages import run_tag
from xladev.runtime.distributed.transport import Array, Channel, Exchange

Clock = Callable[[], float]

SIZES = (8, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 24)
_BETWEEN_NBYTES = 1 << 22
"""That a process writes before some rounds, in about half a millisecond: caches hold other things,
and processes that share processors come to the first round at different times, as in a step."""
_ROUNDS = 3
"""That follow each other. The first one waits for all processes, which is no message's doing: what
further ones add counts."""
_MOST_S = 0.5
"""For one size, in one way."""
_LEAST_S = 1e-9
"""That a round takes, where the clock tells none."""
_BLOCKS, _LEAST_TURNS, _MOST_TURNS = 5, 3, 100
"""Of so many means the median counts, each of so many rounds."""


def measure_rounds(
    job: Job,
    name: str,
    sizes: Sequence[int] = SIZES,
    most_s: float = _MOST_S,
    clock: Clock = time.perf_counter,
) -> TransportTimes:
    """Measures rounds of two processes, of four and so on, and of all; all must call this.

    Args:
        job: of at least two processes, of this machine, that do nothing else meanwhile.
        name: of its transport.
        sizes: bytes of a message, rising.
        most_s: about so long for each size, in seconds.
        clock: tells the time.

    Returns:
        What process 0 measured; in other processes, what they did.

    Raises:
        ProcessError: a process is gone.
    """
    counts = sorted({*_doubling(job.count), job.count})
    everybody = _Rounds(job.transport.channel(b"rounds of all", range(job.count)), clock)
    found = []
    for count in counts:
        if job.index < count:
            channel = job.transport.channel(f"rounds of {count}".encode(), range(count))
            found.append(_measured(_Rounds(channel, clock), count, tuple(sizes), most_s))
        everybody.agreed(b"next")
    return TransportTimes(name, processors(), tuple(found))


def _doubling(most: int) -> Iterator[int]:
    count = 2
    while count < most:
        yield count
        count *= 2


def _measured(rounds: _Rounds, count: int, sizes: tuple[int, ...], most_s: float) -> RoundTimes:
    first = tuple(rounds.time(n, 1, most_s) for n in sizes)
    if count == 2:
        return RoundTimes(count, sizes, first, first)
    every = [rounds.time(n, count - 1, most_s) for n in sizes]
    further = [max(0.0, e - f) / (count - 2) for e, f in zip(every, first, strict=True)]
    return RoundTimes(count, sizes, first, tuple(further))


@dataclass
class _Rounds:
    """Exchanges on one channel, each with a name of its own."""

    channel: Channel
    clock: Clock
    number: int = 0
    between: Array = field(default_factory=lambda: np.ones(_BETWEEN_NBYTES // 4, np.float32))

    def agreed(self, word: bytes) -> list[bytes]:
        """What all say; they wait for each other."""
        return [bytes(said) for said in self.channel.all_gather(self._next(), word)]

    def time(self, nbytes: int, others: int, most_s: float) -> float:
        """Seconds of a round: each sends so many bytes to so many others, and gets as much."""
        data = bytes(nbytes)
        for _ in range(2):
            start = self.clock()
            self._turn(data, others, _ROUNDS)
            once = self.clock() - start
        turns = int(max(_LEAST_TURNS, min(_MOST_TURNS, most_s / _BLOCKS / once)))
        turns = int.from_bytes(self.agreed(turns.to_bytes(4, "little"))[0], "little")
        blocks = []
        for _ in range(_BLOCKS):
            alone = self._block(lambda: self._turn(data, others, 1), turns)
            row = self._block(lambda: self._turn(data, others, _ROUNDS), turns)
            blocks.append((row - alone) / (_ROUNDS - 1))
        return max(_LEAST_S, statistics.median(blocks))

    def _block(self, work: Callable[[], object], turns: int) -> float:
        """Seconds of one turn of work that all processes do at once."""
        self.agreed(b"begin")
        start = self.clock()
        for _ in range(turns):
            work()
        return (self.clock() - start) / turns

    def _write(self) -> None:
        np.negative(self.between, out=self.between)

    def _turn(self, data: bytes, others: int, rounds: int) -> None:
        """Writes, and exchanges so often."""
        rank, size = self.channel.rank, len(self.channel.processes)
        targets = [(rank + step) % size for step in range(1, others + 1)]
        sources = [(rank - step) % size for step in range(1, others + 1)]
        self._write()
        for _ in range(rounds):
            self.channel.exchange(self._next(), dict.fromkeys(targets, data), sources)

    def _next(self) -> Exchange:
        self.number += 1
        return Exchange(run_tag(b"rounds", self.number), "round")
