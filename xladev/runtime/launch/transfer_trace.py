"""What a timeline shows of copies that run beside kernels: a row for each device that has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from xladev.compiler.isolation import plugin_call
from xladev.errors import XladevError
from xladev.instrument import TraceEvent, is_tracing, logger, next_flow, trace_later, trace_scope
from xladev.runtime.stream import Reading, Stamp, Stream

_log = logger("runtime")
_UNTRACED: AbstractContextManager[None] = nullcontext()

ROW = "transfers"
"""Name of the row behind the device's."""


def transfer_trace(
    stream: Stream, device: str, what: str, nbytes: int
) -> AbstractContextManager[None]:
    """Surrounds the enqueuing of one copy, if somebody traces.

    Args:
        stream: that it goes to.
        device: name of the device.
        what: what the slice is called.
        nbytes: bytes that are copied.
    """
    return _traced(stream, device, what, nbytes) if is_tracing() else _UNTRACED


@contextmanager
def _traced(stream: Stream, device: str, what: str, nbytes: int) -> Iterator[None]:
    flow = next_flow()
    with trace_scope("enqueue", "enqueue", leads_to=flow):
        begin = stream.stamp()
        yield
        end = stream.stamp()
    if begin is None or end is None:
        return

    def events() -> Iterator[TraceEvent]:
        first, last = _read(begin, device), _read(end, device)
        if first is not None and last is not None:
            took = max(0, last.time_ns - first.time_ns)
            args, track = {"bytes": nbytes, "device": device}, f"{device}/{ROW}"
            yield TraceEvent(what, "transfer", first.time_ns, took, track, args, follows=flow)

    trace_later(device, events)


def _read(stamp: Stamp, device: str) -> Reading | None:
    try:
        with plugin_call(device, "Stamp.read"):
            return stamp.read()
    except XladevError as error:  # a timeline that lacks a slice is better than none
        _log.warning("the timeline lacks a copy of %s: %s", device, error)
        return None
