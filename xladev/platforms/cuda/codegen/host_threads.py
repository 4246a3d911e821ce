"""The host as a target: a loop over all threads of all blocks around the function of one thread.

Threads of a block run one after the other, so a kernel with barriers or shuffles is refused: they
need the thread function as a coroutine (`primitives.barrier` is where it would be suspended).
Blocks run in an order that the caller chooses; no program may depend on it.

The entry is ``void entry(ptr arrays, ptr launch, ptr fault)``: addresses of the arrays; six i32
(grid and block, x y z) and two i64: turn t runs block (t * first + second) modulo their count; the
fault record, see `FAULT_FIELDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.llvm import I8, I32, I64, PTR, VOID, FunctionBuilder, Parameter, Value
from xladev.errors import UnsupportedError
from xladev.platforms.cuda.codegen.bounds import CHECK, with_bounds_checks
from xladev.platforms.cuda.codegen.kernel import ThreadFunction
from xladev.platforms.cuda.codegen.primitives import THREAD, with_definitions

ENTRY = "xd_run_grid"
TARGET = "host threads"

FAULT_FIELDS = ("count", "array", "offset", "nbytes", "block", "thread")
"""What a fault record holds, i64 each: faults so far, then the first of them."""

_CONTEXT_NBYTES = 192
"""i32 thread, i32 block, i64 address of the fault record; the sink of 128 bytes begins at 64."""


def _field(symbol: str, index: int) -> str:
    return (
        f"define internal i32 @{symbol}(ptr %simt) alwaysinline {{\n"
        f"  %a = getelementptr i32, ptr %simt, i64 {index}\n"
        "  %v = load i32, ptr %a\n  ret i32 %v\n}"
    )


PRIMITIVES: Mapping[str, str] = MappingProxyType(
    {"xd.tid.x": _field("xd.tid.x", 0), "xd.ctaid.x": _field("xd.ctaid.x", 1)}
)
"""Definitions by name."""

_CHECK_TEXT = f"""
define internal ptr @{CHECK}(ptr %simt, ptr %address, ptr %base, i64 %n, i64 %size, i64 %array) \
alwaysinline {{
  %a = ptrtoint ptr %address to i64
  %b = ptrtoint ptr %base to i64
  %offset = sub i64 %a, %b
  %last = sub i64 %size, %n
  %low = icmp sge i64 %offset, 0
  %high = icmp sle i64 %offset, %last
  %ok = and i1 %low, %high
  br i1 %ok, label %inside, label %outside
inside:
  ret ptr %address
outside:
  call void @xd.fault(ptr %simt, i64 %array, i64 %offset, i64 %n)
  %sink = getelementptr i8, ptr %simt, i64 64
  ret ptr %sink
}}

define internal void @xd.fault(ptr %simt, i64 %array, i64 %offset, i64 %n) noinline cold {{
  %place = getelementptr i8, ptr %simt, i64 8
  %fault = load ptr, ptr %place
  %count = load i64, ptr %fault
  %more = add i64 %count, 1
  store i64 %more, ptr %fault
  %first = icmp eq i64 %count, 0
  br i1 %first, label %record, label %done
record:
  %f1 = getelementptr i64, ptr %fault, i64 1
  store i64 %array, ptr %f1
  %f2 = getelementptr i64, ptr %fault, i64 2
  store i64 %offset, ptr %f2
  %f3 = getelementptr i64, ptr %fault, i64 3
  store i64 %n, ptr %f3
  %block.place = getelementptr i32, ptr %simt, i64 1
  %block = load i32, ptr %block.place
  %block.wide = zext i32 %block to i64
  %f4 = getelementptr i64, ptr %fault, i64 4
  store i64 %block.wide, ptr %f4
  %thread = load i32, ptr %simt
  %thread.wide = zext i32 %thread to i64
  %f5 = getelementptr i64, ptr %fault, i64 5
  store i64 %thread.wide, ptr %f5
  br label %done
done:
  ret void
}}
"""


def host_text(thread: ThreadFunction) -> str:
    """The module for LLVM; its entry is `ENTRY`.

    Raises:
        UnsupportedError: threads wait for each other.
    """
    if thread.module.declares("xd.barrier"):
        raise UnsupportedError(
            "the emulator runs threads one after the other, and cannot make them wait",
            where=f"kernel {thread.name}",
        )
    _emit_entry(thread)
    names = [p.name for p in thread.parameters]
    text = with_bounds_checks(str(thread.module), names, thread.nbytes)
    return with_definitions(text, PRIMITIVES, TARGET) + _CHECK_TEXT


def _emit_entry(thread: ThreadFunction) -> None:
    parameters = (Parameter(PTR, "arrays"), Parameter(PTR, "launch"), Parameter(PTR, "fault"))
    b = thread.module.function(ENTRY, VOID, parameters)
    arrays, launch, fault = b.arguments
    bases = [b.load(PTR, b.byte_address(arrays, 8 * n)) for n in range(len(thread.parameters))]
    context = b.alloca(I8, _CONTEXT_NBYTES, align=64)
    b.store(fault, b.byte_address(context, 8))
    blocks, threads = _field_of(b, launch, 0), _field_of(b, launch, 12)
    step, first = (b.load(I64, b.byte_address(launch, at)) for at in (24, 32))
    with b.loop(0, blocks) as turn:
        block = b.urem(b.add(b.mul(turn, step), first), blocks)
        b.store(b.resize(block, I32, signed=False), b.byte_address(context, 4))
        with b.loop(0, threads) as number:
            b.store(b.resize(number, I32, signed=False), context)
            b.call_void(THREAD, context, *bases)
    b.ret()


def _field_of(b: FunctionBuilder, launch: Value, offset: int) -> Value:
    return b.resize(b.load(I32, b.byte_address(launch, offset)), I64, signed=False)
