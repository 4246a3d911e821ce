"""The primitives of neutral kernels: what a thread asks of its machine, by names no target owns.

A kernel is emitted once, as the function of one thread. Its first parameter is the thread's
context, which every primitive is given; what a primitive is, the target's table says
(`codegen.simt.target`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from xladev.codegen.llvm import I32, I64, PTR, VOID, FunctionBuilder, Value
from xladev.errors import CompileError

CONTEXT = "simt"
"""Name of the first parameter of a thread's function."""
ALIGNMENT = 16
"""Bytes to which arrays are aligned, and so vectors whose position allows it."""
THREAD = "xd.thread"
"""Symbol of a thread's function; it is called by the target's entry alone."""

OFFER = "xd.offer.x"
"""Symbol of `offer`, before the number of words."""
MOST_OFFERED = 36

_DECLARED = re.compile(r"^declare [^@\n]*@(xd\.[\w.]+)\(.*$", re.MULTILINE)


def thread_number(b: FunctionBuilder, block: int, count: int) -> Value:
    """The number of this thread among all of the grid, as i64.

    Args:
        b: the function of a thread.
        block: threads of a block, along x.
        count: threads that are numbered; where 32 bits hold them, 32 bits are computed with.
    """
    wide = I64 if count > 2**31 - 1 else I32
    block_number = b.resize(_ask(b, "xd.block.x"), wide, signed=False)
    within = b.resize(_ask(b, "xd.tid.x"), wide, signed=False)
    number = b.binary("add nuw nsw", b.binary("mul nuw nsw", block_number, block), within)
    return b.resize(number, I64, signed=False)


def _ask(b: FunctionBuilder, symbol: str) -> Value:
    b.module.declare(symbol, I32, ("ptr",))
    return b.call(symbol, I32, b.arguments[0])


def barrier(b: FunctionBuilder) -> None:
    """Waits for all threads of the block.

    Code goes on in a block of its own, so that an emulator can leave the function here.
    """
    b.module.declare("xd.barrier", VOID, ("ptr",))
    b.call_void("xd.barrier", b.arguments[0])
    _resume(b)


def shuffle_xor(b: FunctionBuilder, bits: Value, mask: int) -> Value:
    """The i32 of the thread whose number differs by ``mask``; all of the sub-group take part."""
    b.module.declare("xd.exchange", VOID, ("ptr", "i32"))
    b.call_void("xd.exchange", b.arguments[0], bits)
    _resume(b)
    b.module.declare("xd.shuffle", I32, ("ptr", "i32", "i32"))
    return b.call("xd.shuffle", I32, b.arguments[0], bits, b.const(I32, mask))


def offer(b: FunctionBuilder, words: Sequence[Value]) -> None:
    """Shows some i32 to all threads of the sub-group, which have to take part.

    For primitives of a target that compute with what several threads have: an emulator needs to
    see all of it, a device nothing. There are `MOST_OFFERED` at most.
    """
    symbol = f"{OFFER}{len(words)}"
    b.module.declare(symbol, VOID, ("ptr", *["i32"] * len(words)))
    b.call_void(symbol, b.arguments[0], *words)
    _resume(b)


def offers(counts: Iterable[int]) -> dict[str, str]:
    """Definitions of `offer` for a device, which does nothing, by symbol.

    Args:
        counts: numbers of words that are offered at once.
    """
    return {f"{OFFER}{n}": _nothing(n) for n in counts}


def _nothing(words: int) -> str:
    listed = ", ".join(["ptr %simt", *(f"i32 %w{n}" for n in range(words))])
    return f"define internal void @{OFFER}{words}({listed}) alwaysinline {{\n  ret void\n}}"


def shared_memory(b: FunctionBuilder) -> Value:
    """Address of the block's shared memory, aligned to 16 bytes; contents are arbitrary."""
    b.module.declare("xd.shared", PTR, ("ptr",))
    return b.call("xd.shared", PTR, b.arguments[0])


def thread_in_block(b: FunctionBuilder) -> Value:
    """The number of this thread in its block, as i64."""
    return b.resize(_ask(b, "xd.tid.x"), I64, signed=False)


def block_number(b: FunctionBuilder) -> Value:
    """The number of this block, as i64."""
    return b.resize(_ask(b, "xd.block.x"), I64, signed=False)


def _resume(b: FunctionBuilder) -> None:
    after = b.fresh("after")
    b.jump(after)
    b.start_block(after)


def with_definitions(
    text: str, table: Mapping[str, str], target: str, shared_nbytes: int = 0
) -> str:
    """A module with the declarations of primitives replaced by a target's definitions.

    Args:
        text: of the module.
        table: definitions by symbol; ``SHARED_NBYTES`` in one becomes the size of shared memory.
        target: for messages.
        shared_nbytes: static shared memory of a block.

    Raises:
        CompileError: the target has no such primitive.
    """

    def definition(found: re.Match[str]) -> str:
        symbol = found.group(1)
        if symbol not in table:
            raise CompileError(
                f"target {target} has no primitive {symbol}",
                why=f"it has {', '.join(sorted(table))}",
            )
        return table[symbol].strip().replace("SHARED_NBYTES", str(max(shared_nbytes, 1)))

    return _once(_DECLARED.sub(definition, text))


def _once(text: str) -> str:
    """A module without what definitions declare once more."""
    seen: set[str] = set()

    def kept(found: re.Match[str]) -> str:
        line = found.group(0)
        is_new = line not in seen
        seen.add(line)
        return line if is_new else ""

    return re.sub(r"^declare [^\n]*\n", kept, text, flags=re.MULTILINE)
