"""Emulated NCCL: every stream waits until all have come, one computes, and all go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from xladev.hlo.dtype import by_name
from xladev.hlo.shape import array
from xladev.platforms.cuda.driver.emulated_calls import CallMemory
from xladev.platforms.cuda.driver.interface import DriverError, DriverStream, LibraryError, Share
from xladev.platforms.cuda.libraries.collectives import OPERATIONS, SUMS, LibraryCollective
from xladev.runtime.collectives.collective_table import CollectiveCall, RankResults, rank_results

Array = npt.NDArray[Any]
_INVALID = "NCCL_INVALID_ARGUMENT"
_AS_LISTS = {"all-gather": (0,), "reduce-scatter": (0,), "all-to-all": (0, 0)}
"""Dimensions of collectives of flat arrays."""


@runtime_checkable
class WorkStream(DriverStream, Protocol):
    """A stream that takes any work: an emulated one."""

    def call(self, work: Callable[[], None]) -> None:
        """Enqueues work."""
        ...


class EmulatedGroup:
    """Devices of one emulated driver.

    Args:
        memory: that they share.
        size: how many there are.
    """

    def __init__(self, memory: CallMemory, size: int) -> None:
        self._memory = memory
        self._size = size

    def enqueue(self, collective: LibraryCollective, shares: Sequence[Share]) -> None:
        """See `DriverGroup.enqueue`."""
        if collective.dtype not in SUMS or collective.operation not in OPERATIONS:
            raise LibraryError("ncclGroupEnd", _INVALID, f"{collective}")
        if not 0 <= collective.root < self._size or len(shares) != self._size:
            raise LibraryError("ncclGroupEnd", _INVALID, f"root or ranks of {collective}")
        streams = [_emulated(share) for share in shares]
        arrived = [stream.stamp() for stream in streams]
        for event in arrived:
            streams[0].wait(event)
        streams[0].call(lambda: self._run(collective, shares))
        done = streams[0].stamp()
        for stream in streams[1:]:
            stream.wait(done)

    def _run(self, c: LibraryCollective, shares: Sequence[Share]) -> None:
        count = c.count * parts(c, self._size)
        given = [self._at(s.operand, c, count) for s in shares]
        results = collective_results(c, [np.array(g) for g in given])
        for share, result in zip(shares, results, strict=True):
            if result is not None:
                self._at(share.result, c, result.size)[:] = result

    def _at(self, address: int, c: LibraryCollective, count: int) -> Array:
        dtype = by_name(c.dtype).np
        return self._memory.bytes_at(address, count * dtype.itemsize).view(dtype)


def parts(c: LibraryCollective, size: int) -> int:
    """Pieces of ``count`` elements in an operand."""
    return size if c.opcode in ("reduce-scatter", "all-to-all") else 1


def collective_results(c: LibraryCollective, given: Sequence[Array]) -> RankResults:
    """What each rank receives; None for those that receive nothing."""
    call = CollectiveCall(
        c.opcode,
        array(by_name(c.dtype), given[0].shape),
        _AS_LISTS.get(c.opcode, ()),
        c.pairs,
        c.root,
        c.operation,
    )
    return rank_results(call, list(given))


def _emulated(share: Share) -> WorkStream:
    if not isinstance(share.stream, WorkStream):
        raise DriverError("the stream belongs to another driver")
    return share.stream
