"""The stream of a device that copies for placed programs, beside the stream of its kernels."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from xladev.runtime.event import Event
from xladev.runtime.launch.transfer_trace import transfer_trace
from xladev.runtime.stream import Endpoint, Stream, finish


class TransferQueue:
    """Copies in order of their calls, each as soon as what it reads is there. Thread-safe.

    Each copy has an event of its own, recorded before another copy is enqueued, so that its failure
    is nobody else's.

    Args:
        device: name of the device.
        stream: a stream of its own.

    Attributes:
        stream: the stream.
    """

    def __init__(self, device: str, stream: Stream) -> None:
        self._device = device
        self._lock = threading.Lock()
        self.stream = stream

    def copy(
        self, destination: Endpoint, source: Endpoint, after: Iterable[Event], what: str
    ) -> Event:
        """Enqueues a copy.

        Args:
            destination, source: as in `Stream.copy`.
            after: events of the same platform, which the copy waits for.
            what: what a timeline calls it.

        Returns:
            An event that is ready when the copy is done, or failed.

        Raises:
            Exception: whatever the platform raised; nothing is under way then.
        """
        with self._lock:
            try:
                for event in after:
                    self.stream.wait(event)
                with transfer_trace(self.stream, self._device, what, source.nbytes):
                    self.stream.copy(destination, source)
                return self.stream.record()
            except BaseException:
                finish(self.stream)
                raise
