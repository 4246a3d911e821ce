"""What threads reduce together: in a sub-group by shuffles, in a block through shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import I32, I64, FunctionBuilder, Value, integer
from xladev.codegen.reductions import Reduction
from xladev.codegen.simt.primitives import barrier, shared_memory, shuffle_xor

_SLOT_NBYTES = 8


def slots_nbytes(reductions: int, threads: int, subgroup: int) -> int:
    """Shared memory of `over_block`, for so many reductions in all."""
    return reductions * (threads // subgroup) * _SLOT_NBYTES


def over_subgroup(b: FunctionBuilder, reduction: Reduction, value: Value, width: int) -> Value:
    """What all threads of a sub-group, or of each group of ``width`` in it, have."""
    mask = width // 2
    while mask:
        value = reduction.combine(b, value, shuffled(b, value, mask))
        mask //= 2
    return value


def over_block(
    b: FunctionBuilder,
    reductions: Sequence[Reduction],
    values: Sequence[Value],
    tid: Value,
    threads: int,
    subgroup: int,
    slot: int = 0,
) -> list[Value]:
    """What all sub-groups of a block have of some reductions; every thread has it afterwards.

    Args:
        b: the function of a thread.
        reductions: how values are combined.
        values: of each reduction, what all threads of this sub-group have.
        tid: number of this thread.
        threads: of the block; a power of two of sub-groups, no more than a sub-group has threads.
        subgroup: threads of a sub-group.
        slot: number of reductions whose values are in shared memory already.
    """
    subgroups = threads // subgroup
    row = subgroups * _SLOT_NBYTES
    shared = shared_memory(b)
    stored = [v if v.type.bits >= 8 else b.resize(v, integer(8), signed=False) for v in values]
    with b.when(b.icmp("eq", b.urem(tid, subgroup), 0)):
        own = b.mul(b.udiv(tid, subgroup), _SLOT_NBYTES)
        for n, value in enumerate(stored, slot):
            b.store(value, b.byte_address(shared, b.add(own, n * row)))
    barrier(b)
    other = b.mul(b.urem(tid, subgroups), _SLOT_NBYTES)
    found: list[Value] = []
    for n, (reduction, value) in enumerate(zip(reductions, values, strict=True)):
        place = b.byte_address(shared, b.add(other, (slot + n) * row))
        part = b.load(stored[n].type, place)
        if value.type.bits < 8:
            part = b.resize(part, value.type, signed=False)
        found.append(over_subgroup(b, reduction, part, subgroups))
    return found


def shuffled(b: FunctionBuilder, value: Value, mask: int) -> Value:
    """The value of another thread of the sub-group, through one or two 32-bit exchanges."""
    type_ = value.type
    bits = b.bitcast(value, integer(type_.bits)) if type_.is_float else value
    if type_.bits <= 32:
        other = shuffle_xor(b, b.resize(bits, I32, signed=False), mask)
        narrow = b.resize(other, bits.type, signed=False)
    else:
        low = shuffle_xor(b, b.resize(bits, I32, signed=False), mask)
        high = shuffle_xor(b, b.resize(b.lshr(bits, 32), I32, signed=False), mask)
        wide = b.shl(b.resize(high, I64, signed=False), 32)
        narrow = b.or_(wide, b.resize(low, I64, signed=False))
    return b.bitcast(narrow, type_) if type_.is_float else narrow
