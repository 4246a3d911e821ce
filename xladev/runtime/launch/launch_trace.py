"""What a traced launch tells of each kernel: when the host enqueued it, when the device ran it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from xladev.compiler.isolation import plugin_call
from xladev.compiler.plan.operations import TracedOperation
from xladev.errors import XladevError
from xladev.instrument import TraceEvent, is_tracing, logger, next_flow, trace_later, trace_scope
from xladev.runtime.loaded_executable import LoadedExecutable
from xladev.runtime.stream import Reading, Stamp, Stream

_log = logger("runtime")

STREAM = "stream"
"""Name of a device's first row; those of further streams are numbered from 2 on."""

COLLECTIVES = "collectives"
"""Name of a device's row of collectives that run beside its kernels."""

COPY, PROGRAM, COLLECTIVE = -1, -2, -3
"""Operations that are no kernels: a copy between buffers, a whole program, a collective."""

_CATEGORIES = {COPY: "copy", PROGRAM: "cluster", COLLECTIVE: "collective"}
_UNTRACED: AbstractContextManager[None] = nullcontext()


@dataclass(slots=True)
class _Work:
    """One kernel or copy, or a program that does not tell of its kernels.

    Attributes:
        operation: its number, `COPY`, `PROGRAM` or `COLLECTIVE`.
        begin, end: before and after it, if the stream has stamps.
        flow: from where it was enqueued.
        row: number of its stream.
    """

    operation: int
    begin: Stamp
    end: Stamp
    flow: int
    row: int


class LaunchTrace:
    """One launch of a program, while somebody traces.

    Args:
        stream: that it goes to.
        device: name of the device, such as ``npu:0``.
        module: name of the program.
        operations: gives what its kernels stand for.
    """

    def __init__(
        self,
        stream: Stream,
        device: str,
        module: str,
        operations: Callable[[], Sequence[TracedOperation]] = tuple,
    ) -> None:
        self._stream = stream
        self._device = device
        self._track = f"{device}/{STREAM}"
        self._module = module
        self._operations = operations
        self._work: list[_Work] = []
        self._collective = ""

    @contextmanager
    def around(self, operation: int, stream: Stream | None = None, row: int = 0) -> Iterator[None]:
        """Surrounds the enqueuing of one kernel, copy or program.

        Args:
            operation: its number, `COPY` or `PROGRAM`.
            stream: where it is enqueued, if that is not the launch's own.
            row: number of that stream; 0 for the launch's own.
        """
        flow = next_flow()
        with trace_scope("enqueue", "enqueue", leads_to=flow):
            begin = self._stamp(stream or self._stream)
            yield
        end = self._stamp(stream or self._stream)
        if begin is not None and end is not None:
            self._work.append(_Work(operation, begin, end, flow, row))

    def around_collective(self, name: str) -> AbstractContextManager[None]:
        """Surrounds a collective, which is in a row of its own.

        Args:
            name: of the instruction.
        """
        self._track = f"{self._device}/{COLLECTIVES}"
        self._collective = name
        return self.around(COLLECTIVE)

    def finish(self) -> None:
        """Tells what was enqueued, to be read when the trace ends."""
        if self._work:
            trace_later(self._device, self._events)

    def _stamp(self, stream: Stream) -> Stamp | None:
        if not stream.is_synchronous:
            return stream.stamp()
        return _HostStamp(Reading(time.perf_counter_ns()))

    def _events(self) -> Iterator[TraceEvent]:
        done = [event for work in self._work if (event := self._event(work)) is not None]
        yield from done
        if done and self._work[0].operation not in (PROGRAM, COLLECTIVE):
            start = min(e.start_ns for e in done)
            end = max(e.start_ns + e.duration_ns for e in done)
            args = {"hlo_module": self._module}
            yield TraceEvent(self._module, "cluster", start, end - start, self._track, args)

    def _event(self, work: _Work) -> TraceEvent | None:
        """What the device says of a kernel; None if it did not run."""
        begin, end = self._read(work.begin), self._read(work.end)
        if begin is None or end is None:
            return None
        took = max(0, end.time_ns - begin.time_ns)
        args = {**self._args(work.operation), **_differences(begin.counts, end.counts)}
        category = _CATEGORIES.get(work.operation, "kernel")
        name = str(args.get("hlo_op", self._module))
        track = f"{self._track} {work.row + 1}" if work.row else self._track
        return TraceEvent(name, category, begin.time_ns, took, track, args, follows=work.flow)

    def _read(self, stamp: Stamp) -> Reading | None:
        try:
            with plugin_call(self._device, "Stamp.read"):
                return stamp.read()
        except XladevError as error:  # a timeline that lacks a slice is better than none
            _log.warning("the timeline lacks work of %s: %s", self._device, error)
            return None

    def _args(self, operation: int) -> Mapping[str, Any]:
        known = self._operations()
        if 0 <= operation < len(known):
            return known[operation].to_args(self._module)
        names = {COPY: "copy", COLLECTIVE: self._collective}
        named = {"hlo_op": names[operation]} if operation in names else {}
        return {**named, "hlo_module": self._module}


@dataclass(frozen=True, slots=True)
class _HostStamp(Stamp):
    """Of a synchronous stream: what was enqueued before it is done."""

    reading: Reading

    def read(self) -> Reading:
        """When it was made."""
        return self.reading


def _differences(begin: Mapping[str, float], end: Mapping[str, float]) -> dict[str, float]:
    """What a device counted in between."""
    return {name: count - begin.get(name, 0) for name, count in end.items()}


def tells_times(stream: Stream) -> bool:
    """Whether it is known when a stream's work was done: at once, or by its stamps."""
    return stream.is_synchronous or type(stream).stamp is not Stream.stamp


def program_trace(
    loaded: LoadedExecutable, stream: Stream, device: str, name: str
) -> AbstractContextManager[None]:
    """Surrounds a launch; one slice for a program that does not tell of its kernels itself."""
    if not is_tracing() or loaded.traces_itself or not tells_times(stream):
        return _UNTRACED
    return _program(LaunchTrace(stream, device, name))


@contextmanager
def _program(trace: LaunchTrace) -> Iterator[None]:
    with trace.around(PROGRAM):
        yield
    trace.finish()


def observed(name: str, device: str, start_ns: int) -> None:
    """Tells of a launch whose device gives no times, as the host sees that it is done."""
    took = time.perf_counter_ns() - start_ns
    args = {"hlo_module": name, "clock": "host"}
    track = f"{device}/{STREAM}"
    event = TraceEvent(name, "cluster", start_ns, took, track, args)
    trace_later(device, lambda: [event])
