"""The native code of all fast calls: compiled once in a process, and told where things are."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from xladev.instrument import logger, watchers_address
from xladev.instrument.interruption import rethrow
from xladev.platforms.cpu.block_pool import Flush
from xladev.platforms.cpu.engine import LoadedObject
from xladev.platforms.cpu.native_block import NativeBlock, block_type, keep_forever
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.object_layouts import UnknownLayout, field_offsets
from xladev.platforms.cpu.recorder import RECORDER
from xladev.runtime.array import DeviceArray
from xladev.runtime.buffers.allocator import AllocatedBuffer
from xladev.runtime.buffers.poison import poison_address
from xladev.runtime.host_executor import HostMemory
from xladev.runtime.launch.definition_event import DEFINED
from xladev.runtime.memory import DeviceMemory

_log = logger("runtime")
_lock = threading.Lock()
_FOLDER = Path(__file__).parent
_PARTS = ("fast_call.ll", "arguments.ll", "blocks.ll", "show.ll")
FAST_CALL_LEVEL = 0
"""Compiles in 10 ms; the next level takes 80, and saves 0.07 us of a call."""

_KNOWN: dict[str, Any] = {
    "None": None,
    "empty_text": "",
    "empty_tuple": (),
    "defined": DEFINED,
    "ndarray": np.ndarray,
    "int": int,
    "weak_reference": weakref.ref,
    "device_array": DeviceArray,
    "allocated_buffer": AllocatedBuffer,
    "device_memory": DeviceMemory,
    "host_memory": HostMemory,
    "rethrow": rethrow,
}
"""Objects that `fast_call.ll` knows by address."""


_NEW_FROM_DESCR, _SET_BASE_OBJECT = 94, 282
"""Indices of functions in NumPy's C API, which a major version of NumPy keeps."""


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p),
                ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]  # fmt: skip


_FASTCALL, _ONE_ARGUMENT = 0x80, 0x8  # METH_FASTCALL and METH_O of methodobject.h


@dataclass(frozen=True, slots=True)
class NativeFastCall:
    """What the code offers to Python.

    Attributes:
        method: the built-in function that all fast calls are, each with a plan of its own.
        flush: frees all blocks that the pool at an address keeps.
    """

    method: _Method
    flush: Flush

    def function(self, plan: int, owner: object) -> Callable[..., Any]:
        """The fast call of the plan at an address; ``owner`` lives as long as it does."""
        return _function(self.method, plan, owner)


def _function(method: _Method, bound: object, owner: object) -> Callable[..., Any]:
    make = ctypes.pythonapi.PyCMethod_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., Any] = make(ctypes.addressof(method), bound, owner, None)
    return made


def native_fast_call() -> NativeFastCall | None:
    """The code; None where objects are laid out in a way that it was not written for."""
    with _lock:
        return _make()


@cache
def _make() -> NativeFastCall | None:
    try:
        code = _load(field_offsets())
    except UnknownLayout as reason:
        _log.info("calls of compiled programs go through Python: %s is unknown", reason)
        return None
    method = _Method(b"fast_call", code.address("fast_call"), _FASTCALL, None)
    keep_forever(method)
    flush = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(code.address("flush"))
    return NativeFastCall(method, flush)


def fast_call_text() -> str:
    """The code, as LLVM assembly."""
    return "".join((_FOLDER / name).read_text("utf-8") for name in _PARTS)


def _load(offsets: dict[str, int]) -> LoadedObject:
    """The code in this process, for good: objects may outlive everything that refers to it."""
    own = ("block", "watchers", "trace", "poison", "new_ndarray", "set_base", "fast_call", "drop",
           "flush", "show", "traverse")  # fmt: skip
    names = (*_KNOWN, *offsets, *own)
    code, _ = load_cached("fast_call", fast_call_text(), FAST_CALL_LEVEL, names)
    keep_forever(code, *_KNOWN.values())
    pointers = {name: id(value) for name, value in _KNOWN.items()}
    pointers["block"] = id(_block_type(code))
    pointers["watchers"] = watchers_address()
    pointers["trace"] = RECORDER.word_address
    pointers["poison"] = poison_address()
    pointers["new_ndarray"] = _numpy_function(_NEW_FROM_DESCR)
    pointers["set_base"] = _numpy_function(_SET_BASE_OBJECT)
    for name, number in (*pointers.items(), *offsets.items()):
        ctypes.c_size_t.from_address(code.address(name)).value = number
    return code


def _block_type(code: LoadedObject) -> type[NativeBlock]:
    """The type of blocks, with its methods."""
    made = block_type(code.address("drop"), code.address("traverse"))
    method = _Method(b"show", code.address("show"), _ONE_ARGUMENT, None)
    keep_forever(method)
    made.show = _function(method, None, None)  # type: ignore[method-assign]
    return made


def _numpy_function(index: int) -> int:
    """The address of a function of NumPy's C API."""
    of_capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = of_capsule(("PyCapsule_GetPointer", ctypes.pythonapi))  # one that nobody shares
    table = pointer(np._core.multiarray._ARRAY_API, None)  # type: ignore[attr-defined]
    return ctypes.c_size_t.from_address(table + 8 * index).value
