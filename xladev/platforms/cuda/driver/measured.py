"""The fastest of some ways to compute a library call, by measuring each once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from xladev.platforms.cuda.driver.interface import LibraryError

Way = TypeVar("Way")


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Measures on CUDA's current device.

    Attributes:
        cupy: the module.
        pool: of memory, for buffers of any contents.
    """

    cupy: Any
    pool: Any

    def fastest(
        self,
        ways: Sequence[Way],
        enqueue: Callable[[Way, Sequence[int], int], None],
        buffers: Sequence[int],
    ) -> Way:
        """The fastest way; the first if there is no other, or no room to measure.

        Args:
            ways: at least one, likely ones first.
            enqueue: computes one way, on buffers' addresses and a CUDA stream.
            buffers: bytes of each buffer.
        """
        if len(ways) == 1:
            return ways[0]
        cuda = self.cupy.cuda
        try:
            held = [self.pool.malloc(n) for n in buffers]
        except cuda.memory.OutOfMemoryError:
            return ways[0]
        addresses = [int(h.ptr) for h in held]
        stream = cuda.Stream(non_blocking=True)
        once = (partial(enqueue, way, addresses, stream.ptr) for way in ways)
        times = [self._time(each, stream) for each in once]
        return ways[times.index(min(times))]

    def _time(self, enqueue: Callable[[], None], stream: Any) -> float:
        """Milliseconds of the second of two; infinite if the library refuses it."""
        cuda = self.cupy.cuda
        before, after = cuda.Event(), cuda.Event()
        try:
            enqueue()
            before.record(stream)
            enqueue()
            after.record(stream)
            after.synchronize()
        except LibraryError:
            return float("inf")
        return float(cuda.get_elapsed_time(before, after))
