"""NCCL through CuPy: one communicator for each device, all called by one thread in one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xladev.platforms.cuda.driver.found import missing
from xladev.platforms.cuda.driver.interface import DriverError, DriverStream, LibraryError, Share
from xladev.platforms.cuda.driver.rank_calls import call_rank
from xladev.platforms.cuda.libraries.collectives import LibraryCollective


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
        stream = stream_pointer(share.stream)

        def fill_zeros(address: int, nbytes: int) -> None:
            self._cupy.cuda.runtime.memsetAsync(address, 0, nbytes, stream)

        addresses = (share.operand, share.result)
        size = len(self._ranks)
        call_rank(self._ranks[rank], c, rank, size, addresses, stream, fill_zeros)


def stream_pointer(stream: DriverStream) -> int:
    """CUDA's number of a stream of the CuPy driver.

    Raises:
        DriverError: it is another driver's.
    """
    pointer = getattr(stream, "pointer", None)
    if not isinstance(pointer, int):
        raise DriverError("the stream belongs to another driver")
    return pointer
