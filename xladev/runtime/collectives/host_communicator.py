"""Collectives over host memory: copies to the host, a meeting of threads, copies back.

Works between any devices and is what a platform has that writes no communicator of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xladev.errors import ArgumentError, ExecutionError, OptionError, XladevError
from xladev.hlo.physical import pack, physical_nbytes, unpack
from xladev.hlo.shape import Shape
from xladev.runtime.collectives.collective_table import (
    CollectiveCall,
    RankResults,
    check_rank,
    checked_result_shape,
    rank_results,
)
from xladev.runtime.collectives.one_call import OneCallCommunicator
from xladev.runtime.collectives.rendezvous import Rendezvous
from xladev.runtime.communicator import HostArray, Participant, RaggedSlices
from xladev.runtime.executor import Executor
from xladev.runtime.memory import DeviceMemory

DEFAULT_TIMEOUT_S = 60.0


class HostCommunicator(OneCallCommunicator):
    """Collectives through host memory.

    Args:
        devices: the executors, in rank order.
        timeout_s: how long a rank waits for the others, in seconds; None means
            `XLADEV_COLLECTIVE_TIMEOUT_S` or 60.
    """

    def __init__(self, devices: Sequence[Executor], timeout_s: float | None = None) -> None:
        self._size = len(devices)
        limit = collective_timeout_s() if timeout_s is None else timeout_s
        self._rendezvous = Rendezvous(self._size, limit)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._size

    def abort(self, run_id: int, error: XladevError) -> None:
        """Makes all calls of run ``run_id`` fail."""
        self._rendezvous.abort(run_id, error)

    def run(
        self, who: Participant, operand: DeviceMemory, result: DeviceMemory, call: CollectiveCall
    ) -> None:
        """See `OneCallCommunicator.run`."""
        shape = checked_result_shape(call, self._size, who.name)

        def combine(brought: list[Any]) -> RankResults:
            return rank_results(call, [_agreed(call.agreement, item) for item in brought])

        mine = self._meet(who, (call.agreement, _read(who, operand, call.shape)), combine)
        if mine is not None:
            _write(who, result, mine, shape)

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
            pieces = [_agreed(("ragged-all-to-all",), item) for item in brought]
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

    def _meet(self, who: Participant, value: Any, combine: Callable[[list[Any]], Any]) -> Any:
        check_rank(who.rank, self._size)
        return self._rendezvous.exchange(who.run_id, who.name, who.rank, value, combine)


def collective_timeout_s() -> float:
    """How long a rank waits for the others, in seconds: `XLADEV_COLLECTIVE_TIMEOUT_S` or 60.

    Raises:
        OptionError: the variable is no number.
    """
    text = os.environ.get("XLADEV_COLLECTIVE_TIMEOUT_S", str(DEFAULT_TIMEOUT_S))
    try:
        return float(text)
    except ValueError as e:
        raise OptionError(f"XLADEV_COLLECTIVE_TIMEOUT_S is {text!r}", why="no number") from e


def _agreed(agreement: tuple[Any, ...], brought: Any) -> Any:
    """What a rank brought, if it called the same collective on the same shape."""
    its, value = brought
    if its != agreement:
        raise ExecutionError(
            "ranks disagree on a collective",
            why=f"one calls {_spell(agreement)}, another {_spell(its)}",
        )
    return value


def _spell(agreement: tuple[Any, ...]) -> str:
    return " ".join(map(str, agreement))


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
