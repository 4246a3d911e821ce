"""`with xladev.device("npu:0"):`: the device of what a builder appends within the block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from xladev.hlo.ir import NO_ANNOTATIONS, Annotations

_current: ContextVar[str | None] = ContextVar("xladev_device", default=None)


@contextmanager
def device(name: str | None) -> Iterator[None]:
    """Places what an `HloBuilder` appends within the block, in this thread or task.

    The innermost block counts. The name is resolved where the program is compiled, where a device
    that is not there is told of.

    Args:
        name: such as ``cpu`` or ``npu:1``; None: what is appended is not placed.

    Example:
        >>> from xladev.hlo import dtype as dt
        >>> from xladev.hlo.builder import HloBuilder
        >>> from xladev.hlo.shape import array
        >>> b = HloBuilder("negated")
        >>> x = b.parameter(array(dt.F32, (2,)))
        >>> with device("npu:0"):
        ...     y = b.op("negate", x)
        >>> y.note.device
        'npu:0'
    """
    token = _current.set(name)
    try:
        yield
    finally:
        _current.reset(token)


def placed_note(note: Annotations, opcode: str) -> Annotations:
    """The annotations of a new instruction: with the device of the block around it.

    A device of its own stays; parameters are where programs take them.
    """
    name = _current.get()
    if name is None or note.device is not None or opcode == "parameter":
        return note
    if note is NO_ANNOTATIONS:
        return Annotations(device=name)
    return replace(note, device=name)
