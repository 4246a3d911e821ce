"""Emulated NCCL for communicators that span processes, by the names of its C interface.

As there, a call only enqueues: what the streams then wait for comes from the other ranks, and a
rank that never comes leaves them waiting until the communicator is aborted.
"""

from __future__ import annotations

import hashlib
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from xladev.hlo.dtype import by_name
from xladev.platforms.cuda.driver.emulated_calls import Array, CallMemory
from xladev.platforms.cuda.driver.emulated_collectives import (
    WorkStream,
    collective_results,
    parts,
)
from xladev.platforms.cuda.driver.emulated_links import (
    COLLECTIVE,
    POINT_TO_POINT,
    Key,
    Links,
    new_id,
)
from xladev.platforms.cuda.driver.interface import (
    DriverDevice,
    DriverError,
    DriverStream,
    LibraryError,
)
from xladev.platforms.cuda.libraries.collectives import OPERATIONS, SUMS, LibraryCollective

VERSION = 22000
_NAMES = {
    0: "no error", 5: "invalid usage", 6: "remote process exited or there was a network error",
    7: "NCCL operation in progress",
}  # fmt: skip
_DTYPES = {number: name for name, number in SUMS.items()}
_OPERATIONS = {number: name for name, number in OPERATIONS.items()}


@runtime_checkable
class ExpectingStream(WorkStream, Protocol):
    """A stream that waits for what comes from outside the emulator: an emulated one."""

    def expect(self, arrival: Any) -> None:
        """Makes what is enqueued later wait until ``arrival.is_done``."""
        ...


class EmulatedNccl:
    """The library.

    Args:
        memory: of the emulated devices.
    """

    def __init__(self, memory: CallMemory) -> None:
        self._memory = memory
        self._meetings: dict[bytes, socket.socket] = {}
        self._group = threading.local()

    def version(self) -> int:
        """See `RankLibrary.version`."""
        return VERSION

    def name(self, state: int) -> str:
        """See `RankLibrary.name`."""
        return _NAMES.get(state, f"error {state}")

    def unique_id(self) -> bytes:
        """See `RankLibrary.unique_id`."""
        made, listener = new_id()
        self._meetings[made] = listener
        return made

    def begin_group(self) -> None:
        """See `RankLibrary.begin_group`.

        Raises:
            DriverError: the thread is in a group already; NCCL would nest it.
        """
        if self._enqueued is not None:
            raise DriverError("a group of NCCL calls within another")
        self._group.enqueued = []

    @property
    def _enqueued(self) -> list[tuple[ExpectingStream, _Call]] | None:
        return getattr(self._group, "enqueued", None)

    def end_group(self) -> None:
        """See `RankLibrary.end_group`: calls of one stream begin together."""
        calls, self._group.enqueued = self._enqueued or [], None
        by_stream: dict[int, list[_Call]] = {}
        streams = {id(stream): stream for stream, _ in calls}
        for stream, call in calls:
            by_stream.setdefault(id(stream), []).append(call)
        for key, row in by_stream.items():
            _enqueue(streams[key], row)

    def enqueue(self, stream: ExpectingStream, call: _Call) -> None:
        """Enqueues a call, when the group ends if there is one."""
        if self._enqueued is None:
            _enqueue(stream, [call])
        else:
            self._enqueued.append((stream, call))

    def rank(self, device: DriverDevice, size: int, unique_id: bytes, rank: int) -> EmulatedRank:
        """See `RankLibrary.rank`.

        Raises:
            LibraryError: there is no such rank.
        """
        if not 0 <= rank < size:
            raise LibraryError("ncclCommInitRankConfig", "invalid argument", f"{rank} of {size}")
        links = Links(unique_id, rank, size, self._meetings.pop(unique_id, None))
        return EmulatedRank(self, self._memory, links, rank, size)

    def stream(self, stream: DriverStream) -> ExpectingStream:
        """See `RankLibrary.stream`.

        Raises:
            DriverError: it is another driver's.
        """
        if not isinstance(stream, ExpectingStream):
            raise DriverError("the stream belongs to another driver")
        return stream

    def fill_zeros(
        self, device: DriverDevice, address: int, nbytes: int, stream: DriverStream
    ) -> None:
        """See `RankLibrary.fill_zeros`."""
        self.stream(stream).call(lambda: self._memory.bytes_at(address, nbytes).fill(0))


