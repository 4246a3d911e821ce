"""The Communicator contract: collectives between the devices of one group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from xladev.errors import XladevError
from xladev.hlo.shape import Shape
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream

HostArray = npt.NDArray[Any]
Reduction = str | Callable[[HostArray, HostArray], HostArray]
"""``add``, ``multiply``, ``minimum``, ``maximum``, ``and``, ``or``, ``xor``, or any function of two
host arrays of one shape; the function runs on the host."""


@dataclass(frozen=True, slots=True)
class Participant:
    """Who calls a collective, and which one.

    All ranks of a group call the same collective with the same run and name; which rank comes
    first does not matter. A rank calls from its own thread; all ranks call the collectives of a run
    in the same order.

    Attributes:
        rank: index into the devices of the group.
        stream: what it holds when called makes the operands, and what it is given after the call
            uses the results. A branch of the device's stream where collectives run beside kernels
            (`DeviceDescription.overlaps_collectives`).
        run_id: `LaunchContext.run_id`.
        name: same on all ranks for one call, different for any other call of the run: the
            instruction's name, and the iteration where it is in a loop.
    """

    rank: int
    stream: Stream
    run_id: int
    name: str


@dataclass(frozen=True, slots=True)
class RaggedSlices:
    """The four s64 or s32 operands of a ragged all-to-all, read on the host by this rank.

    Attributes:
        input_offsets: first row sent to each rank.
        send_sizes: rows sent to each rank.
        output_offsets: first row, in the receiver's output, of what is sent to it.
        recv_sizes: rows received from each rank.
    """

    input_offsets: Sequence[int]
    send_sizes: Sequence[int]
    output_offsets: Sequence[int]
    recv_sizes: Sequence[int]


class Communicator(ABC):
    """Collectives of one ordered group of devices. Thread-safe.

    ``shape`` is the operand's, with device layout. Semantics are StableHLO's. Each call enqueues
    on the participant's stream (or blocks) and raises, or poisons what is recorded later, if a
    rank is missing, disagrees or fails.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of ranks."""

    @abstractmethod
    def all_reduce(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        reduction: Reduction,
    ) -> None:
        """Every rank's result is the reduction, in rank order, of all operands."""

    @abstractmethod
    def all_gather(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        dimension: int,
    ) -> None:
        """Every rank's result is all operands concatenated along ``dimension``."""

    @abstractmethod
    def reduce_scatter(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        dimension: int,
        reduction: Reduction,
    ) -> None:
        """Each rank's result is its slice, along ``dimension``, of the reduced operands."""

    @abstractmethod
    def all_to_all(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        split_dimension: int,
        concat_dimension: int,
    ) -> None:
        """Sends slice i along ``split_dimension`` to rank i; concatenates what arrives."""

    @abstractmethod
    def ragged_all_to_all(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        result_shape: Shape,
        slices: RaggedSlices,
    ) -> None:
        """Sends rows (of dimension 0) in slices of any size; rows not received stay as they are.

        ``result`` holds the output operand when called.
        """

    @abstractmethod
    def collective_permute(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        pairs: Sequence[tuple[int, int]],
    ) -> None:
        """Copies operands along (source rank, target rank) pairs; zeros where nothing arrives."""

    @abstractmethod
    def broadcast(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        root: int,
    ) -> None:
        """Every rank's result is the operand of rank ``root``."""

    @abstractmethod
    def reduce(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        root: int,
        reduction: Reduction,
    ) -> None:
        """The result of rank ``root`` is the reduction; the others' results stay as they are."""

    def abort(self, run_id: int, error: XladevError) -> None:
        """Makes the calls of run ``run_id`` fail, those that wait and those to come.

        Called when a replica fails; by default the others run into the platform's time limit.
        """
        return
