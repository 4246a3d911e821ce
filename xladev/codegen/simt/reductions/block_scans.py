"""What the threads of a block have, accumulated in their order."""

from __future__ import annotations

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.reductions import Reduction
from xladev.codegen.scalar.elements import real_of
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.codegen.simt.exchanges import shuffled
from xladev.codegen.simt.launch_plan import BLOCK
from xladev.codegen.simt.primitives import barrier, shared_memory


def block_scan_nbytes(reduction: Reduction, subgroup: int) -> int:
    """Shared memory of `block_scan`."""
    return BLOCK // subgroup * max(1, reduction.dtype.host_nbytes)


def block_scan(
    b: FunctionBuilder, reduction: Reduction, value: Value, tid: Value, subgroup: int
) -> tuple[Value, Value]:
    """What all threads before this one have, and what all of the block have.

    Args:
        b: the function of a thread, to which all threads of the block come.
        reduction: how values are combined.
        value: what this thread has.
        tid: its number.
        subgroup: threads of a sub-group.
    """
    earlier, total = _subgroup_scan(b, reduction, value, tid, subgroup)
    own, subgroups = b.udiv(tid, subgroup), BLOCK // subgroup
    shared = shared_memory(b)
    with b.when(b.icmp("eq", b.urem(tid, subgroup), 0)):
        store_element(b, shared, own, reduction.dtype, total)
    barrier(b)
    before, whole = reduction.start(1), reduction.start(1)
    for number in range(subgroups):
        part = real_of(load_element(b, shared, number, reduction.dtype), "a total")
        whole = part if number == 0 else reduction.combine(b, whole, part)
        if number + 1 < subgroups:
            before = b.select(b.icmp("ugt", own, number), whole, before)
    barrier(b)  # before the slots are used again
    return reduction.combine(b, before, earlier), whole


def _subgroup_scan(
    b: FunctionBuilder, reduction: Reduction, value: Value, tid: Value, subgroup: int
) -> tuple[Value, Value]:
    """As `block_scan`, of a sub-group: neighbours, then pairs of neighbours, and so on.

    In each step a thread learns what the other half of its group has; the upper half comes after
    the lower one.
    """
    earlier, total = reduction.start(1), value
    mask = 1
    while mask < subgroup:
        other = shuffled(b, total, mask)
        is_upper = b.icmp("ne", b.and_(tid, mask), 0)
        earlier = b.select(is_upper, reduction.combine(b, other, earlier), earlier)
        lower, upper = b.select(is_upper, other, total), b.select(is_upper, total, other)
        total = reduction.combine(b, lower, upper)
        mask *= 2
    return earlier, total
