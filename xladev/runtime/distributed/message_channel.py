"""Collectives between processes by messages: directly, by a tree, or round a ring, by size.

Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations
in MPICH", 2005: a ring moves 2 (n - 1) / n of the bytes, a tree takes 2 log2(n) steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import count

import numpy as np

from xladev.runtime.distributed.mailbox import Mailbox
from xladev.runtime.distributed.messages import agreement_check, base_tag, step_tag
from xladev.runtime.distributed.transport import Array, Channel, Data, Exchange, JointWork

RING_NBYTES = 1 << 16
"""From here on a ring, which moves fewest bytes; below it a tree, which takes fewest steps."""
PAIR_RING_NBYTES = 1 << 19
"""Of two ranks: one step moves as many bytes as a ring's two, but combines all of them."""
DIRECT_RANKS = 4
"""Up to so many ranks send small arrays to all: one step."""
PIECE_NBYTES = 1 << 22
_COPIED_NBYTES = 1 << 12
"""Up to here it takes less time to copy an array than to make a view of its bytes."""


class MessageChannel(Channel):
    """See `Channel`.

    Args:
        courier: carries messages.
        key: of this channel.
        processes: in the order of ranks.
        process: this one.
    """

    def __init__(
        self, courier: Mailbox, key: bytes, processes: Sequence[int], process: int
    ) -> None:
        self._courier = courier
        self._key = key
        self._processes = tuple(processes)
        self._rank = self._processes.index(process)
        self.peers = self._processes[self._rank + 1 :] + self._processes[: self._rank]
        """The processes of all other ranks, from the one after this."""

    @property
    def processes(self) -> Sequence[int]:
        """See `Channel.processes`."""
        return self._processes

    @property
    def rank(self) -> int:
        """See `Channel.rank`."""
        return self._rank

    def all_reduce(self, exchange: Exchange, array: Array, combine: np.ufunc) -> None:
        """See `Channel.all_reduce`."""
        steps = _Steps(self, self._courier, exchange, self._key)
        if uses_ring(len(self._processes), array.size, array.nbytes):
            _ring(steps, array, combine)
        elif len(self._processes) <= DIRECT_RANKS:
            _direct(steps, array, combine)
        else:
            _tree(steps, array, combine)

    def all_gather(self, exchange: Exchange, data: Data) -> list[Data]:
        """See `Channel.all_gather`: each rank sends its own to all."""
        others = [r for r in range(len(self._processes)) if r != self._rank]
        arrived = self.exchange(exchange, dict.fromkeys(others, data), others)
        return [arrived.get(r, data) for r in range(len(self._processes))]

    def exchange(
        self, exchange: Exchange, sent: Mapping[int, Data], sources: Collection[int]
    ) -> dict[int, Data]:
        """See `Channel.exchange`; each rank begins with the one after it, so that no one waits."""
        steps = _Steps(self, self._courier, exchange, self._key)
        size = len(self._processes)
        for rank in sorted(sent, key=lambda r: (r - self._rank) % size):
            steps.send(rank, 0, sent[rank])
        return {rank: steps.receive(rank, 0) for rank in sources}

    @property
    def can_attend(self) -> bool:
        """See `Channel.can_attend`."""
        return True

    def attend(self, exchange: Exchange, work: JointWork, also: bytes = b"") -> None:
        """See `Channel.attend`."""
        others = [p for p in self._processes if p != self._processes[self._rank]]
        runs = (exchange.run, also) if also else (exchange.run,)
        self._courier.attend(others, runs, work, f"collective {exchange.name!r}")

    def has_failed(self, run: bytes) -> bool:
        """See `Channel.has_failed`."""
        return self._courier.has_failed(run)


def uses_ring(ranks: int, size: int, nbytes: int) -> bool:
    """True if so many numbers, of so many bytes in sum, are reduced round a ring."""
    return size >= ranks and nbytes >= (PAIR_RING_NBYTES if ranks == 2 else RING_NBYTES)


@lru_cache(1024)
def _what(name: str) -> str:
    """What errors call an exchange; made once, as it takes longer than to send four bytes."""
    return f"collective {name!r}"


