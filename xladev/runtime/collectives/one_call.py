"""A communicator whose functions are one call, with what they say as data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xladev.hlo.shape import Shape
from xladev.runtime.collectives.collective_table import CollectiveCall
from xladev.runtime.communicator import Communicator, Participant, Reduction
from xladev.runtime.memory import DeviceMemory


class OneCallCommunicator(Communicator):
    """Turns each function of `Communicator` into `run`; who derives from it may override both."""

    @abstractmethod
    def run(
        self, who: Participant, operand: DeviceMemory, result: DeviceMemory, call: CollectiveCall
    ) -> None:
        """Runs any collective of `collective_table.COLLECTIVES`.

        Raises:
            ArgumentError: the call is wrong by itself.
            ExecutionError: a rank is missing, disagrees or fails.
        """

    def all_reduce(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        reduction: Reduction,
    ) -> None:
        """See `Communicator.all_reduce`."""
        call = CollectiveCall("all-reduce", shape, reduction=reduction)
        self.run(who, operand, result, call)

    def all_gather(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        dimension: int,
    ) -> None:
        """See `Communicator.all_gather`."""
        self.run(who, operand, result, CollectiveCall("all-gather", shape, (dimension,)))

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
        call = CollectiveCall("reduce-scatter", shape, (dimension,), reduction=reduction)
        self.run(who, operand, result, call)

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
        call = CollectiveCall("all-to-all", shape, (split_dimension, concat_dimension))
        self.run(who, operand, result, call)

    def collective_permute(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        pairs: Sequence[tuple[int, int]],
    ) -> None:
        """See `Communicator.collective_permute`."""
        numbers = tuple((int(source), int(target)) for source, target in pairs)
        self.run(who, operand, result, CollectiveCall("collective-permute", shape, pairs=numbers))

    def broadcast(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        root: int,
    ) -> None:
        """See `Communicator.broadcast`."""
        self.run(who, operand, result, CollectiveCall("collective-broadcast", shape, root=root))

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
        call = CollectiveCall("collective-reduce", shape, root=root, reduction=reduction)
        self.run(who, operand, result, call)
