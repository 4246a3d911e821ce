"""Collectives by NCCL, where it has them; through host memory otherwise.

The ranks' threads meet; the last one enqueues the collective on the streams of all, so that two
executions that run beside each other come in the same order on every device. Nobody waits for the
devices. Minimum and maximum of floats go through the host: NCCL's drop NaN.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Any

from xladev.errors import ExecutionError
from xladev.hlo.physical import physical_nbytes
from xladev.hlo.shape import Shape
from xladev.platforms.cuda.driver.interface import DriverGroup, Share
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.libraries.collectives import BYTES, SUMS, Collective
from xladev.platforms.cuda.stream import CudaStream, device_address
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.communicator import Participant, Reduction
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

    def all_reduce(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        reduction: Reduction,
    ) -> None:
        """See `Communicator.all_reduce`."""
        found = _reduction("all-reduce", shape, reduction, shape.size)
        if found is None:
            super().all_reduce(who, operand, result, shape, reduction)
        else:
            self._together(who, operand, result, found)

    def reduce_scatter(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        dimension: int,
        reduction: Reduction,
    ) -> None:
        """See `Communicator.reduce_scatter`."""
        part = shape.size // self.size
        found = _reduction("reduce-scatter", shape, reduction, part)
        if found is None or not self._divides(shape, dimension):
            super().reduce_scatter(who, operand, result, shape, dimension, reduction)
        else:
            self._together(who, operand, result, found)

    def all_gather(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        dimension: int,
    ) -> None:
        """See `Communicator.all_gather`."""
        nbytes = _whole_nbytes(shape)
        if nbytes and _is_outermost(shape, dimension):
            moved = Collective("all-gather", BYTES, nbytes)
            self._together(who, operand, result, moved)
        else:
            super().all_gather(who, operand, result, shape, dimension)

    def all_to_all(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        split_dimension: int,
        concat_dimension: int,
    ) -> None:
        """See `Communicator.all_to_all`."""
        nbytes = _whole_nbytes(shape)
        same = split_dimension == concat_dimension
        if nbytes and same and self._divides(shape, split_dimension):
            moved = Collective("all-to-all", BYTES, nbytes // self.size)
            self._together(who, operand, result, moved)
        else:
            dimensions = split_dimension, concat_dimension
            super().all_to_all(who, operand, result, shape, *dimensions)

    def collective_permute(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        pairs: Sequence[tuple[int, int]],
    ) -> None:
        """See `Communicator.collective_permute`."""
        found = tuple((int(source), int(target)) for source, target in pairs)
        nbytes = _whole_nbytes(shape)
        if nbytes and self._are_pairs(found):
            moved = Collective("permute", BYTES, nbytes, pairs=found)
            self._together(who, operand, result, moved)
        else:
            super().collective_permute(who, operand, result, shape, pairs)

    def broadcast(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        root: int,
    ) -> None:
        """See `Communicator.broadcast`."""
        nbytes = _whole_nbytes(shape)
        if nbytes and 0 <= root < self.size:
            moved = Collective("broadcast", BYTES, nbytes, root=root)
            self._together(who, operand, result, moved)
        else:
            super().broadcast(who, operand, result, shape, root)

    def _are_pairs(self, pairs: Sequence[tuple[int, int]]) -> bool:
        """Whether they are ranks, each a target once; the base class says what is wrong."""
        ranks = range(self.size)
        targets = {target for _, target in pairs}
        are_ranks = all(s in ranks and t in ranks for s, t in pairs)
        return are_ranks and len(targets) == len(pairs)

    def _divides(self, shape: Shape, dimension: int) -> bool:
        """Whether equal parts along a dimension lie one after the other."""
        whole = shape.dims[dimension] % self.size == 0
        return whole and _is_outermost(shape, dimension)

    def _together(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        collective: Collective,
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


def _reduction(kind: str, shape: Shape, reduction: Reduction, count: int) -> Collective | None:
    """A reduction by NCCL; None if it has not that one."""
    dtype = shape.element_type
    if not isinstance(reduction, str) or not count:
        return None
    if dtype.name == "pred":
        found = _OF_PREDICATES.get(reduction)
        return Collective(kind, BYTES, count, found) if found else None
    known = _OF_FLOATS if dtype.is_float else _OF_INTEGERS
    if dtype.name not in SUMS or reduction not in known:
        return None
    return Collective(kind, dtype.name, count, reduction)


def _whole_nbytes(shape: Shape) -> int:
    """Bytes of an array whose elements take whole ones; 0 for others."""
    dtype = shape.element_type
    return physical_nbytes(shape) if dtype.bits % 8 == 0 or dtype.name == "pred" else 0


def _is_outermost(shape: Shape, dimension: int) -> bool:
    """Whether what differs in a dimension lies in separate halves of a row-major array."""
    is_row_major = shape.layout is None or shape.minor_to_major == tuple(
        reversed(range(shape.rank))
    )
    return is_row_major and prod(shape.dims[:dimension]) == 1
