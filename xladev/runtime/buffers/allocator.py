"""Owned device memory: who holds it, when it is given back, what to say when it runs out.

Memory that nobody refers to any more is queued, and given back by the next ordinary call of the
runtime: garbage collection strikes in any thread, within the vendor's own functions too, and must
not call the plugin.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from weakref import WeakSet

from xladev.compiler.isolation import as_error, expect, is_contained, plugin_call
from xladev.errors import OutOfMemoryError, XladevError
from xladev.instrument import logger, trace_counter
from xladev.runtime.buffer import Buffer
from xladev.runtime.buffers.native_accounting import (
    COUNT,
    ELSEWHERE,
    IN_USE,
    PEAK,
    TOTAL,
    Account,
    NativeAccounting,
)
from xladev.runtime.buffers.poison import is_poisoning, poison
from xladev.runtime.executor import Executor
from xladev.runtime.memory import DeviceMemory, MemoryStats

_log = logger("runtime")
_SHOWN = 8


class AllocatedBuffer(Buffer):
    """Memory of an allocator, or of a host array."""

    __slots__ = ("__weakref__", "_allocator", "_generation", "host_owner", "label", "memory")

    memory: DeviceMemory
    label: str
    host_owner: object

    def __init__(
        self, allocator: Allocator, memory: DeviceMemory, label: str, host_owner: object = None
    ) -> None:
        self._allocator = allocator
        self._generation = allocator.generation
        self.host_owner = host_owner
        self.label = label
        self.memory = memory

    @property
    def is_gone(self) -> bool:
        """See `Buffer.is_gone`."""
        return self._generation != self._allocator.generation

    def __del__(self) -> None:
        if getattr(self, "memory", None) is None:
            return  # Ctrl-C ended __init__ before its last line
        if self.host_owner is None and not self.is_gone:
            self._allocator.drop(self.memory, self.label)


class Allocator:
    """Allocates on one executor and keeps count. Thread-safe.

    Args:
        executor: whose memory.
        plugin: name for error messages.
        make_room: called when memory runs out, before the second and last attempt.

    Attributes:
        generation: how often a reset of the device has taken all memory away.
        account: what native code has in use beside; see `register`.
    """

    def __init__(self, executor: Executor, plugin: str, make_room: Callable[[], None]) -> None:
        self._executor = executor
        self._plugin = plugin
        self._make_room = make_room
        self._lock = threading.Lock()
        self._dropped: deque[tuple[DeviceMemory, str]] = deque()
        self._live: Counter[tuple[str, int]] = Counter()
        self._in_use = self._peak = self._count = self._total = 0
        self.generation = 0
        self.account = Account()
        self._accounting: WeakSet[NativeAccounting] = WeakSet()

    def allocate(self, nbytes: int, label: str, *, alignment: int, memory_space: int) -> Buffer:
        """Memory of ``nbytes`` bytes.

        Raises:
            OutOfMemoryError: it does not fit; names the largest live buffers.
            XladevError: the platform failed otherwise.
        """
        try:
            return self._try(nbytes, label, alignment, memory_space)
        except OutOfMemoryError as e:
            first = e
        self._make_room()
        try:
            return self._try(nbytes, label, alignment, memory_space)
        except OutOfMemoryError:
            raise self._out_of_memory(nbytes, label, first) from first

    def adopt(self, memory: DeviceMemory, label: str, host_owner: object = None) -> Buffer:
        """A buffer around memory that came from elsewhere.

        Args:
            memory: the range.
            label: what it holds.
            host_owner: the host array that it is; None if `Executor.deallocate` gives it back.
        """
        if host_owner is not None:
            return AllocatedBuffer(self, memory, label, host_owner)
        with self._lock:
            self._add(memory, label)
        return AllocatedBuffer(self, memory, label)

    def register(self, accounting: NativeAccounting) -> None:
        """Counts what native code hands out and writes down in a accounting and in `account`."""
        with self._lock:
            self._accounting.add(accounting)

    def drop(self, memory: DeviceMemory, label: str) -> None:
        """Queues memory to be given back; takes no lock and calls no plugin."""
        self._dropped.append((memory, label))

    def give_back(self) -> None:
        """Deallocates what was dropped, unless another thread is about to."""
        while self._dropped and self._lock.acquire(blocking=False):
            try:
                self._deallocate_dropped()
            finally:
                self._lock.release()

    def stats(self) -> MemoryStats:
        """What is allocated now."""
        self.give_back()
        words = self.account.words
        return MemoryStats(
            self._in_use + words[IN_USE],
            max(self._peak, words[PEAK]),
            self._count + words[COUNT],
            self._total + words[TOTAL],
        )

    @property
    def device(self) -> str:
        """Name of the device whose memory it is."""
        return self._plugin

    @property
    def nbytes_in_use(self) -> int:
        """Bytes of all live buffers."""
        return self._in_use + self.account.words[IN_USE]

    def live(self) -> dict[str, int]:
        """Live bytes by label, largest first."""
        sums: Counter[str] = Counter()
        with self._lock:
            for (label, nbytes), count in self._live.items():
                sums[label] += nbytes * count
            for accounting in self._accounting:
                sums.update(dict(accounting.live()))
        return dict(sums.most_common())

    def forget_all(self) -> None:
        """Disowns all buffers, after a reset has taken their memory away."""
        with self._lock:
            self.generation += 1
            self._dropped.clear()
            self._live.clear()
            self._in_use = self._count = 0
            self.account.forget_all(self.generation)
            self.account.words[ELSEWHERE] = 0
            for accounting in self._accounting:
                accounting.forget_all()

    def _try(self, nbytes: int, label: str, alignment: int, memory_space: int) -> Buffer:
        self.give_back()
        function = "Executor.allocate"
        with self._lock, plugin_call(self._plugin, function):
            memory = self._executor.allocate(
                max(nbytes, 1), alignment=alignment, memory_space=memory_space
            )
            expect(memory, DeviceMemory, self._plugin, function)
            self._add(memory, label)
        made = AllocatedBuffer(self, memory, label)
        if is_poisoning():
            with plugin_call(self._plugin, "Executor.copy_to_device"):
                poison(self._executor, memory)
        return made

    def _add(self, memory: DeviceMemory, label: str) -> None:
        self._live[label, memory.nbytes] += 1
        self._in_use += memory.nbytes
        words = self.account.words
        words[ELSEWHERE] = self._in_use
        self._peak = max(self._peak, self._in_use + words[IN_USE])
        self._count += 1
        self._total += 1
        trace_counter("memory", self._plugin, self.nbytes_in_use)

    def _deallocate_dropped(self) -> None:
        while self._dropped:
            memory, label = self._dropped.popleft()
            key = (label, memory.nbytes)
            self._live[key] -= 1
            if not self._live[key]:
                del self._live[key]
            self._in_use -= memory.nbytes
            self.account.words[ELSEWHERE] = self._in_use
            self._count -= 1
            self._deallocate(memory)
            trace_counter("memory", self._plugin, self.nbytes_in_use)

    def _deallocate(self, memory: DeviceMemory) -> None:
        try:
            self._executor.deallocate(memory)
        except BaseException as e:
            if not is_contained(e):
                raise
            error: XladevError = as_error(e, self._plugin, "Executor.deallocate")
            _log.error("memory is lost: %s", error)

    def _out_of_memory(self, nbytes: int, label: str, first: XladevError) -> OutOfMemoryError:
        live = list(self.live().items())
        shown = [f"{size} bytes {name}" for name, size in live[:_SHOWN]]
        in_use = self._in_use + self.account.words[IN_USE]
        rest = [f"and {len(live) - _SHOWN} more"] if len(live) > _SHOWN else []
        return OutOfMemoryError(
            f"cannot allocate {nbytes} bytes for {label}",
            where=first.where,
            why=f"{first.why or first.what}; {in_use} bytes are in use: "
            + ("; ".join(shown + rest) or "none by xladev"),
            hint="delete or donate arrays, or use smaller batches",
        )
