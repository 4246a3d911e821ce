"""What the slots of a run hold: memory, and the event from which on it holds the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xladev.compiler.program.program import Procedure
from xladev.compiler.program.thunks import Slots
from xladev.hlo.shape import Shape
from xladev.runtime.launch.definition_event import DEFINED, DefinitionEvent, ExecutionFailure
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream


class Poisoned(Exception):
    """A value is read that failed; never leaves a run.

    Attributes:
        failure: why the value is not there.
    """

    def __init__(self, failure: ExecutionFailure) -> None:
        super().__init__(failure.error)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class SlotValue:
    """What a slot holds.

    Attributes:
        memory: where it is; None if it is known that nothing was or will be written.
        owner: kept alive as long as the value; None for what the caller owns.
        event: ready when the value is there, or failed.
        stream: what the event was recorded on; None if the value was there from the start.
    """

    memory: DeviceMemory | None
    owner: object = None
    event: DefinitionEvent = DEFINED
    stream: Stream | None = None

    @property
    def place(self) -> DeviceMemory:
        """The memory.

        Raises:
            Poisoned: the value is known to have failed.
        """
        if self.memory is None:
            self.check()
            raise AssertionError("a value without memory has no failure")
        return self.memory

    def check(self) -> None:
        """Raises the failure of a value whose event is ready.

        Raises:
            Poisoned: the value failed.
        """
        failure = self.event.failure()
        if failure is not None:
            raise Poisoned(failure)


Values = list[SlotValue]


class Frame:
    """The slots of one procedure that runs.

    Args:
        procedure: the one that runs.
        arguments: the values of its parameters.
        destinations: memory for slots that the caller wants elsewhere than where a run allocates.
    """

    def __init__(
        self, procedure: Procedure, arguments: Values, destinations: Mapping[int, DeviceMemory]
    ) -> None:
        self.procedure = procedure
        self.destinations = destinations
        self.values = dict(zip(procedure.parameters, arguments, strict=True))

    def take(self, slots: Slots) -> Values:
        """What the slots hold."""
        return [self.values[slot] for slot in slots]

    def shape(self, slot: int) -> Shape:
        """Shape of a slot."""
        return self.procedure.slots[slot].shape

    def set(self, slots: Sequence[int], values: Sequence[SlotValue]) -> None:
        """Stores values."""
        self.values.update(zip(slots, values, strict=True))
