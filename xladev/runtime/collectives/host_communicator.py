"""Collectives over host memory: copies to the host, a meeting of threads, copies back.

Works between any devices and is what a platform has that writes no communicator of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xladev.errors import ArgumentError, ExecutionError, OptionError, XladevError
from xladev.hlo.physical import pack, physical_nbytes, unpack
from xladev.hlo.shape import Shape
from xladev.runtime.collectives.rendezvous import Rendezvous
from xladev.runtime.communicator import (
    Communicator,
    HostArray,
    Participant,
    RaggedSlices,
    Reduction,
)
from xladev.runtime.executor import Executor
from xladev.runtime.memory import DeviceMemory

DEFAULT_TIMEOUT_S = 60.0
Exchange = Callable[[list[HostArray]], Sequence[HostArray | None]]


def _logical_or_bitwise(logical: np.ufunc, bitwise: np.ufunc) -> Callable[..., HostArray]:
    def combine(a: HostArray, b: HostArray) -> HostArray:
        result: HostArray = (logical if a.dtype == np.bool_ else bitwise)(a, b)
        return result

    return combine


REDUCTIONS: Mapping[str, Callable[[HostArray, HostArray], HostArray]] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": _logical_or_bitwise(np.logical_and, np.bitwise_and),
    "or": _logical_or_bitwise(np.logical_or, np.bitwise_or),
    "xor": _logical_or_bitwise(np.logical_xor, np.bitwise_xor),
}


class HostCommunicator(Communicator):
    """Collectives through host memory.

    Args:
        devices: the executors, in rank order.
        timeout_s: how long a rank waits for the others, in seconds; None means
            `XLADEV_COLLECTIVE_TIMEOUT_S` or 60.
    """

    def __init__(self, devices: Sequence[Executor], timeout_s: float | None = None) -> None:
        self._size = len(devices)
        limit = _timeout_from_environment() if timeout_s is None else timeout_s
        self._rendezvous = Rendezvous(self._size, limit)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._size

    def abort(self, run_id: int, error: XladevError) -> None:
        """Makes all calls of run ``run_id`` fail."""
        self._rendezvous.abort(run_id, error)

    def all_reduce(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        reduction: Reduction,
    ) -> None:
        """See `Communicator.all_reduce`."""
        reduce_all = _reducer(reduction)
        share: Exchange = lambda arrays: [reduce_all(arrays)] * self._size  # noqa: E731
        self._exchange(who, operand, result, shape, shape, ("all-reduce",), share)

    def all_gather(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        dimension: int,
    ) -> None:
        """See `Communicator.all_gather`."""

        def share(arrays: list[HostArray]) -> Sequence[HostArray]:
            return [np.concatenate(arrays, dimension)] * self._size

        out = _resized(shape, dimension, shape.dims[dimension] * self._size)
        self._exchange(who, operand, result, shape, out, ("all-gather", dimension), share)

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
        reduce_all = _reducer(reduction)
        out = _resized(shape, dimension, self._divided(shape, dimension))

        def share(arrays: list[HostArray]) -> Sequence[HostArray]:
            return np.split(reduce_all(arrays), self._size, dimension)

        self._exchange(who, operand, result, shape, out, ("reduce-scatter", dimension), share)

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
        out = _resized(shape, split_dimension, self._divided(shape, split_dimension))
        out = _resized(out, concat_dimension, out.dims[concat_dimension] * self._size)

        def share(arrays: list[HostArray]) -> Sequence[HostArray]:
            pieces = [np.split(a, self._size, split_dimension) for a in arrays]
            return [np.concatenate(row, concat_dimension) for row in zip(*pieces, strict=True)]

        kind = ("all-to-all", split_dimension, concat_dimension)
        self._exchange(who, operand, result, shape, out, kind, share)

    def ragged_all_to_all(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        result_shape: Shape,
        slices: RaggedSlices,
    ) -> None:
        """See `Communicator.ragged_all_to_all`."""
        rows = _read(who, operand, shape)
        output = _read(who, result, result_shape).copy()
        sent = _ragged_pieces(rows, slices, self._size)

        def share(brought: list[Any]) -> Sequence[list[Any]]:
            pieces = [_same_kind(("ragged-all-to-all",), item) for item in brought]
            return [[row[rank] for row in pieces] for rank in range(self._size)]

        arrived = self._meet(who, (("ragged-all-to-all",), sent), share)
        for sender, (offset, piece) in enumerate(arrived):
            if len(piece) != slices.recv_sizes[sender]:
                raise ExecutionError(
                    f"ragged-all-to-all: rank {sender} sends {len(piece)} rows",
                    where=who.name,
                    why=f"rank {who.rank} expects {slices.recv_sizes[sender]}",
                )
            _check_rows(offset, len(piece), len(output), who.name)
            output[offset : offset + len(piece)] = piece
        _write(who, result, output, result_shape)

    def collective_permute(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        pairs: Sequence[tuple[int, int]],
    ) -> None:
        """See `Communicator.collective_permute`."""
        targets = {target: source for source, target in pairs}
        _check_pairs(pairs, targets, self._size, who.name)

        def share(arrays: list[HostArray]) -> Sequence[HostArray]:
            nothing = np.zeros(shape.dims, shape.element_type.np)
            return [
                arrays[targets[rank]] if rank in targets else nothing for rank in range(self._size)
            ]

        kind = ("collective-permute", tuple(sorted(targets.items())))
        self._exchange(who, operand, result, shape, shape, kind, share)

    def broadcast(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        root: int,
    ) -> None:
        """See `Communicator.broadcast`."""
        self._check_rank(root)
        share: Exchange = lambda arrays: [arrays[root]] * self._size  # noqa: E731
        self._exchange(who, operand, result, shape, shape, ("broadcast", root), share)

    def reduce(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        root: int,
        reduction: Reduction,
    ) -> None:
        """See `Communicator.reduce`."""
        self._check_rank(root)
        reduce_all = _reducer(reduction)

        def share(arrays: list[HostArray]) -> Sequence[HostArray | None]:
            total = reduce_all(arrays)
            return [total if rank == root else None for rank in range(self._size)]

        self._exchange(who, operand, result, shape, shape, ("reduce", root), share)

    def _exchange(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        result_shape: Shape,
        kind: tuple[Any, ...],
        share: Exchange,
    ) -> None:
        """Brings the operand, takes this rank's share of `share(all operands)`, stores it."""
        kind = (*kind, str(shape.element_type), shape.dims)

        def combine(brought: list[Any]) -> Sequence[HostArray | None]:
            return share([_same_kind(kind, item) for item in brought])

        mine = self._meet(who, (kind, _read(who, operand, shape)), combine)
        if mine is not None:
            _write(who, result, mine, result_shape)

    def _meet(self, who: Participant, value: Any, combine: Callable[[list[Any]], Any]) -> Any:
        self._check_rank(who.rank)
        return self._rendezvous.exchange(who.run_id, who.name, who.rank, value, combine)

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self._size:
            raise ArgumentError(f"rank {rank} in a group of {self._size} devices")

    def _divided(self, shape: Shape, dimension: int) -> int:
        size = shape.dims[dimension]
        if size % self._size:
            raise ArgumentError(
                f"dimension {dimension} of {shape} cannot be split between {self._size} devices"
            )
        return size // self._size


