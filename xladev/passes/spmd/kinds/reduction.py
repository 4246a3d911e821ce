"""Sums of which each device makes a part: products and reductions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.ops.reducers import keeps_elements, monoid_of, monoid_opcodes
from xladev.hlo.shape import tuple_of
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.factors import FactorRule
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.expansions.emit import binary_computation
from xladev.passes.spmd.local_builder import has_zero, identity_of
from xladev.passes.spmd.operation import Operation, local_note


def product(o: Operation) -> HloInstruction:
    """As the opcode, on operands whose padding adds nothing to sums."""
    return o.local(masked_factors(o))


def masked_factors(o: Operation) -> list[HloInstruction]:
    """Operands with zeros for padding, since zero times NaN is NaN; ones in types without zero."""
    types = [operand.shape.element_type for operand in o.operands]
    return [o.masked(n, int(not has_zero(t))) for n, t in enumerate(types)]


def may_multiply(i: HloInstruction, _: FactorRule, __: int, ___: Atoms, ____: Grid) -> bool:
    """True if padding of one of the factors can be zero, and so can parts of a sum."""
    factors = (o.shape.element_type for o in i.operands[:2])
    return has_zero(i.shape.element_type) and any(map(has_zero, factors))


def may_add(i: HloInstruction, _: FactorRule, __: int, ___: Atoms, ____: Grid) -> bool:
    """True if what a device has not can be zero."""
    return has_zero(i.shape.element_type)


def reduce(o: Operation) -> HloInstruction:
    """The reducer's identity for padding; the initial value takes part once, in the end."""
    i = o.instruction
    if not o.division.partial:
        return o.local()
    if len(o.operands) > 2:
        return _reduce_several(o)
    neutral = identity_of(i["to_apply"].root.opcode, i.shape.element_type)
    assert neutral is not None
    start = o.b.scalar(neutral, i.shape.element_type)
    return o.local([o.masked(0, neutral), start])


def _reduce_several(o: Operation) -> HloInstruction:
    """Padding is what each part begins with: it changes nothing, or takes part in the end too."""
    count = len(o.operands) // 2
    starts = _starts(o)
    arrays = [o.masked(n, start) for n, start in enumerate(starts)]
    return o.local([*arrays[:count], *starts])


def _starts(o: Operation) -> list[HloInstruction]:
    """Identities; where results are elements, the initial values, which may take part often."""
    count = len(o.operands) // 2
    inits = o.operands[count:]
    found = []
    for opcode, init in zip(monoid_opcodes(o.instruction["to_apply"]), inits, strict=False):
        neutral = identity_of(opcode, init.shape.element_type)
        assert neutral is not None
        found.append(o.b.scalar(neutral, init.shape.element_type))
    return found or list(inits)


def combined(o: Operation, parts: Sequence[HloInstruction]) -> HloInstruction:
    """The results of a reduction of several arrays: what all devices found, reduced in order."""
    i, b = o.instruction, o.b
    gathered = []
    for part in parts:
        row = b.reshape(part, (1, *part.shape.dims))
        gathered.append(b.all_gather(row, o.grid, o.division.partial, 0))
    inits = o.operands[len(parts) :]
    shape = tuple_of(*(part.shape for part in parts))
    attrs = {**i.attrs, "dimensions": (0,)}
    return b.append(HloInstruction(i.op, shape, (*gathered, *inits), attrs, i.name, local_note(i)))


def with_init(o: Operation, total: HloInstruction, kept: Atoms) -> HloInstruction:
    """Combines the initial value of a reduction with the total, once.

    Args:
        o: the reduction.
        total: of the devices that are added up.
        kept: atoms along which sums are kept apart: the first one has the initial value.
    """
    i = o.instruction
    body = i["to_apply"]
    neutral = identity_of(body.root.opcode, i.shape.element_type)
    init = i.operands[1]
    if init.opcode == "constant" and neutral is not None:
        value = np.asarray(neutral).astype(i.shape.element_type.np)
        if np.array_equal(np.asarray(init["literal"].value), value):
            return total
    start = o.operands[1]
    if kept:
        is_first = o.b.compare("EQ", o.b.chosen(o.grid.index(kept)), 0)
        start = o.b.op("select", is_first, start, o.b.scalar(0, start.shape.element_type))
    spread = o.b.broadcast(start, total.shape.dims, ())
    return o.b.op(body.root.opcode, spread, total)


def kept_apart(o: Operation, wanted: AxisSharding | None) -> Atoms:
    """Atoms along which a result is wanted as a sum that nobody adds up."""
    if wanted is None or wanted.grid != o.grid:
        return ()
    if reducer_of(o.instruction).root.opcode != "add":
        return ()
    return tuple(a for a in wanted.unreduced if a in o.division.partial)


def may_reduce(i: HloInstruction, _: FactorRule, __: int, ___: Atoms, ____: Grid) -> bool:
    """True if the reducer has an identity, or initial values may take part several times."""
    body = i["to_apply"]
    if len(i.operands) > 2:
        types = [o.shape.element_type for o in i.operands[: len(i.operands) // 2]]
        found = [identity_of(*p) for p in zip(monoid_opcodes(body), types, strict=False)]
        return None not in found if found else keeps_elements(body)
    known = monoid_of(body)
    return known is not None and identity_of(body.root.opcode, i.shape.element_type) is not None


def reducer_of(i: HloInstruction) -> HloComputation:
    """What adds up the parts of an instruction's result."""
    if i.opcode in ("reduce", "scatter"):
        computation: HloComputation = i["to_apply"]
        return computation
    return binary_computation("add", i.shape.element_type)