class _Call(Protocol):
    """One call of one rank."""

    @property
    def wanted(self) -> Sequence[Key]:
        """Messages that it waits for."""
        ...

    @property
    def links(self) -> Links:
        """Of the rank."""
        ...

    def begin(self) -> None:
        """Sends what it has to send."""
        ...

    def finish(self) -> None:
        """Computes, once the messages are there."""
        ...


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Messages of other ranks, or the end of the communicator."""

    calls: Sequence[_Call]

    @property
    def is_done(self) -> bool:
        return all(
            call.links.is_over or all(call.links.has(key) for key in call.wanted)
            for call in self.calls
        )


def _enqueue(stream: ExpectingStream, calls: Sequence[_Call]) -> None:
    def begin() -> None:
        for call in calls:
            if not call.links.is_over:
                call.begin()

    def finish() -> None:
        for call in calls:
            if not call.links.is_over:
                call.finish()

    stream.call(begin)
    stream.expect(_Arrival(calls))
    stream.call(finish)


class EmulatedRank:
    """See `Rank`.

    Args:
        library: that it belongs to.
        memory: of the emulated devices.
        links: to the other ranks.
        rank, size: this one, and how many there are.
    """

    def __init__(
        self, library: EmulatedNccl, memory: CallMemory, links: Links, rank: int, size: int
    ) -> None:
        self._library, self.memory, self.links = library, memory, links
        self.number, self.size = rank, size
        self._collectives = 0
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()

    def state(self) -> int:
        """See `Rank.state`."""
        return 0 if self.links.is_over else self.links.state

    def abort(self) -> None:
        """See `Rank.abort`."""
        self.links.abort()

    def close(self) -> None:
        """See `Rank.close`."""
        self.links.close()

    # Collectives

    def _collective(
        self, opcode: str, given: int, result: int, count: int, dtype: int, stream: Any,
        op: int = 0, root: int = 0,
    ) -> None:  # fmt: skip
        if dtype not in _DTYPES or op not in _OPERATIONS or not 0 <= root < self.size:
            raise LibraryError(opcode, "invalid argument", f"type {dtype}, {op}, root {root}")
        said = LibraryCollective(opcode, _DTYPES[dtype], count, _OPERATIONS[op], root)
        self._collectives += 1
        call = _CollectiveCall(self, said, self._collectives, given, result)
        self._library.enqueue(stream, call)

    def allReduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: Any
    ) -> None:
        """See `Collectives.allReduce`."""
        self._collective("all-reduce", sendbuf, recvbuf, count, datatype, stream, op)

    def reduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: Any
    ) -> None:
        """See `Collectives.reduce`."""
        self._collective("collective-reduce", sendbuf, recvbuf, count, datatype, stream, op, root)

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: Any
    ) -> None:
        """See `Collectives.reduceScatter`."""
        self._collective("reduce-scatter", sendbuf, recvbuf, recvcount, datatype, stream, op)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: Any) -> None:
        """See `Collectives.allGather`."""
        self._collective("all-gather", sendbuf, recvbuf, count, datatype, stream)

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: Any
    ) -> None:
        """See `Collectives.broadcast`."""
        self._collective(
            "collective-broadcast", sendbuff, recvbuff, count, datatype, stream, root=root
        )

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: Any) -> None:
        """See `Collectives.send`."""
        self._sent[peer] += 1
        call = _Send(self, peer, self._sent[peer], sendbuf, count, _DTYPES[datatype])
        self._library.enqueue(stream, call)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: Any) -> None:
        """See `Collectives.recv`."""
        self._received[peer] += 1
        call = _Receive(self, peer, self._received[peer], recvbuf, count, _DTYPES[datatype])
        self._library.enqueue(stream, call)

    def array(self, address: int, dtype: str, count: int) -> Array:
        """Elements of the emulated memory."""
        made = by_name(dtype).np
        return self.memory.bytes_at(address, count * made.itemsize).view(made)


def _check(*said: object) -> bytes:
    return hashlib.blake2b(repr(said).encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class _CollectiveCall:
    """All send their operands to all."""

    rank: EmulatedRank
    said: LibraryCollective
    number: int
    operand: int
    result: int

    @property
    def links(self) -> Links:
        return self.rank.links

    @property
    def wanted(self) -> Sequence[Key]:
        return [(peer, COLLECTIVE, self.number) for peer in range(self.rank.size)]

    def begin(self) -> None:
        size = self.rank.size
        count = self.said.count * parts(self.said, size)
        data = self.rank.array(self.operand, self.said.dtype, count).tobytes()
        for peer in range(size):
            self.links.send(peer, COLLECTIVE, self.number, _check(self.said), data)

    def finish(self) -> None:
        found = [self.links.take(key) for key in self.wanted]
        if any(check != _check(self.said) for check, _ in found):
            self.links.refuse()
            return
        dtype = by_name(self.said.dtype).np
        results = collective_results(self.said, [np.frombuffer(d, dtype) for _, d in found])
        mine = results[self.rank.number]
        if mine is not None:
            self.rank.array(self.result, self.said.dtype, mine.size)[:] = mine


@dataclass(frozen=True, slots=True)
class _Send:
    """Sends to one rank."""

    rank: EmulatedRank
    peer: int
    number: int
    operand: int
    count: int
    dtype: str

    @property
    def links(self) -> Links:
        return self.rank.links

    @property
    def wanted(self) -> Sequence[Key]:
        return ()

    def begin(self) -> None:
        data = self.rank.array(self.operand, self.dtype, self.count).tobytes()
        check = _check(self.count, self.dtype)
        self.links.send(self.peer, POINT_TO_POINT, self.number, check, data)

    def finish(self) -> None:
        """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class _Receive:
    """Receives from one rank."""

    rank: EmulatedRank
    peer: int
    number: int
    result: int
    count: int
    dtype: str

    @property
    def links(self) -> Links:
        return self.rank.links

    @property
    def wanted(self) -> Sequence[Key]:
        return [(self.peer, POINT_TO_POINT, self.number)]

    def begin(self) -> None:
        """Only waits."""

    def finish(self) -> None:
        check, data = self.links.take(self.wanted[0])
        if check != _check(self.count, self.dtype):
            self.links.refuse()
            return
        found = np.frombuffer(data, by_name(self.dtype).np)
        self.rank.array(self.result, self.dtype, self.count)[:] = found
