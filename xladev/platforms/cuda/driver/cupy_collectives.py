"""NCCL through CuPy: one communicator for each device, all called by one thread in one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xladev.hlo.dtype import by_name
from xladev.platforms.cuda.driver.found import missing
from xladev.platforms.cuda.driver.interface import DriverError, LibraryError, Share
from xladev.platforms.cuda.libraries.collectives import OPERATIONS, SUMS, LibraryCollective


class CupyGroup:
    """GPUs with a NCCL communicator each.

    Args:
        cupy: the module.
        ordinals: the GPUs, in rank order.

    Raises:
        LibraryError: NCCL is missing, or refuses them.
    """

    def __init__(self, cupy: Any, ordinals: Sequence[int]) -> None:
        why = missing("nccl")
        if why:
            raise LibraryError("nccl", "NOT_FOUND", why)
        from cupy_backends.cuda.libs import nccl

        self._cupy, self._nccl, self._ordinals = cupy, nccl, list(ordinals)
        self._ranks = nccl.NcclCommunicator.initAll(self._ordinals)

    def enqueue(self, collective: LibraryCollective, shares: Sequence[Share]) -> None:
        """See `DriverGroup.enqueue`."""
        nccl = self._nccl
        try:
            nccl.groupStart()
            try:
                for rank, share in enumerate(shares):
                    with self._cupy.cuda.Device(self._ordinals[rank]):
                        self._call(collective, rank, share)
            finally:
                nccl.groupEnd()
        except nccl.NcclError as e:
            raise DriverError(f"NCCL: {e}") from e

    def _call(self, c: LibraryCollective, rank: int, share: Share) -> None:
        comm, stream = self._ranks[rank], _pointer(share)
        dtype, operation = SUMS[c.dtype], OPERATIONS[c.operation]
        a, b, n = share.operand, share.result, c.count
        match c.opcode:
            case "all-reduce":
                comm.allReduce(a, b, n, dtype, operation, stream)
            case "collective-reduce":
                comm.reduce(a, b, n, dtype, operation, c.root, stream)
            case "reduce-scatter":
                comm.reduceScatter(a, b, n, dtype, operation, stream)
            case "all-gather":
                comm.allGather(a, b, n, dtype, stream)
            case "collective-broadcast":
                comm.broadcast(a, b, n, dtype, c.root, stream)
            case _:
                self._exchange(c, rank, share)

    def _exchange(self, c: LibraryCollective, rank: int, share: Share) -> None:
        """Sends and receives; a target of nobody gets zeros."""
        comm, stream, dtype = self._ranks[rank], _pointer(share), SUMS[c.dtype]
        nbytes = c.count * by_name(c.dtype).np.itemsize
        if c.opcode == "all-to-all":
            for peer in range(len(self._ranks)):
                comm.send(share.operand + peer * nbytes, c.count, dtype, peer, stream)
                comm.recv(share.result + peer * nbytes, c.count, dtype, peer, stream)
            return
        if rank not in {target for _, target in c.pairs}:
            self._cupy.cuda.runtime.memsetAsync(share.result, 0, nbytes, stream)
        for source, target in c.pairs:
            if source == rank:
                comm.send(share.operand, c.count, dtype, target, stream)
            if target == rank:
                comm.recv(share.result, c.count, dtype, source, stream)


def _pointer(share: Share) -> int:
    """CUDA's number of a stream of the CuPy driver."""
    pointer = getattr(share.stream, "pointer", None)
    if not isinstance(pointer, int):
        raise DriverError("the stream belongs to another driver")
    return pointer
