"""The function that carries out bytecode, and entries by which native code calls it.

An entry has the signature of every program's; which bytecode it is for is in a table beside it. So
bytecode is loaded by writing a pointer, where an object file would have to be linked.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from xladev.errors import FormatError
from xladev.platforms.cpu.aligned import address_of, aligned, in_place
from xladev.platforms.cpu.bytecode import (
    BINARY,
    CALL,
    MOST_ARGUMENTS,
    Bytecode,
    BytecodeOperation,
    OperandKind,
)
from xladev.platforms.cpu.native_block import keep_forever
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.recorder import RECORDER

RUNNER_LEVEL = 2
ENTRIES = 64
"""Entries of one object: so many programs can be loaded before the next one is linked."""

_WORD = 8
_LINE = 8
"""Registers in 64 bytes; those known beforehand fill whole lines."""

_HEAD = """
@trace = global ptr null
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; program: address of the instructions, registers known, all registers, the known ones
define internal i32 @run(ptr %program, ptr %arguments, ptr %results, ptr %scratch) noinline {
entry:
  %code = load ptr, ptr %program
  %p1 = getelementptr i64, ptr %program, i64 1
  %known = load i64, ptr %p1
  %p2 = getelementptr i64, ptr %program, i64 2
  %all = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %program, i64 3
  %memory = alloca i64, i64 %all, align 64
  %nbytes = mul i64 %known, 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %memory, ptr %p3, i64 %nbytes, i1 false)
  %r = getelementptr i64, ptr %memory, i64 %known
  store ptr %arguments, ptr %r
  %r1 = getelementptr i64, ptr %r, i64 1
  store ptr %results, ptr %r1
  %r2 = getelementptr i64, ptr %r, i64 2
  store ptr %scratch, ptr %r2
  %word = load ptr, ptr @trace
  %record = load ptr, ptr %word
  br label %next
"""


@cache
def runner_text() -> str:
    """The LLVM assembly of the function and its entries."""
    cases = [*_plain_cases(), *_binary_cases(), *map(_call_case, range(MOST_ARGUMENTS + 1))]
    labels = "\n".join(f"    i32 {number}, label %o{number}" for number, _ in cases)
    blocks = "\n".join(f"o{number}:\n{body}" for number, body in cases)
    edges = ", ".join(f"[%n{number}, %{block}]" for number, block in _edges(cases))
    return f"""{_HEAD}
next:
  %pc = phi ptr [%code, %entry], {edges}
  %op = load i32, ptr %pc
  %pa = getelementptr i32, ptr %pc, i64 1
  %a32 = load i32, ptr %pa
  %a = sext i32 %a32 to i64
  %pb = getelementptr i32, ptr %pc, i64 2
  %b32 = load i32, ptr %pb
  %b = sext i32 %b32 to i64
  %pd = getelementptr i32, ptr %pc, i64 3
  %c32 = load i32, ptr %pd
  %c = sext i32 %c32 to i64
  %ra = getelementptr i64, ptr %r, i64 %a
  %rb = getelementptr i64, ptr %r, i64 %b
  %rc = getelementptr i64, ptr %r, i64 %c
  %after = getelementptr i32, ptr %pc, i64 4
  switch i32 %op, label %no [
{labels}
  ]
no:
  unreachable
{blocks}
}}

{_entries()}
"""


def _edges(cases: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Operations after which another one follows, with the last block of each."""
    going_on = [(number, body) for number, body in cases if f"%n{number} =" in body]
    return [
        (number, f"e{number}" if f"\ne{number}:" in body else f"o{number}")
        for number, body in going_on
    ]


