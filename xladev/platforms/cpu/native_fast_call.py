"""The native code of all fast calls: the package xladev-calls, told once where things are."""

from __future__ import annotations

import importlib
import platform
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from xladev.instrument import logger, watchers_address
from xladev.instrument.interruption import rethrow
from xladev.platforms.cpu.block_pool import Flush
from xladev.platforms.cpu.native_block import NativeBlock
from xladev.platforms.cpu.recorder import RECORDER
from xladev.platforms.cpu.slot_offsets import UnknownLayout, slot_offsets
from xladev.runtime.array import DeviceArray
from xladev.runtime.buffers.allocator import AllocatedBuffer
from xladev.runtime.buffers.poison import poison_address
from xladev.runtime.host_executor import HostMemory
from xladev.runtime.launch.definition_event import DEFINED
from xladev.runtime.memory import DeviceMemory

_log = logger("runtime")
_lock = threading.Lock()

INTERFACE = 1
"""Of `src/calls.h` of xladev-calls: the records and names that both sides know."""

_KNOWN: dict[str, Any] = {
    "empty_text": "",
    "empty_tuple": (),
    "defined": DEFINED,
    "rethrow": rethrow,
    "device_array": DeviceArray,
    "allocated_buffer": AllocatedBuffer,
    "device_memory": DeviceMemory,
    "host_memory": HostMemory,
    "weak_reference": weakref.ref,
}
"""Objects that native code compares with, or calls; it keeps them for good."""


@dataclass(frozen=True, slots=True)
class NativeFastCall:
    """What the code offers to Python.

    Attributes:
        function: the fast call of the plan at an address; its second argument lives as long.
        flush: frees all blocks that the pool at an address keeps.
    """

    function: Callable[[int, object], Callable[..., Any]]
    flush: Flush


def native_fast_call() -> NativeFastCall | None:
    """The code; None where xladev-calls is not installed, or is another release's."""
    with _lock:
        return _make()


@cache
def _make() -> NativeFastCall | None:
    try:
        code = _module()
        _check(code)
        told = _KNOWN | _words() | slot_offsets()
        code.connect(NativeBlock, told)
    except (ImportError, UnknownLayout) as reason:
        _log.info("calls of compiled programs go through Python: %s", reason)
        return None
    return NativeFastCall(code.function, code.flush)


def _module() -> Any:
    """The extension.

    Raises:
        ImportError: it is not installed, or cannot be loaded.
    """
    try:
        return importlib.import_module("xladev_calls._native")
    except ModuleNotFoundError:
        raise ImportError("the package xladev-calls is not installed") from None


def _check(code: Any) -> None:
    if platform.python_implementation() != "CPython":
        raise UnknownLayout(f"{platform.python_implementation()} is not CPython")
    if code.INTERFACE != INTERFACE:
        raise UnknownLayout(f"xladev-calls has interface {code.INTERFACE}, not {INTERFACE}")


def _words() -> dict[str, int]:
    """Addresses of words that native code looks at in each call."""
    return {
        "watchers": watchers_address(),
        "poison": poison_address(),
        "trace": RECORDER.word_address,
    }
