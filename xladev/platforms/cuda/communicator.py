"""Collectives by NCCL, where it has them; through host memory otherwise.

The ranks' threads meet; the last one enqueues the collective on the streams of all, so that two
executions that run beside each other come in the same order on every device. Nobody waits for the
devices. Minimum and maximum of floats go through the host: NCCL's drop NaN.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from xladev.errors import ExecutionError
from xladev.hlo.physical import physical_nbytes
from xladev.hlo.shape import Shape
from xladev.platforms.cuda.driver.interface import DriverGroup, Share
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.libraries.collectives import BYTES, SUMS, LibraryCollective
from xladev.platforms.cuda.stream import CudaStream, device_address
from xladev.runtime.collectives.collective_table import CollectiveCall
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.communicator import Participant
from xladev.runtime.executor import Executor
from xladev.runtime.memory import DeviceMemory

_OF_FLOATS = frozenset({"add", "multiply"})
_OF_INTEGERS = frozenset({"add", "multiply", "minimum", "maximum"})
_OF_PREDICATES = {"and": "minimum", "or": "maximum"}


class CudaCommunicator(HostCommunicator):
    """Collectives of the devices of one driver.

    Args:
        devices: the executors, in rank order.
        group: the driver's, of the same devices.
    """

    def __init__(self, devices: Sequence[Executor], group: DriverGroup) -> None:
        super().__init__(devices)
        self._group = group
        self._order = threading.Lock()

    def run(
        self, who: Participant, operand: DeviceMemory, result: DeviceMemory, call: CollectiveCall
    ) -> None:
        """See `OneCallCommunicator.run`."""
        found = by_library(call, self.size)
        if found is None:
            super().run(who, operand, result, call)
        else:
            self._together(who, operand, result, found)

    def _together(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        collective: LibraryCollective,
    ) -> None:
        """Meets the other ranks; the last one enqueues for all.

        Raises:
            ExecutionError: a rank is missing or asks for something else.
        """
        if not isinstance(who.stream, CudaStream):
            raise ExecutionError("the stream belongs to another platform", where=who.name)
        share = Share(who.stream.stream, device_address(operand), device_address(result))

        def enqueue(brought: list[Any]) -> Sequence[None]:
            if any(other != collective for other, _ in brought):
                raise ExecutionError(
                    f"the ranks of collective {who.name!r} disagree",
                    why="; ".join(sorted({str(other) for other, _ in brought})),
                )
            with self._order, driver_errors(who.name):
                self._group.enqueue(collective, [s for _, s in brought])
            return [None] * self.size

        self._meet(who, (collective, share), enqueue)


def by_library(call: CollectiveCall, size: int) -> LibraryCollective | None:
    """What NCCL is asked for; None for what it does not have, or is wrong, as the host says."""
    find = _BY_LIBRARY.get(call.opcode)
    return None if find is None else find(call, size)


# What NCCL has: each gives None for what goes through the host


def _all_reduce(call: CollectiveCall, size: int) -> LibraryCollective | None:
    return _reduction(call, call.shape.size)


def _reduce_scatter(call: CollectiveCall, size: int) -> LibraryCollective | None:
    return _reduction(call, call.shape.size // size) if _divides(call, size) else None


def _all_gather(call: CollectiveCall, size: int) -> LibraryCollective | None:
    nbytes = _whole_nbytes(call.shape)
    (dimension,) = call.dimensions
    if not nbytes or not _is_outermost(call.shape, dimension):
        return None
    return LibraryCollective(call.opcode, BYTES, nbytes)


def _all_to_all(call: CollectiveCall, size: int) -> LibraryCollective | None:
    nbytes = _whole_nbytes(call.shape)
    split, concat = call.dimensions
    if not nbytes or split != concat or not _divides(call, size):
        return None
    return LibraryCollective(call.opcode, BYTES, nbytes // size)


def _permute(call: CollectiveCall, size: int) -> LibraryCollective | None:
    nbytes = _whole_nbytes(call.shape)
    if not nbytes or not _are_pairs(call.pairs, size):
        return None
    return LibraryCollective(call.opcode, BYTES, nbytes, pairs=call.pairs)


def _broadcast(call: CollectiveCall, size: int) -> LibraryCollective | None:
    nbytes = _whole_nbytes(call.shape)
    if not nbytes or not 0 <= call.root < size:
        return None
    return LibraryCollective(call.opcode, BYTES, nbytes, root=call.root)


_BY_LIBRARY: Mapping[str, Callable[[CollectiveCall, int], LibraryCollective | None]] = {
    "all-reduce": _all_reduce,
    "reduce-scatter": _reduce_scatter,
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
    "collective-permute": _permute,
    "collective-broadcast": _broadcast,
}


def _reduction(call: CollectiveCall, count: int) -> LibraryCollective | None:
    """A reduction by NCCL; None if it has not that one."""
    dtype, reduction = call.shape.element_type, call.reduction
    if not isinstance(reduction, str) or not count:
        return None
    if dtype.name == "pred":
        found = _OF_PREDICATES.get(reduction)
        return LibraryCollective(call.opcode, BYTES, count, found) if found else None
    known = _OF_FLOATS if dtype.is_float else _OF_INTEGERS
    if dtype.name not in SUMS or reduction not in known:
        return None
    return LibraryCollective(call.opcode, dtype.name, count, reduction)


def _are_pairs(pairs: Sequence[tuple[int, int]], size: int) -> bool:
    """Whether they are ranks, each a target once."""
    ranks = range(size)
    targets = {target for _, target in pairs}
    are_ranks = all(s in ranks and t in ranks for s, t in pairs)
    return are_ranks and len(targets) == len(pairs)


def _divides(call: CollectiveCall, size: int) -> bool:
    """Whether equal parts along the first dimension of a call are one after the other."""
    dimension = call.dimensions[0]
    return call.shape.dims[dimension] % size == 0 and _is_outermost(call.shape, dimension)


def _whole_nbytes(shape: Shape) -> int:
    """Bytes of an array whose elements take whole ones; 0 for others."""
    dtype = shape.element_type
    return physical_nbytes(shape) if dtype.bits % 8 == 0 or dtype.name == "pred" else 0


def _is_outermost(shape: Shape, dimension: int) -> bool:
    """Whether what differs in a dimension is in separate halves of a row-major array."""
    is_row_major = shape.layout is None or shape.minor_to_major == tuple(
        reversed(range(shape.rank))
    )
    return is_row_major and prod(shape.dims[:dimension]) == 1
