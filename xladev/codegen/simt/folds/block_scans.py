"""What the threads of a block have, accumulated in their order."""

from __future__ import annotations

from xladev.codegen.folds import Fold
from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.codegen.simt.exchanges import WARP, shuffled
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.primitives import barrier, shared_memory

_WARPS = BLOCK // WARP


def block_scan_nbytes(fold: Fold) -> int:
    """Shared memory of `block_scan`."""
    return _WARPS * max(1, fold.dtype.host_nbytes)


def block_scan(b: FunctionBuilder, fold: Fold, value: Value, tid: Value) -> tuple[Value, Value]:
    """What all threads before this one have, and what all of the block have.

    Args:
        b: the function of a thread, to which all threads of the block come.
        fold: how values are combined.
        value: what this thread has.
        tid: its number.
    """
    earlier, total = _warp_scan(b, fold, value, tid)
    warp = b.udiv(tid, WARP)
    shared = shared_memory(b)
    with b.when(b.icmp("eq", b.urem(tid, WARP), 0)):
        store_element(b, shared, warp, fold.dtype, total)
    barrier(b)
    before, whole = fold.start(1), fold.start(1)
    for number in range(_WARPS):
        of_warp = real_of(load_element(b, shared, number, fold.dtype), "a total")
        whole = of_warp if number == 0 else fold.combine(b, whole, of_warp)
        if number + 1 < _WARPS:
            before = b.select(b.icmp("ugt", warp, number), whole, before)
    barrier(b)  # before the slots are used again
    return fold.combine(b, before, earlier), whole


def _warp_scan(b: FunctionBuilder, fold: Fold, value: Value, tid: Value) -> tuple[Value, Value]:
    """As `block_scan`, of a warp: neighbours, then pairs of neighbours, and so on.

    In each step a thread learns what the other half of its group has; the upper half comes after
    the lower one.
    """
    earlier, total = fold.start(1), value
    mask = 1
    while mask < WARP:
        other = shuffled(b, total, mask)
        is_upper = b.icmp("ne", b.and_(tid, mask), 0)
        earlier = b.select(is_upper, fold.combine(b, other, earlier), earlier)
        lower, upper = b.select(is_upper, other, total), b.select(is_upper, total, other)
        total = fold.combine(b, lower, upper)
        mask *= 2
    return earlier, total