def _plain_cases() -> list[tuple[int, str]]:
    bodies = {
        BytecodeOperation.MOVE: "%x1 = load i64, ptr %ra\n  store i64 %x1, ptr %rc",
        BytecodeOperation.LOAD: "%x4 = load ptr, ptr %ra\n"
        "  %q4 = getelementptr i8, ptr %x4, i64 %b\n"
        "  %y4 = load i64, ptr %q4\n  store i64 %y4, ptr %rc",
        BytecodeOperation.ADDRESS: "store ptr %ra, ptr %rc",
        BytecodeOperation.FENCE: "fence seq_cst",
        BytecodeOperation.CLEAR: "%x6 = load ptr, ptr %ra\n"
        "  call void @llvm.memset.p0.i64(ptr %x6, i8 0, i64 64, i1 false)",
        BytecodeOperation.COPY: "%x7 = load ptr, ptr %ra\n  %y7 = load ptr, ptr %rb\n"
        "  %z7 = load i64, ptr %rc\n"
        "  call void @llvm.memcpy.p0.p0.i64(ptr %x7, ptr %y7, i64 %z7, i1 false)",
    }
    cases = [(int(op), f"  {body}\n{_following(op)}") for op, body in bodies.items()]
    return [
        (int(BytecodeOperation.RETURN), "  ret i32 0"),
        *cases,
        (int(BytecodeOperation.JUMP), f"  {_at(2, '%a')}"),
        (
            int(BytecodeOperation.BRANCH),
            "  %x3 = load i64, ptr %ra\n  %y3 = icmp ne i64 %x3, 0\n"
            f"  %z3 = select i1 %y3, i64 %b, i64 %c\n  {_at(3, '%z3')}",
        ),
        (
            int(BytecodeOperation.MARK),
            "  %x8 = icmp ne ptr %record, null\n  br i1 %x8, label %m8, label %e8\n"
            "m8:\n  %y8 = load i64, ptr %ra\n  %z8 = load ptr, ptr %record\n"
            "  call void %z8(ptr %record, i64 %y8, ptr %program)\n  br label %e8\n"
            f"e8:\n{_following(BytecodeOperation.MARK)}",
        ),
    ]


def _binary_cases() -> list[tuple[int, str]]:
    cases: list[tuple[int, str]] = []
    for name, n in BINARY.items():
        lines = [f"%x{n} = load i64, ptr %ra", f"%y{n} = load i64, ptr %rb"]
        if name.startswith("icmp"):
            lines += [f"%w{n} = {name} i64 %x{n}, %y{n}", f"%z{n} = zext i1 %w{n} to i64"]
        elif name in ("smin", "smax"):
            lines += [f"%z{n} = call i64 @llvm.{name}.i64(i64 %x{n}, i64 %y{n})"]
        else:
            lines += [f"%z{n} = {name} i64 %x{n}, %y{n}"]
        lines += [f"store i64 %z{n}, ptr %rc"]
        cases.append((n, "\n".join(f"  {line}" for line in lines) + "\n" + _following(n)))
    return cases


def _call_case(count: int) -> tuple[int, str]:
    n = CALL + count
    lines = [f"%f{n} = load ptr, ptr %ra"]
    for k in range(count):
        at = f"{n}.{k}"
        lines += [
            f"%s{at} = getelementptr i32, ptr %after, i64 {k}",
            f"%t{at} = load i32, ptr %s{at}",
            f"%u{at} = sext i32 %t{at} to i64",
            f"%v{at} = getelementptr i64, ptr %r, i64 %u{at}",
            f"%x{at} = load i64, ptr %v{at}",
        ]
    arguments = ", ".join(f"i64 %x{n}.{k}" for k in range(count))
    lines += [
        f"call void %f{n}({arguments})",
        f"%n{n} = getelementptr i32, ptr %after, i64 {-(-count // 4) * 4}",
        "br label %next",
    ]
    return n, "\n".join(f"  {line}" for line in lines)


def _following(number: int) -> str:
    return f"  %n{number:d} = getelementptr i32, ptr %after, i64 0\n  br label %next"


def _at(number: int, target: str) -> str:
    """Goes on at an instruction given by its number."""
    return (
        f"%g{number} = mul i64 {target}, 16\n"
        f"  %n{number} = getelementptr i8, ptr %code, i64 %g{number}\n  br label %next"
    )


