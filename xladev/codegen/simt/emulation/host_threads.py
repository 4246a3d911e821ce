"""The host as a target: a loop over all threads of all blocks around the function of one thread.

Threads of a block run one after the other, unless they wait for each other: then each is a
coroutine (`host_blocks`). Blocks, and sub-groups between barriers, run in an order that the caller
chooses; no program may depend on it.

A thread's context: i32 thread, i32 block, i64 address of the fault record; i32 state, i32 parity,
two i32 slots for exchanges, the addresses of shared memory (`host_blocks`) and of its shadow
(`races`); a sink of 128 bytes at 64; from 192 on what threads offer each other.

The entry is ``void entry(ptr arrays, ptr launch, ptr fault)``: addresses of the arrays; six i32
(grid and block, x y z) and four i64: iteration t runs block (t * first + second) modulo their
count, and the other two order sub-groups likewise; the fault record, see `FAULT_FIELDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from xladev.codegen.llvm import I8, I32, I64, PTR, VOID, FunctionBuilder, Parameter, Value
from xladev.codegen.simt.approximations import c_declarations, host_definitions
from xladev.codegen.simt.atomics import HOST_ATOMICS
from xladev.codegen.simt.emulation import host_blocks, races
from xladev.codegen.simt.emulation.bounds import ALIGNED, CHECK, MISALIGNED, with_bounds_checks
from xladev.codegen.simt.emulation.host_blocks import CONTEXT_NBYTES, START
from xladev.codegen.simt.kernel import ThreadFunction
from xladev.codegen.simt.primitives import THREAD, with_definitions
from xladev.codegen.simt.target import SimtTarget

ENTRY = "xd_run_grid"

PATTERN = 0xA5
"""Byte that memory holds before anything is written: negative in all types, and no common one."""

FAULT_FIELDS = ("count", "array", "offset", "nbytes", "block", "thread")
"""What a fault record holds, i64 each: faults so far, then the first of them."""


def _field(symbol: str, index: int) -> str:
    return (
        f"define internal i32 @{symbol}(ptr %simt) alwaysinline {{\n"
        f"  %a = getelementptr i32, ptr %simt, i64 {index}\n"
        "  %v = load i32, ptr %a\n  ret i32 %v\n}"
    )


PRIMITIVES: Mapping[str, str] = MappingProxyType(
    {
        "xd.tid.x": _field("xd.tid.x", 0),
        "xd.block.x": _field("xd.block.x", 1),
        **HOST_ATOMICS,
        # threads suspend there: their calls are rewritten before definitions are looked for
        "xd.barrier": "",
        "xd.exchange": "",
    }
)
"""Definitions by name, of what all targets have."""


def host_primitives(target: SimtTarget) -> Mapping[str, str]:
    """Definitions by name, with a target's own."""
    own = target.emulation
    blocks = host_blocks.block_primitives(target.machine.subgroup)
    approximations = host_definitions(own.approximations)
    return MappingProxyType({**PRIMITIVES, **blocks, **approximations, **own.primitives})


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

