"""Where the runtime's classes keep their slots, which xladev-calls reads: found, never assumed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from xladev.runtime.array import DeviceArray
from xladev.runtime.buffers.allocator import AllocatedBuffer
from xladev.runtime.host_executor import HostMemory
from xladev.runtime.memory import DeviceMemory

_WORD = ctypes.sizeof(ctypes.c_void_p)

_SLOTS: Mapping[type[Any], Mapping[str, str]] = {
    DeviceArray: {
        "array_buffer": "_buffer",
        "array_device": "device",
        "array_event": "event",
        "array_shape": "hlo_shape",
        "array_sizes": "_sizes",
        "array_view": "_view",
        "array_why": "_why_gone",
    },
    AllocatedBuffer: {"buffer_generation": "_generation", "buffer_memory": "memory"},
    DeviceMemory: {"memory_handle": "handle", "memory_offset": "offset"},
    HostMemory: {"host_address": "address"},
}
"""What `Known` of xladev-calls calls the slots."""


class UnknownLayout(Exception):
    """A class has no slot where native code could read it; says which."""


def slot_offsets() -> dict[str, int]:
    """Bytes from an object to each slot that native code reads or writes, by the name it has there.

    Raises:
        UnknownLayout: an attribute is no slot.
    """
    offsets: dict[str, int] = {}
    for cls, slots in _SLOTS.items():
        found = _offsets(cls, tuple(slots.values()))
        offsets.update({name: found[slot] for name, slot in slots.items()})
    return offsets


def _offsets(cls: type[Any], slots: tuple[str, ...]) -> dict[str, int]:
    """Finds each slot by putting an object into it."""
    sample = object.__new__(cls)
    offsets: dict[str, int] = {}
    for slot in slots:
        mark = object()
        object.__setattr__(sample, slot, mark)
        places = [at for at in range(0, cls.__basicsize__, _WORD) if _word(sample, at) == id(mark)]
        if len(places) != 1:
            raise UnknownLayout(f"{cls.__name__}.{slot}")
        offsets[slot] = places[0]
    _forget(sample, slots)
    return offsets


def _forget(sample: object, slots: tuple[str, ...]) -> None:
    """Makes a half-made object harmless: a buffer of a host array gives nothing back."""
    for slot in slots:
        object.__delattr__(sample, slot)
    if isinstance(sample, AllocatedBuffer):
        sample.host_owner = sample.__class__


def _word(value: object, offset: int) -> int:
    return ctypes.c_size_t.from_address(id(value) + offset).value
