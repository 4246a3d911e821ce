"""Ranks of NCCL communicators that span processes, as the backend sees them.

Two libraries answer: `driver.nccl`, which is NCCL, and `driver.emulated_nccl`. Nothing here blocks:
what takes other processes is under way when a call returns, and `Rank.state` says how far it is.
"""

from __future__ import annotations

from typing import Any, Protocol

from xladev.platforms.cuda.driver.interface import DriverDevice, DriverStream

SUCCESS, REMOTE_ERROR, IN_PROGRESS = 0, 6, 7
"""Of ncclResult_t."""
UNIQUE_ID_NBYTES = 128


class Collectives(Protocol):
    """What a rank calls, under the names of CuPy's `NcclCommunicator`.

    Pointers are addresses, counts are of elements, types and operations are NCCL's numbers.
    """

    def allReduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: Any
    ) -> object:
        """ncclAllReduce."""
        ...

    def reduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: Any
    ) -> object:
        """ncclReduce."""
        ...

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: Any
    ) -> object:
        """ncclReduceScatter."""
        ...

    def allGather(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: Any
    ) -> object:
        """ncclAllGather."""
        ...

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: Any
    ) -> object:
        """ncclBroadcast."""
        ...

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: Any) -> object:
        """ncclSend."""
        ...

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: Any) -> object:
        """ncclRecv."""
        ...


class Rank(Collectives, Protocol):
    """One device's part of a communicator."""

    def state(self) -> int:
        """What ncclCommGetAsyncError says."""
        ...

    def abort(self) -> None:
        """ncclCommAbort: ends what is under way, and the communicator, without the others."""
        ...

    def close(self) -> None:
        """Ends a communicator that nothing is under way on; waits for no other process."""
        ...


class RankLibrary(Protocol):
    """A library that makes ranks."""

    def version(self) -> int:
        """What ncclGetVersion says."""
        ...

    def unique_id(self) -> bytes:
        """What ncclGetUniqueId gives."""
        ...

    def begin_group(self) -> None:
        """ncclGroupStart: what this thread calls next is begun together."""
        ...

    def end_group(self) -> None:
        """ncclGroupEnd."""
        ...

    def rank(self, device: DriverDevice, size: int, unique_id: bytes, rank: int) -> Rank:
        """ncclCommInitRankConfig, which does not block."""
        ...

    def stream(self, stream: DriverStream) -> Any:
        """What `Collectives` take for a stream."""
        ...

    def fill_zeros(
        self, device: DriverDevice, address: int, nbytes: int, stream: DriverStream
    ) -> None:
        """Enqueues zeros."""
        ...

    def name(self, state: int) -> str:
        """What ncclGetErrorString says."""
        ...


class SpanningDriver(Protocol):
    """A driver whose devices may exchange data with those of other processes."""

    def nccl(self) -> RankLibrary:
        """The library.

        Raises:
            DriverError: it is missing, or too old.
        """
        ...
