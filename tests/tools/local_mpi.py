"""Communicators of MPI whose processes are threads here, as far as messages need them.

A message up to `EAGER_NBYTES` is copied when it is sent; of a longer one the buffer is read when it
is received, so that whoever writes there before its request is done is found out.
"""

from __future__ import annotations

import threading
from typing import Any

EAGER_NBYTES = 1 << 14
BYTE, ANY_SOURCE = object(), -1


class Status:
    """What is known of a message that was received."""

    source = nbytes = 0

    def Get_source(self) -> int:
        return self.source

    def Get_count(self, _: object) -> int:
        return self.nbytes


class _Sent:
    def __init__(self, source: int, tag: int, data: memoryview) -> None:
        self.source, self.tag = source, tag
        self.done = len(data) <= EAGER_NBYTES
        self.data = memoryview(bytes(data)) if self.done else data

    def Test(self) -> bool:
        return self.done


class _Receive:
    def __init__(self, world: _World, rank: int, into: memoryview, source: int, tag: int) -> None:
        self.world, self.rank, self.into = world, rank, into
        self.source, self.tag = source, tag
        self.found: _Sent | None = None
        self.is_freed = False

    def Start(self) -> None:
        assert not self.is_freed and self not in self.world.posted[self.rank]
        self.found = None
        self.world.posted[self.rank].append(self)

    def Test(self, status: Status | None = None) -> bool:
        assert not self.is_freed, "it has ended"
        self.world.match(self.rank)
        if self.found is None:
            return False
        if status is not None:
            status.source, status.nbytes = self.found.source, len(self.found.data)
        return True

    def Cancel(self) -> None:
        self.world.posted[self.rank].remove(self)

    def Wait(self) -> None:
        pass

    def Free(self) -> None:
        self.is_freed = True


class _World:
    def __init__(self, size: int) -> None:
        self.lock = threading.Lock()
        self.sent: list[list[_Sent]] = [[] for _ in range(size)]
        self.posted: list[list[_Receive]] = [[] for _ in range(size)]

    def match(self, rank: int) -> None:
        """Gives each receive, in the order they were posted, the first message that fits."""
        with self.lock:
            for receive in list(self.posted[rank]):
                for sent in self.sent[rank]:
                    if sent.tag == receive.tag and receive.source in (ANY_SOURCE, sent.source):
                        assert len(sent.data) <= len(receive.into), "MPI_ERR_TRUNCATE"
                        receive.into[: len(sent.data)] = sent.data
                        receive.found, sent.done = sent, True
                        self.sent[rank].remove(sent)
                        self.posted[rank].remove(receive)
                        break


class Communicator:
    """Of one process."""

    def __init__(self, world: _World, rank: int) -> None:
        self.rank = rank
        self._world = world

    def Isend(self, spec: Any, peer: int, tag: int) -> _Sent:
        sent = _Sent(self.rank, tag, memoryview(spec[0]).cast("B"))
        with self._world.lock:
            self._world.sent[peer].append(sent)
        return sent

    def Recv_init(self, spec: Any, source: int, tag: int) -> _Receive:
        return _Receive(self._world, self.rank, memoryview(spec[0]).cast("B"), source, tag)

    def Irecv(self, spec: Any, source: int, tag: int) -> _Receive:
        receive = self.Recv_init(spec, source, tag)
        receive.Start()
        return receive


def communicators(size: int) -> list[Communicator]:
    """One for each process of a job."""
    world = _World(size)
    return [Communicator(world, rank) for rank in range(size)]
