"""The LaunchGraphs contract: launches of one program that a device records once and replays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream


class LaunchGraphs(ABC):
    """What was recorded of one loaded program. Thread-safe."""

    @abstractmethod
    def launch(
        self, stream: Stream, memory: Sequence[DeviceMemory], enqueue: Callable[[Stream], None]
    ) -> None:
        """Enqueues all work of one launch on a stream, or replays what was recorded of it.

        Args:
            stream: where it runs.
            memory: all allocations that differ from launch to launch; the work is the same
                whenever they are at the same addresses.
            enqueue: enqueues the work on the stream that it is given: kernels and copies within
                the device, and nothing that waits.
        """
