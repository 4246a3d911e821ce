"""A job of which one process is here: the others answer at once, with what it said itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from xladev.runtime.distributed.message_channel import uses_ring
from xladev.runtime.distributed.transport import Array, Channel, Data, Exchange, Transport


class SilentTransport(Transport):
    """See `Transport`. Nothing is sent; results have the right sizes and no meaning.

    Args:
        size: processes of the job.
        expected_nbytes: of what an exchange of a name brings from a process to which nothing is
            sent in it.
        rank: the number of this process.
        meet: called in each exchange, with what it is.
    """

    def __init__(
        self,
        size: int,
        expected_nbytes: Callable[[str], int],
        rank: int = 0,
        meet: Callable[[Exchange], None] = lambda _: None,
    ) -> None:
        super().__init__(rank, size)
        self._expected_nbytes = expected_nbytes
        self._meet = meet

    def channel(self, key: bytes, processes: Sequence[int]) -> Channel:
        """See `Transport.channel`."""
        return _SilentChannel(processes, self.rank, self._expected_nbytes, self._meet)


class _SilentChannel(Channel):
    def __init__(
        self,
        processes: Sequence[int],
        process: int,
        expected_nbytes: Callable[[str], int],
        meet: Callable[[Exchange], None],
    ) -> None:
        self._processes = tuple(processes)
        self._rank = self._processes.index(process)
        self._expected_nbytes = expected_nbytes
        self._meet = meet

    @property
    def processes(self) -> Sequence[int]:
        return self._processes

    @property
    def rank(self) -> int:
        return self._rank

    def all_reduce(self, exchange: Exchange, array: Array, combine: np.ufunc) -> None:
        """Combines as many numbers as a process does, by a ring or directly."""
        self._meet(exchange)
        ranks = len(self._processes)
        part = array[: -(-array.size // ranks)] if self._cuts(array) else array
        given = part.copy()
        for _ in range(ranks - 1):
            combine(part, given, out=part)

    def _cuts(self, array: Array) -> bool:
        return uses_ring(len(self._processes), array.size, array.nbytes)

    def all_gather(self, exchange: Exchange, data: Data) -> list[Data]:
        self._meet(exchange)
        return [data] * len(self._processes)

    def exchange(
        self, exchange: Exchange, sent: Mapping[int, Data], sources: Collection[int]
    ) -> dict[int, Data]:
        self._meet(exchange)
        if not sources:
            return {}
        given = next(iter(sent.values()), None)
        like = bytes(self._expected_nbytes(exchange.name)) if given is None else given
        return dict.fromkeys(sources, like)
