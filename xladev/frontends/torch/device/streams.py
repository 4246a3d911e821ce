"""Streams and events of ``torch.NAME``: programs run in the order in which they are started."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xladev.frontends.torch.device.program import compute
from xladev.frontends.torch.device.tensor import the_device


def synchronize(device: Any = None) -> None:
    """Computes what living tensors need and waits until it is there."""
    compute()
    the_device().synchronize()


class Stream:
    """The one order of programs: every stream is the same, and waiting for one needs nothing."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.priority = priority

    def synchronize(self) -> None:
        """Waits for all that was recorded."""
        synchronize()

    def query(self) -> bool:
        """Whether all that was recorded is done; it is waited for."""
        synchronize()
        return True

    def wait_stream(self, stream: Any) -> None:
        """Nothing: what comes later runs later."""

    def wait_event(self, event: Any) -> None:
        """Nothing: what comes later runs later."""

    def record_event(self, event: Event | None = None) -> Event:
        """An event after all that was recorded."""
        made = Event() if event is None else event
        made.record(self)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return 0


class Event:
    """A place in the order of programs.

    Attributes:
        time_s: when all before it was done, where it measures time; None before it is recorded.
    """

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self.enable_timing = enable_timing
        self.time_s: float | None = None

    def record(self, stream: Any = None) -> None:
        """Starts all that was recorded; waits for it, where time is measured."""
        if self.enable_timing:
            synchronize()
            self.time_s = time.perf_counter()
        else:
            compute()

    def wait(self, stream: Any = None) -> None:
        """Nothing: what comes later runs later."""

    def synchronize(self) -> None:
        """Waits for all that was recorded."""
        synchronize()

    def query(self) -> bool:
        """Whether all before it is done; it is waited for."""
        synchronize()
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to a later one.

        Raises:
            RuntimeError: one of them does not measure time, or was not recorded.
        """
        if self.time_s is None or end.time_s is None:
            raise RuntimeError("both events must be made with enable_timing=True and recorded")
        return 1e3 * (end.time_s - self.time_s)


@contextmanager
def stream(_: Any) -> Iterator[None]:
    """Within it, operators go to a stream; there is one order for all."""
    yield
