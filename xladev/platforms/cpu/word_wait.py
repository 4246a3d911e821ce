"""How native code waits for a word of memory to change, and wakes who does: a futex on Linux."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_FUTEX = """
@slice = internal constant [2 x i64] [i64 0, i64 {nanoseconds}]
declare i64 @syscall(i64, ptr, i32, i32, ptr, ptr, i32)
declare ptr @__errno_location()
define internal i64 @futex(ptr %word, i32 %call, i32 %value, ptr %slice) {{
  %failed = call i64 @syscall(
    i64 {number}, ptr %word, i32 %call, i32 %value, ptr %slice, ptr null, i32 0)
  ret i64 %failed
}}
define internal i64 @sleep(ptr %word, i32 %seen) {{
  %failed = call i64 @futex(ptr %word, i32 128, i32 %seen, ptr @slice)
  %errno.at = call ptr @__errno_location()
  %errno = load i32, ptr %errno.at
  %is.error = icmp slt i64 %failed, 0
  %is.timeout = icmp eq i32 %errno, 110
  %both = and i1 %is.error, %is.timeout
  %slept = select i1 %both, i64 {microseconds}, i64 0
  ret i64 %slept
}}
define internal void @wake(ptr %word) {{
  %woken = call i64 @futex(ptr %word, i32 129, i32 2147483647, ptr null)
  ret void
}}
"""
_PORTABLE = """
declare i32 @usleep(i32)
define internal i64 @sleep(ptr %word, i32 %seen) {
  %ignored = call i32 @usleep(i32 50)
  ret i64 50
}
define internal void @wake(ptr %word) {
  ret void
}
"""
_FUTEX_NUMBERS: Mapping[str, int] = MappingProxyType({"x86_64": 202, "aarch64": 98})
"""The system call of Linux, by processor."""

_RELAX_PORTABLE = """
define internal void @relax() {
  ret void
}
"""
_RELAX_X86 = """
declare void @llvm.x86.sse2.pause()
define internal void @relax() {
  call void @llvm.x86.sse2.pause()
  ret void
}
"""
_RELAX_ARM = """
declare void @llvm.aarch64.hint(i32)
define internal void @relax() {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
"""
_RELAX: Mapping[str, str] = MappingProxyType({"x86_64": _RELAX_X86, "aarch64": _RELAX_ARM})


def relax_text(triple: str) -> str:
    """LLVM assembly of ``void @relax()``: what a thread does between two looks at a word."""
    return _RELAX.get(triple.partition("-")[0], _RELAX_PORTABLE)


def word_wait_text(triple: str, slice_us: int) -> str:
    """LLVM assembly of two functions for machines of a triple.

    ``i64 @sleep(ptr word, i32 seen)`` returns when the word is not what was seen, or about so many
    microseconds later, which it then gives; else 0. ``void @wake(ptr word)`` wakes all sleepers.

    Args:
        triple: of the machine.
        slice_us: how long a sleep is at most; elsewhere than on Linux, 50.
    """
    number = _FUTEX_NUMBERS.get(triple.partition("-")[0])
    if number is None or "linux" not in triple:
        return _PORTABLE
    return _FUTEX.format(number=number, nanoseconds=slice_us * 1000, microseconds=slice_us)