def _timeout_from_environment() -> float:
    text = os.environ.get("XLADEV_COLLECTIVE_TIMEOUT_S", str(DEFAULT_TIMEOUT_S))
    try:
        return float(text)
    except ValueError as e:
        raise OptionError(f"XLADEV_COLLECTIVE_TIMEOUT_S is {text!r}", why="no number") from e


def _reducer(reduction: Reduction) -> Callable[[list[HostArray]], HostArray]:
    combine = REDUCTIONS.get(reduction) if isinstance(reduction, str) else reduction
    if combine is None:
        raise ArgumentError(f"unknown reduction {reduction!r}", hint=f"one of {list(REDUCTIONS)}")
    step = combine

    def reduce_all(arrays: list[HostArray]) -> HostArray:
        total = arrays[0]
        with np.errstate(all="ignore"):
            for array in arrays[1:]:
                total = step(total, array).astype(array.dtype, copy=False)
        return total

    return reduce_all


def _same_kind(kind: tuple[Any, ...], brought: Any) -> Any:
    """What a rank brought, if it called the same collective on the same shape."""
    its_kind, value = brought
    if its_kind != kind:
        raise ExecutionError(
            "ranks disagree on a collective",
            why=f"one calls {_spell(kind)}, another {_spell(its_kind)}",
        )
    return value


def _spell(kind: tuple[Any, ...]) -> str:
    return " ".join(map(str, kind))


def _resized(shape: Shape, dimension: int, size: int) -> Shape:
    dims = (*shape.dims[:dimension], size, *shape.dims[dimension + 1 :])
    return Shape(shape.element_type, dims, shape.layout)


def _read(who: Participant, memory: DeviceMemory, shape: Shape) -> HostArray:
    data = np.empty(physical_nbytes(shape), np.uint8)
    who.stream.copy(data, memory.slice(0, data.nbytes))
    who.stream.synchronize()
    return unpack(data, shape)


def _write(who: Participant, memory: DeviceMemory, array: HostArray, shape: Shape) -> None:
    data = pack(array, shape)
    who.stream.copy(memory.slice(0, data.nbytes), data)
    who.stream.synchronize()


def _ragged_pieces(rows: HostArray, slices: RaggedSlices, size: int) -> list[tuple[int, HostArray]]:
    """For each rank: the first row it writes, and the rows sent to it."""
    sizes = (slices.input_offsets, slices.send_sizes, slices.output_offsets, slices.recv_sizes)
    if any(len(s) != size for s in sizes):
        raise ArgumentError(f"ragged-all-to-all needs {size} offsets and sizes each")
    pieces = []
    for start, count, offset in zip(*sizes[:3], strict=True):
        _check_rows(start, count, len(rows), "ragged-all-to-all")
        pieces.append((int(offset), rows[start : start + count]))
    return pieces


def _check_rows(start: int, count: int, total: int, where: str) -> None:
    if start < 0 or count < 0 or start + count > total:
        raise ExecutionError(f"rows {start} to {start + count} of {total}", where=where)


def _check_pairs(
    pairs: Sequence[tuple[int, int]], targets: Mapping[int, int], size: int, where: str
) -> None:
    sources = {source for source, _ in pairs}
    if len(targets) != len(pairs) or len(sources) != len(pairs):
        raise ArgumentError("a collective-permute names a source or target twice", where=where)
    if not all(0 <= rank < size for rank in sources | targets.keys()):
        raise ArgumentError(f"a collective-permute names a rank outside 0..{size - 1}", where=where)
