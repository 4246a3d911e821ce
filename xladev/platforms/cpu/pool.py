"""The threads behind all programs of this process: native code, and how many of them there are."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from xladev.errors import OptionError
from xladev.hlo.in_threads import processors
from xladev.platforms.cpu.codegen.sharing import PARALLEL
from xladev.platforms.cpu.engine import target_traits
from xladev.platforms.cpu.native_block import keep_forever
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.recorder import RECORDER
from xladev.platforms.cpu.word_wait import relax_text

THREADS_VARIABLE = "XLADEV_NUM_THREADS"
"""Most threads that work on one program, the calling one included; unset: one per processor."""

_PORTABLE = """
define internal i64 @rounding() {
  ret i64 0
}
define internal void @round(i64 %mode) {
  ret void
}
"""
_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @rounding() {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %mode = load i32, ptr %place
  %flags = and i32 %mode, -64
  %wide = zext i32 %flags to i64
  ret i64 %wide
}
define internal void @round(i64 %mode) {
  %place = alloca i32
  %narrow = trunc i64 %mode to i32
  store i32 %narrow, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
"""
_ARM = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal i64 @rounding() {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %mode
}
define internal void @round(i64 %mode) {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""
_MACHINES: Mapping[str, str] = MappingProxyType({"x86_64": _X86, "aarch64": _ARM})
"""By processor: how floats are rounded and denormals kept, which a thread takes over from its
caller."""

_ALONE = f"""
@threads = global i64 1
@trace = global ptr null
define void @{PARALLEL}(ptr %function, ptr %frame, ptr %private, i64 %count, i64 %grain,
                        i64 %nbytes, i64 %limit) {{
  call void %function(ptr %frame, ptr %private, i64 0, i64 %count)
  ret void
}}
"""
"""The pool of systems whose threads `pool.ll` does not know: none."""

POOL_LEVEL = 1
"""How far the code is optimised."""

_lock = threading.Lock()


def threads_wanted() -> int:
    """How many threads work on a program that does not say: see `THREADS_VARIABLE`.

    Raises:
        OptionError: the variable is not a number of at least 1.
    """
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if not text:
        return processors()
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise OptionError(
            f"{THREADS_VARIABLE} is {text!r}",
            why="it must be a number of threads, at least 1",
            hint=f"unset {THREADS_VARIABLE}, or set it to 1 for no threads but the caller's",
        )
    return number


def pool_symbols() -> Mapping[str, int]:
    """Addresses of what programs import, by symbol; the pool is compiled at the first call.

    Raises:
        OptionError: see `threads_wanted`.
    """
    with _lock:
        return _make()


@cache
def _make() -> Mapping[str, int]:
    wanted = threads_wanted()
    symbols = (PARALLEL, "threads", "trace")
    text = pool_text(target_traits().triple)
    code, _ = load_cached("pool", text, POOL_LEVEL, symbols)
    # Threads are in this code until the process ends, which the interpreter does before.
    keep_forever(code, *code.parts)
    ctypes.c_int64.from_address(code.address("threads")).value = wanted
    ctypes.c_size_t.from_address(code.address("trace")).value = RECORDER.word_address
    return MappingProxyType({PARALLEL: code.address(PARALLEL)})


def pool_text(triple: str) -> str:
    """The code for machines of a triple, as LLVM assembly."""
    if "linux" not in triple:
        return _ALONE
    processor = triple.partition("-")[0]
    pool = (Path(__file__).parent / "pool.ll").read_text("utf-8")
    return pool + _MACHINES.get(processor, _PORTABLE) + relax_text(triple)
