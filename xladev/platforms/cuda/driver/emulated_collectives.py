"""Emulated NCCL: every stream waits until all have come, one computes, and all go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from xladev.hlo.dtype import by_name
from xladev.platforms.cuda.driver.emulated_calls import Memory
from xladev.platforms.cuda.driver.interface import DriverError, DriverStream, LibraryError, Share
from xladev.platforms.cuda.libraries.collectives import OPERATIONS, SUMS, Collective

Array = npt.NDArray[Any]
_INVALID = "NCCL_INVALID_ARGUMENT"
_REDUCE: dict[str, np.ufunc] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip


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

    def __init__(self, memory: Memory, size: int) -> None:
        self._memory = memory
        self._size = size

    def enqueue(self, collective: Collective, shares: Sequence[Share]) -> None:
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

    def _run(self, c: Collective, shares: Sequence[Share]) -> None:
        given = [self._at(s.operand, c, c.count * self._parts(c)) for s in shares]
        results = self._results(c, [np.array(g) for g in given])
        for share, result in zip(shares, results, strict=True):
            if result is not None:
                self._at(share.result, c, result.size)[:] = result

    def _parts(self, c: Collective) -> int:
        """Pieces of ``count`` elements in an operand."""
        return self._size if c.kind in ("reduce-scatter", "all-to-all") else 1

    def _at(self, address: int, c: Collective, count: int) -> Array:
        dtype = by_name(c.dtype).np
        return self._memory.bytes_at(address, count * dtype.itemsize).view(dtype)

    def _results(self, c: Collective, given: list[Array]) -> list[Array | None]:
        """What each rank receives; None for those that receive nothing."""
        ranks = range(self._size)
        match c.kind:
            case "all-gather":
                return [np.concatenate(given)] * self._size
            case "all-to-all":
                pieces = [np.split(g, self._size) for g in given]
                return [np.concatenate([pieces[s][r] for s in ranks]) for r in ranks]
            case "broadcast":
                return [given[c.root]] * self._size
            case "permute":
                sources = {target: source for source, target in c.pairs}
                zero = np.zeros_like(given[0])
                return [given[sources[r]] if r in sources else zero for r in ranks]
        total = reduce(_REDUCE[c.operation], given).astype(given[0].dtype)
        if c.kind == "reduce-scatter":
            return list(np.split(total, self._size))
        return [total if c.kind == "all-reduce" or r == c.root else None for r in ranks]


def _emulated(share: Share) -> WorkStream:
    if not isinstance(share.stream, WorkStream):
        raise DriverError("the stream belongs to another driver")
    return share.stream