define internal void @{ALIGNED}(ptr %simt, ptr %address, ptr %base, i64 %align) alwaysinline {{
  %a = ptrtoint ptr %address to i64
  %b = ptrtoint ptr %base to i64
  %offset = sub i64 %a, %b
  %most = sub i64 %align, 1
  %beyond = and i64 %offset, %most
  %ok = icmp eq i64 %beyond, 0
  br i1 %ok, label %done, label %apart
apart:
  call void @xd.fault(ptr %simt, i64 {MISALIGNED}, i64 %offset, i64 %align)
  br label %done
done:
  ret void
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


def host_text(thread: ThreadFunction, target: SimtTarget) -> str:
    """The module for LLVM; its entry is `ENTRY`.

    Args:
        thread: one launch of a kernel, emitted for that target.
        target: from `host_code.emulated`.
    """
    own = target.emulation
    waits = any(map(thread.module.declares, ("xd.barrier", "xd.exchange")))
    (_emit_waiting_entry if waits else _emit_entry)(thread, target.machine.subgroup)
    names = [p.name for p in thread.parameters]
    text = with_bounds_checks(str(thread.module), names, thread.nbytes, thread.shared_nbytes)
    if waits:
        text = host_blocks.as_coroutine(text).replace(f"ptr @{THREAD}(", f"ptr @{START}(")
        text = re.sub(
            r"declare void @xd\.(?:barrier|exchange|offer\.x\d+|run_block)\(.*\n", "", text
        )
        text = re.sub(r"declare \S+ @(?:malloc|calloc|free|xd\.next\.epoch)\(.*\n", "", text)
        text += host_blocks.scheduler(target.machine.subgroup) + races.TEXT
        text += own.text if any(f"@{symbol}(" in text for symbol in own.primitives) else ""
    text = with_definitions(text, target.primitives, target.name)
    return text + _CHECK_TEXT + c_declarations(text)


def _emit_entry(thread: ThreadFunction, subgroup: int) -> None:
    """All threads of all blocks, one after the other."""
    b, bases = _begin(thread)
    context = b.alloca(I8, CONTEXT_NBYTES, align=64)
    order = _subgroup_order(b)

    def block(number: Value, threads: Value) -> None:
        with _each_thread(b, threads, subgroup, order) as tid:
            _set_context(b, context, tid, number)
            b.call_void(THREAD, context, *bases)

    _each_block(b, block)
    b.ret()


def _emit_waiting_entry(thread: ThreadFunction, subgroup: int) -> None:
    """Blocks whose threads are coroutines, each block run by the scheduler."""
    b, bases = _begin(thread)
    for symbol, result, types in (
        ("malloc", PTR, ("i64",)),
        ("calloc", PTR, ("i64", "i64")),
        ("free", VOID, ("ptr",)),
        ("xd.next.epoch", VOID, ("ptr",)),
        ("xd.run_block", VOID, ("ptr", "ptr", "i64", "i64", "i64")),
    ):
        b.module.declare(symbol, result, types)
    threads = _field_of(b, b.arguments[1], 12)
    order = _subgroup_order(b)
    contexts = b.call("malloc", PTR, b.mul(threads, CONTEXT_NBYTES))
    handles = b.call("malloc", PTR, b.mul(threads, 8))
    shared = b.call("malloc", PTR, b.const(I64, max(thread.shared_nbytes, 1)))
    nbytes = races.shadow_nbytes(thread.shared_nbytes)
    whole = b.call("calloc", PTR, b.const(I64, 1), b.const(I64, nbytes))
    blocks = _field_of(b, b.arguments[1], 0)

    def start(tid: Value, number: Value, shadow: Value) -> None:
        context = b.byte_address(contexts, b.mul(tid, CONTEXT_NBYTES))
        _set_context(b, context, tid, number)
        b.store(b.const(I64, 0), b.byte_address(context, 16))
        b.store(shared, b.byte_address(context, 32))
        b.store(shadow, b.byte_address(context, races.SHADOW_OFFSET))
        handle = b.call(THREAD, PTR, context, *bases)
        b.store(handle, b.byte_address(handles, b.mul(tid, 8)))

    def block(number: Value, threads: Value) -> None:
        _fill(b, shared, thread.shared_nbytes)
        last = b.icmp("uge", b.add(number, races.CHECKED), blocks)
        is_checked = b.or_(b.icmp("ult", number, races.CHECKED), last)
        shadow = b.select(is_checked, whole, Value("null", PTR))
        b.call_void("xd.next.epoch", shadow)
        with _each_thread(b, threads, subgroup, order) as tid:
            start(tid, number, shadow)
        b.call_void("xd.run_block", contexts, handles, threads, *order)

    _each_block(b, block)
    for memory in (contexts, handles, shared, whole):
        b.call_void("free", memory)
    b.ret()


def _subgroup_order(b: FunctionBuilder) -> tuple[Value, Value]:
    """Step and first of the order of sub-groups."""
    step, first = (b.load(I64, b.byte_address(b.arguments[1], at)) for at in (40, 48))
    return step, first


@contextmanager
def _each_thread(
    b: FunctionBuilder, threads: Value, subgroup: int, order: tuple[Value, Value]
) -> Iterator[Value]:
    """Numbers of all threads of a block, one sub-group after the other in their order."""
    bits = subgroup.bit_length() - 1
    count = b.lshr(b.add(threads, subgroup - 1), bits)
    with b.loop(0, count) as iteration:
        first = b.shl(b.urem(b.add(b.mul(iteration, order[0]), order[1]), count), bits)
        with b.loop(first, b.intrinsic("umin", b.add(first, subgroup), threads)) as tid:
            yield tid


def _fill(b: FunctionBuilder, memory: Value, nbytes: int) -> None:
    """Shared memory holds a pattern when a block begins, so that reading it too soon shows."""
    b.module.declare("llvm.memset.p0.i64", VOID, ("ptr", "i8", "i64", "i1"))
    b.do(f"call void @llvm.memset.p0.i64(ptr {memory.text}, i8 {PATTERN}, i64 {nbytes}, i1 false)")


def _begin(thread: ThreadFunction) -> tuple[FunctionBuilder, list[Value]]:
    """The entry's function, and the addresses of the kernel's arrays."""
    parameters = (Parameter(PTR, "arrays"), Parameter(PTR, "launch"), Parameter(PTR, "fault"))
    b = thread.module.function(ENTRY, VOID, parameters)
    arrays = b.arguments[0]
    return b, [b.load(PTR, b.byte_address(arrays, 8 * n)) for n in range(len(thread.parameters))]


def _each_block(b: FunctionBuilder, body: Callable[[Value, Value], None]) -> None:
    """Runs ``body(number, threads)`` for all blocks, in the order that the launch says."""
    launch = b.arguments[1]
    blocks, threads = _field_of(b, launch, 0), _field_of(b, launch, 12)
    step, first = (b.load(I64, b.byte_address(launch, at)) for at in (24, 32))
    with b.loop(0, blocks) as iteration:
        body(b.urem(b.add(b.mul(iteration, step), first), blocks), threads)


def _set_context(b: FunctionBuilder, context: Value, tid: Value, block: Value) -> None:
    b.store(b.resize(tid, I32, signed=False), context)
    b.store(b.resize(block, I32, signed=False), b.byte_address(context, 4))
    b.store(b.arguments[2], b.byte_address(context, 8))


def _field_of(b: FunctionBuilder, launch: Value, offset: int) -> Value:
    return b.resize(b.load(I32, b.byte_address(launch, offset)), I64, signed=False)
