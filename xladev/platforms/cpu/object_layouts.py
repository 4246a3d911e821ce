"""Where CPython, NumPy and the runtime keep what native code reads; looked up, never assumed.

Every offset is checked against objects made for that purpose, so that an interpreter or a NumPy
that lays them out otherwise is noticed before anything is read. There is no fast call then, and
calls go through Python.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

import numpy as np

from xladev.runtime.array import DeviceArray
from xladev.runtime.buffers.allocator import AllocatedBuffer
from xladev.runtime.host_executor import HostMemory
from xladev.runtime.memory import DeviceMemory

TYPE_OFFSET = 8
"""Where an object refers to its type, behind its count of references."""

_WORD = 8
_NDARRAY = {"data": 16, "rank": 24, "dims": 32, "dtype": 56, "flags": 64}
_DTYPE = {"order": 26, "number": 28}
_CONTIGUOUS, _WRITEABLE = 0x1, 0x400
_PYTHONS = ((3, 11), (3, 12), (3, 13))
_NUMPY = "2"

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
"""What `fast_call.ll` calls the slots of the runtime's own objects."""


class UnknownLayout(Exception):
    """Objects are laid out in a way that native code was not written for; says which."""


def field_offsets() -> dict[str, int]:
    """The offset of every field that `fast_call.ll` reads or writes, by the name it has there.

    Raises:
        UnknownLayout: this interpreter or this NumPy is another one.
    """
    _check_interpreter()
    _check_ndarray()
    _check_dtype()
    offsets = {f"ndarray_{name}": offset for name, offset in _NDARRAY.items()}
    offsets.update({f"dtype_{name}": offset for name, offset in _DTYPE.items()})
    for cls, slots in _SLOTS.items():
        found = _slot_offsets(cls, tuple(slots.values()))
        offsets.update({name: found[slot] for name, slot in slots.items()})
    return offsets


def _check_interpreter() -> None:
    _expect(sys.platform == "linux", sys.platform)
    _expect(sys.implementation.name == "cpython", sys.implementation.name)
    _expect(sys.version_info[:2] in _PYTHONS, f"Python {sys.version_info[0]}.{sys.version_info[1]}")
    _expect(not sysconfig.get_config_var("Py_GIL_DISABLED"), "an interpreter without its lock")
    debugging = hasattr(sys, "gettotalrefcount") or hasattr(sys, "getobjects")
    _expect(not debugging, "a debugging interpreter")
    _expect(sys.maxsize == 2**63 - 1 and sys.byteorder == "little", "another word")
    _expect(object.__basicsize__ == 2 * _WORD, "another object header")
    for sample in (object(), 5, np.zeros(1)):
        _expect(_word(sample, TYPE_OFFSET) == id(type(sample)), "another object header")


def _check_ndarray() -> None:
    """Reads every field of arrays that differ in all of them."""
    _expect(np.__version__.split(".")[0] == _NUMPY, f"NumPy {np.__version__}")
    for sample in _samples():
        data = sample.__array_interface__["data"][0]
        _expect(_word(sample, _NDARRAY["data"]) == data, "NumPy's data")
        rank = _half_word(sample, _NDARRAY["rank"])
        _expect(rank == sample.ndim, "NumPy's number of dimensions")
        dims = _word(sample, _NDARRAY["dims"])
        _expect(_words_at(dims, rank) == sample.shape, "NumPy's dimensions")
        _expect(_word(sample, _NDARRAY["dtype"]) == id(sample.dtype), "NumPy's dtype")
        flags = _half_word(sample, _NDARRAY["flags"])
        _expect(bool(flags & _CONTIGUOUS) == sample.flags.c_contiguous, "NumPy's flags")
        _expect(bool(flags & _WRITEABLE) == sample.flags.writeable, "NumPy's flags")


def _check_dtype() -> None:
    """Reads what tells dtypes apart: the numbers of their types, and the order of bytes."""
    for name in ("f4", ">f4", "i8", "?", "c16", "e"):
        sample = np.dtype(name)
        order = ctypes.c_char.from_address(id(sample) + _DTYPE["order"]).value
        _expect(order.decode("latin-1") == sample.byteorder, "NumPy's order of bytes")
        _expect(_half_word(sample, _DTYPE["number"]) == sample.num, "NumPy's numbers of types")


def _samples() -> list[np.ndarray[Any, np.dtype[Any]]]:
    fixed = np.arange(6, dtype=np.int16).reshape(2, 3)
    fixed.flags.writeable = False
    return [np.array(1.5, np.float32), np.zeros((3, 4, 5)), np.zeros((4, 6))[:, ::2], fixed]


def _slot_offsets(cls: type[Any], slots: tuple[str, ...]) -> dict[str, int]:
    """Finds each slot by putting an object into it."""
    sample = object.__new__(cls)
    offsets: dict[str, int] = {}
    for slot in slots:
        mark = object()
        object.__setattr__(sample, slot, mark)
        places = [at for at in range(0, cls.__basicsize__, _WORD) if _word(sample, at) == id(mark)]
        _expect(len(places) == 1, f"{cls.__name__}.{slot}")
        offsets[slot] = places[0]
    _forget(sample, slots)
    return offsets


def _forget(sample: object, slots: tuple[str, ...]) -> None:
    """Makes a half-made object harmless: a buffer of a host array gives nothing back."""
    for slot in slots:
        object.__delattr__(sample, slot)
    if isinstance(sample, AllocatedBuffer):
        sample.host_owner = sample.__class__


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise UnknownLayout(what)


def _word(value: object, offset: int) -> int:
    return ctypes.c_size_t.from_address(id(value) + offset).value


def _half_word(value: object, offset: int) -> int:
    return ctypes.c_int.from_address(id(value) + offset).value


def _words_at(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_ssize_t * count).from_address(address)) if count else ()
