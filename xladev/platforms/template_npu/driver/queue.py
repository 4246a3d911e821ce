"""A hardware queue: operations in order, in a thread that stands for the device's own.

What a vendor replaces: nothing; their driver has queues.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from xladev.platforms.template_npu.device.faults import FaultRecord

Operation = Callable[[], FaultRecord | None]


@dataclass(slots=True)
class Fence:
    """A point in a queue.

    Attributes:
        reached: set once everything before it has run.
        fault: the first fault since the fence before it; to be read once reached.
    """

    reached: threading.Event = field(default_factory=threading.Event)
    fault: FaultRecord | None = None


class CommandQueue:
    """Runs operations one after the other; a fault does not stop the later ones."""

    def __init__(self) -> None:
        self._operations: SimpleQueue[Operation | Fence | None] = SimpleQueue()
        threading.Thread(target=_work, args=(self._operations,), daemon=True).start()

    def put(self, operation: Operation) -> None:
        """Enqueues an operation."""
        self._operations.put(operation)

    def fence(self) -> Fence:
        """Enqueues a fence."""
        fence = Fence()
        self._operations.put(fence)
        return fence

    def close(self) -> None:
        """Ends the thread after what is enqueued."""
        self._operations.put(None)


def _work(operations: SimpleQueue[Operation | Fence | None]) -> None:
    """The thread: refers to the operations only, so that a dropped queue can end."""
    fault: FaultRecord | None = None
    while True:
        operation = operations.get()
        if operation is None:
            return
        if isinstance(operation, Fence):
            operation.fault, fault = fault, None
            operation.reached.set()
        else:
            fault = fault or operation()
        del operation  # waiting for the next one must not keep buffers alive