class _Steps:
    """The messages of one exchange."""

    def __init__(
        self, channel: MessageChannel, courier: Mailbox, exchange: Exchange, key: bytes
    ) -> None:
        self.rank = channel.rank
        self.processes = channel.processes
        self.size = len(self.processes)
        self._peers = channel.peers
        self._courier = courier
        self._base = base_tag(key, exchange.run, exchange.name)
        self._check = agreement_check(exchange.agreement)
        self._what = _what(exchange.name)

    def send(self, rank: int, step: int, data: Data | Array) -> None:
        view = _bytes_of(data) if isinstance(data, np.ndarray) else data
        self._courier.send(self.processes[rank], step_tag(self._base, step), self._check, view)

    def swap(self, array: Array) -> dict[int, memoryview]:
        """Sends all others the same; what each process sent."""
        data = array.tobytes() if array.nbytes <= _COPIED_NBYTES else _bytes_of(array)
        tag = step_tag(self._base, 0)
        return self._courier.swap(self._peers, tag, self._check, data, self._what)

    def post(self, rank: int, step: int, into: Array) -> None:
        self._courier.post(self.processes[rank], step_tag(self._base, step), _bytes_of(into))

    def receive(self, rank: int, step: int) -> memoryview:
        tag = step_tag(self._base, step)
        return self._courier.receive(self.processes[rank], tag, self._check, self._what)

    def receive_into(self, rank: int, step: int, into: Array) -> None:
        """Waits for what `post` wanted; copies it where it came before that."""
        data = self.receive(rank, step)
        if data.nbytes and np.frombuffer(data, np.uint8).ctypes.data != into.ctypes.data:
            into.view(np.uint8)[:] = np.frombuffer(data, np.uint8)


def _bytes_of(array: Array) -> memoryview:
    return array.view(np.uint8).data


def _direct(steps: _Steps, array: Array, combine: np.ufunc) -> None:
    """All send to all, and combine in rank order."""
    given, own = steps.swap(array), steps.rank
    rows = [
        array if rank == own else np.frombuffer(given[process], array.dtype)
        for rank, process in enumerate(steps.processes)
    ]
    total = rows[0]
    for rank in range(1, steps.size):  # the array is not written before it was read
        total = combine(total, rows[rank], out=None if rank < own else array)


def _tree(steps: _Steps, array: Array, combine: np.ufunc) -> None:
    """To rank 0 along a binomial tree, and back."""
    distance = 1
    while distance < steps.size and not steps.rank & distance:
        if steps.rank + distance < steps.size:
            given = np.frombuffer(steps.receive(steps.rank + distance, 0), array.dtype)
            combine(array, given, out=array)
        distance *= 2
    if steps.rank:
        steps.send(steps.rank - distance, 0, array)
        array[:] = np.frombuffer(steps.receive(steps.rank - distance, 1), array.dtype)
    while distance > 1:
        distance //= 2
        if steps.rank + distance < steps.size:
            steps.send(steps.rank + distance, 1, array)


def _ring(steps: _Steps, array: Array, combine: np.ufunc) -> None:
    """Parts go round and are added up; then the sums go round."""
    size, rank = steps.size, steps.rank
    bounds = [array.size * i // size for i in range(size + 1)]
    parts = [array[bounds[i] : bounds[i + 1]] for i in range(size)]
    longest = max(map(len, parts))
    piece = max(1, PIECE_NBYTES // array.itemsize)
    spare = np.empty((2, min(piece, longest)), array.dtype)
    numbers = count()
    after, before = (rank + 1) % size, (rank - 1) % size
    for turn in range(size - 1):
        mine, theirs = parts[(rank - turn) % size], parts[(rank - turn - 1) % size]
        for at in range(0, longest, piece):
            number, part = next(numbers), theirs[at : at + piece]
            into = spare[number % 2][: len(part)]
            steps.post(before, number, into)
            steps.send(after, number, mine[at : at + piece])
            steps.receive_into(before, number, into)
            combine(part, into, out=part)
    for turn in range(size - 1):
        mine, theirs = parts[(rank - turn + 1) % size], parts[(rank - turn) % size]
        starts = [(next(numbers), at) for at in range(0, longest, piece)]
        for number, at in starts:
            steps.post(before, number, theirs[at : at + piece])
        for number, at in starts:
            steps.send(after, number, mine[at : at + piece])
        for number, at in starts:
            steps.receive_into(before, number, theirs[at : at + piece])
