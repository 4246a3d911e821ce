"""An executable that says of each of its results when it is there, and why it is not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from xladev.runtime.device import Device
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.stream import Stream


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run has enqueued.

    Attributes:
        results: for each of `LaunchContext.results`, the event of its value.
        events: of all its work that was not seen done, and its failures.
        kept: what that work uses.
        devices: where there is such work, besides the target.
    """

    results: tuple[DefinitionEvent, ...]
    events: tuple[DefinitionEvent, ...]
    kept: object
    devices: tuple[Device, ...]


class ValueExecutable(LoadedExecutable):
    """An executable with an event per result, on devices that may be several."""

    @abstractmethod
    def run(self, context: LaunchContext, upstream: Sequence[DefinitionEvent]) -> RunOutcome:
        """Enqueues one execution.

        Args:
            context: its buffers, on the target.
            upstream: events of arguments that are not there yet, all on the target's stream.

        Raises:
            XladevError: a step failed, and other participants wait for this one.
        """

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        """Runs, and waits for all that it enqueued; raises the first failure."""
        for event in self.run(context, ()).events:
            event.check()
