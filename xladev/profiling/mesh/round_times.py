"""What messages take of the processes of one machine, by size: measured, not supposed.

A table in place of a latency and a rate, since what a byte takes depends on how many there are:
messages are copied by processors, in and out of caches, and large ones are cut.

Source: P. Bedaride and others, "Toward Better Simulation of MPI Applications on Ethernet/TCP
Networks", 2013, model point-to-point messages by pieces of size for the same reason.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xladev.errors import FileError, FormatError

_NAME = "xladev round times 1"


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Rounds in which so many processes of one machine take part at once.

    Attributes:
        processes: how many.
        sizes: bytes of a message, rising.
        first_s: for each size, seconds of a round in which each sends one and gets one.
        further_s: seconds that one more message to and from each adds.
    """

    processes: int
    sizes: tuple[int, ...]
    first_s: tuple[float, ...]
    further_s: tuple[float, ...]

    def seconds(self, nbytes: Sequence[int]) -> float:
        """Of a round in which a process sends or gets messages of so many bytes."""
        ordered = sorted(nbytes, reverse=True)
        further = (self._at(self.further_s, n) for n in ordered[1:])
        return self._at(self.first_s, ordered[0]) + sum(further) if ordered else 0.0

    def _at(self, seconds: tuple[float, ...], nbytes: int) -> float:
        """Between two sizes, or from the last two of them on, along a line."""
        sizes = self.sizes
        if nbytes <= sizes[0] or len(sizes) == 1:
            return seconds[0]
        after = min(bisect_right(sizes, nbytes), len(sizes) - 1)
        slope = (seconds[after] - seconds[after - 1]) / (sizes[after] - sizes[after - 1])
        return max(0.0, seconds[after - 1] + slope * (nbytes - sizes[after - 1]))


@dataclass(frozen=True, slots=True)
class TransportTimes:
    """What a transport takes between processes of one machine.

    Attributes:
        transport: its name.
        cores: processors of the machine.
        rounds: by number of processes, rising; at least one.
    """

    transport: str
    cores: int
    rounds: tuple[RoundTimes, ...]

    def seconds(self, processes: int, nbytes: Sequence[int]) -> float:
        """Of a round of one machine.

        Args:
            processes: of the machine that take part; of more than were measured each has so much
                less of the processors.
            nbytes: of the messages that the process sends or gets that has most to do.
        """
        found = next((r for r in self.rounds if r.processes >= processes), self.rounds[-1])
        less = share(processes, self.cores) / share(found.processes, self.cores)
        return found.seconds(nbytes) * max(1.0, less)

    def meeting_s(self, processes: int) -> float:
        """What it takes that all of so many processes of one machine tell each other a word."""
        return self.seconds(processes, [0] * (processes - 1))

    def to_json(self) -> str:
        """What `from_json` reads."""
        return json.dumps({"format": _NAME, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str) -> TransportTimes:
        """The times that `to_json` wrote.

        Raises:
            FormatError: these are none.
        """
        try:
            read = json.loads(text)
            if read["format"] != _NAME:
                raise ValueError(f"its format is {read['format']!r}, not {_NAME!r}")
            rounds = tuple(map(_round_times, read["rounds"]))
            if not rounds:
                raise ValueError("it has no rounds")
            return cls(str(read["transport"]), int(read["cores"]), rounds)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                "these are no times of rounds", where=where, why=repr(error),
                hint="xladev calibrate --rounds PATH writes them",
            ) from error  # fmt: skip


def read_times(path: Path) -> TransportTimes:
    """The times in a file.

    Raises:
        FormatError: it holds none.
        FileError: it cannot be read.
    """
    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}", why=str(error)) from error
    return TransportTimes.from_json(text, str(path))


def share(processes: int, cores: int) -> float:
    """How many times as long work takes that so many processes do at once, one thread each."""
    return max(1.0, processes / cores)


def _round_times(row: dict[str, Any]) -> RoundTimes:
    sizes = tuple(int(n) for n in row["sizes"])
    first, further = (tuple(float(s) for s in row[key]) for key in ("first_s", "further_s"))
    if not sizes or list(sizes) != sorted(set(sizes)):
        raise ValueError("sizes rise")
    if not len(sizes) == len(first) == len(further):
        raise ValueError("there is a time for each size")
    return RoundTimes(int(row["processes"]), sizes, first, further)
