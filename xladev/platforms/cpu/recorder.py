"""The recorder of native code: switched on while anybody traces, read when a trace ends.

Programs write rows of step, time and thread into one buffer of the process (`trace_points.py`), so
calls that never see Python are traced like all others. The buffer lives as long as the process,
since a program may be on its way when tracing ends.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from xladev.compiler.plan.operations import TracedOperation, unpack_operations
from xladev.instrument import TraceEvent, add_trace_source
from xladev.platforms.cpu.native_block import keep_forever
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.rows import RecordedProgram, Rows, events_of, in_nanoseconds

MOST_ROWS = 1 << 20
"""Rows of one session; 32 bytes each, of memory that is taken when it is written."""

_LEVEL = 1
_CLOCK = """
define internal i64 @ticks() alwaysinline {
  %now = call i64 @nanoseconds()
  ret i64 %now
}
"""
_COUNTER = """
declare i64 @llvm.readcyclecounter()
define internal i64 @ticks() alwaysinline {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
"""
"""The processor's counter, where it counts evenly: three times as fast as the system's clock."""


class _Record(ctypes.Structure):
    _fields_ = [("mark", ctypes.c_void_p), ("room", ctypes.c_int64), ("count", ctypes.c_int64),
                ("rows", ctypes.c_void_p)]  # fmt: skip


@dataclass(frozen=True)
class TracedProgram:
    """A program whose native code is in this process.

    Attributes:
        name: of the module.
        device: where it was loaded, such as ``cpu:0``.
        packed: what its kernels stand for.
    """

    name: str
    device: str
    packed: bytes

    @cached_property
    def operations(self) -> tuple[TracedOperation, ...]:
        """What its kernels stand for."""
        return unpack_operations(self.packed)


class Recorder:
    """The one recorder of the process, a `TraceSource`. Thread-safe.

    Programs are unloaded wherever garbage is collected, also by a thread that is in here.
    """

    def __init__(self) -> None:
        self._word = array("q", [0])
        self._record: _Record | None = None
        self._both: Callable[[object], None] = _no_clock
        self._begin = (0, 0)
        self._rows: Rows = np.empty((0, 4), np.int64)
        self._programs: dict[int, list[tuple[int, RecordedProgram]]] = {}
        self._accounts: dict[int, str] = {}
        self._lock = threading.RLock()
        keep_forever(self._word)

    @property
    def word_address(self) -> int:
        """Address of the word that programs look at."""
        return self._word.buffer_info()[0]

    @property
    def works(self) -> bool:
        """Whether it knows this system's clock and threads."""
        return sys.platform == "linux"

    def add_program(self, address: int, program: RecordedProgram) -> None:
        """Says whose marks come from an address, from now on."""
        with self._lock:
            self._programs.setdefault(address, []).append((time.perf_counter_ns(), program))

    def remove_program(self, address: int) -> None:
        """Forgets a program that is unloaded, unless its marks are still to be read."""
        with self._lock:
            if not self._word[0]:
                self._programs.pop(address, None)

    def add_account(self, address: int, device: str) -> None:
        """Says which device's memory an account counts."""
        self._accounts[address] = device

    # TraceSource

    def start(self) -> None:
        """Makes programs record."""
        if not self.works:
            return
        record = self._made()
        record.count = 0
        self._begin = self._now()
        self._word[0] = ctypes.addressof(record)

    def position(self) -> int:
        """Rows so far."""
        return 0 if self._record is None else int(self._record.count)

    def events(self, since: int) -> tuple[Iterable[TraceEvent], int]:
        """What the rows since a position say, and how many rows there was no room for."""
        end = self.position()
        kept = self._rows[min(since, MOST_ROWS) : end].copy()
        kept[:, 2] = in_nanoseconds(kept[:, 2], self._begin, self._now())
        with self._lock:
            known = self._programs.copy()
        programs = {address: tuple(them) for address, them in known.items()}
        return events_of(kept, programs, self._accounts), max(0, end - max(since, MOST_ROWS))

    def stop(self) -> None:
        """Makes programs record no more."""
        self._word[0] = 0

    def _now(self) -> tuple[int, int]:
        """Ticks and nanoseconds of this moment."""
        pair = (ctypes.c_int64 * 2)()
        self._both(pair)
        return pair[0], pair[1]

    def _made(self) -> _Record:
        if self._record is None:
            text = (Path(__file__).parent / "recorder.ll").read_text("utf-8")
            text += _COUNTER if _counts_evenly() else _CLOCK
            code, _ = load_cached("recorder", text, _LEVEL, ("mark", "both"))
            self._both = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("both"))
            self._rows = np.zeros((MOST_ROWS, 4), np.int64)
            address = int(self._rows.__array_interface__["data"][0])
            self._record = _Record(code.address("mark"), MOST_ROWS, 0, address)
            keep_forever(code, *code.parts, self._rows, self._record)
        return self._record


def _no_clock(_: object) -> None:
    """Of a recorder that was never started."""


def _counts_evenly() -> bool:
    """Whether the processor counts at one rate, asleep or awake; told by Linux on x86."""
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8").partition("\nflags")[2].partition("\n")[0]
    except OSError:
        return False
    return {"constant_tsc", "nonstop_tsc"} <= set(flags.split())


RECORDER = Recorder()
"""That of this process."""

add_trace_source(RECORDER)