def _entries() -> str:
    """A function for each program of bytecode, and the tables of them and of their programs."""
    names = ", ".join(f"ptr @entry.{n}" for n in range(ENTRIES))
    functions = "\n".join(
        f"""define internal i32 @entry.{n}(ptr %c, ptr %arguments, ptr %results, ptr %scratch) {{
  %program = load ptr, ptr getelementptr (i8, ptr @programs, i64 {n * _WORD})
  %status = tail call i32 @run(ptr %program, ptr %arguments, ptr %results, ptr %scratch)
  ret i32 %status
}}"""
        for n in range(ENTRIES)
    )
    return f"""@programs = global [{ENTRIES} x ptr] zeroinitializer, align 64
@entries = global [{ENTRIES} x ptr] [{names}], align 64
{functions}"""


class _Entries:
    """Entries that no bytecode has now. Thread-safe; what was linked once stays.

    Bytecode may be freed in the middle of anything, linking included: giving back takes no lock.
    """

    def __init__(self) -> None:
        self._free: deque[tuple[int, int]] = deque()
        self._lock = threading.Lock()

    def take(self) -> tuple[int, int]:
        """An entry's address, and that of its word for a program."""
        while True:
            try:
                return self._free.pop()
            except IndexError:
                self._link_more()

    def give(self, entry: tuple[int, int]) -> None:
        """Takes back what nobody will call any more."""
        self._free.append(entry)

    def _link_more(self) -> None:
        with self._lock:
            if not self._free:
                self._free.extend(_linked_entries())


_ENTRIES = _Entries()


def _linked_entries() -> list[tuple[int, int]]:
    symbols = ("entries", "programs", "trace")
    found, _ = load_cached("bytecode", runner_text(), RUNNER_LEVEL, symbols)
    keep_forever(found, *found.parts)
    ctypes.c_size_t.from_address(found.address("trace")).value = RECORDER.word_address
    entries = (ctypes.c_void_p * ENTRIES).from_address(found.address("entries"))
    programs = found.address("programs")
    return [(int(entries[n] or 0), programs + n * _WORD) for n in reversed(range(ENTRIES))]


class LoadedScript:
    """Bytecode in this process; its entry goes to another one when the last reference is gone.

    Attributes:
        entry: address of its native entry.
        address: that no other program has, for its marks.

    Args:
        bytecode: what to carry out.
        microkernels: addresses of what it calls.
        constants: bytes of the arrays that it reads; used in place where they are aligned.
        kernels: addresses of those that are machine code.
        library: addresses of functions of the host's library.
    """

    def __init__(
        self,
        bytecode: Bytecode,
        microkernels: Sequence[int],
        constants: Sequence[bytes | memoryview],
        kernels: Sequence[int] = (),
        library: Sequence[int] = (),
    ) -> None:
        self._code = np.frombuffer(bytecode.instructions, np.int32)
        self._table = aligned(bytecode.table)
        self._constants = [in_place(data) for data in constants]
        addresses = {
            OperandKind.MICROKERNEL: microkernels,
            OperandKind.CONSTANT: tuple(map(address_of, self._constants)),
            OperandKind.KERNEL: kernels,
            OperandKind.LIBRARY: library,
        }
        values = _known_values(bytecode, addresses, address_of(self._table))
        values += [0] * (-len(values) % _LINE)
        sizes = address_of(self._code), len(values), len(values) + bytecode.registers
        self._program = np.array([*sizes, *reversed(values)], np.int64)
        self.address = address_of(self._program)
        taken = _ENTRIES.take()
        self.entry, word = taken
        ctypes.c_void_p.from_address(word).value = self.address
        finalizer = weakref.finalize(self, _ENTRIES.give, taken)
        finalizer.atexit = False


def _known_values(
    bytecode: Bytecode, addresses: Mapping[OperandKind, Sequence[int]], table: int
) -> list[int]:
    """What the registers below 0 hold, from -1 on; a FormatError if bytecode asks for more."""
    values: list[int] = []
    for kind, number in bytecode.known:
        if kind == OperandKind.NUMBER:
            values.append(number)
        elif kind == OperandKind.TABLE and number < len(bytecode.table):
            values.append(table + number)
        elif kind in addresses and number < len(addresses[OperandKind(kind)]):
            values.append(addresses[OperandKind(kind)][number])
        else:
            raise FormatError("damaged CPU bytecode", why=f"there is no {kind}.{number}")
    return values
