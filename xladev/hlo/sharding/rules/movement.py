"""Factor rules of opcodes that move elements, and of those that make arrays of nothing."""

from __future__ import annotations

from math import gcd

from xladev.hlo.ir import HloInstruction
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder


def builder(instruction: HloInstruction) -> RuleBuilder:
    """For an instruction whose result is one array."""
    return RuleBuilder([o.shape.rank for o in instruction.operands], [instruction.shape.rank])


def broadcast(i: HloInstruction) -> FactorRule:
    """Mapped dimensions are the operand's; others are the result's alone."""
    (x,) = i.operands
    b = builder(i)
    source = {d: at for at, d in enumerate(i["dimensions"])}
    for d, size in enumerate(i.shape.dims):
        at = source.get(d)
        mapped = at is not None and x.shape.dims[at] == size
        b.factor([at if mapped else None], [d], size)
    return b.build()


def made_of_nothing(i: HloInstruction) -> FactorRule:
    """Constants and iota: any part can be made alone."""
    b = builder(i)
    for d, size in enumerate(i.shape.dims):
        b.factor([], [d], size)
    return b.build()


def transpose(i: HloInstruction) -> FactorRule:
    """Result dimension d is the operand's dimension ``dimensions[d]``."""
    b = builder(i)
    for d, source in enumerate(i["dimensions"]):
        b.factor([source], [d], i.shape.dims[d])
    return b.build()


def reshape(i: HloInstruction) -> FactorRule:
    """Both shapes as products of common factors, outermost first.

    Walks both shapes at once and cuts off the largest outer factor that both have, until they have
    none; what is left of each is needed whole. Dimensions of one element have no factor.
    """
    (x,) = i.operands
    b = builder(i)
    if not x.shape.size:
        return b.build()
    source, target = list(x.shape.dims), list(i.shape.dims)
    at = to = 0
    while at < len(source) and to < len(target):
        if 1 in (source[at], target[to]):
            at, to = at + (source[at] == 1), to + (target[to] == 1)
            continue
        common = gcd(source[at], target[to])
        if common == 1:
            break
        b.factor([at], [to], common)
        source[at] //= common
        target[to] //= common
    for d, size in enumerate(source):
        if size > 1:
            b.factor([d], [None], size, FactorKind.WHOLE)
    for d, size in enumerate(target):
        if size > 1:
            b.factor([None], [d], size, FactorKind.WHOLE)
    return b.build()


def slice_(i: HloInstruction) -> FactorRule:
    """Dimensions taken as they are pass; others move."""
    (x,) = i.operands
    b = builder(i)
    for d, size in enumerate(x.shape.dims):
        same = i.shape.dims[d] == size
        b.factor([d], [d], size, FactorKind.PASS if same else FactorKind.MOVE)
    return b.build()


def pad(i: HloInstruction) -> FactorRule:
    """Dimensions without padding pass; others move."""
    x, _ = i.operands
    b = builder(i)
    for d, size in enumerate(x.shape.dims):
        edge = i["padding"][d]
        same = (edge.low, edge.high, edge.interior) == (0, 0, 0)
        b.factor([d, None], [d], size, FactorKind.PASS if same else FactorKind.MOVE)
    return b.build()


def reverse(i: HloInstruction) -> FactorRule:
    """Turned dimensions move."""
    b = builder(i)
    for d, size in enumerate(i.shape.dims):
        kind = FactorKind.MOVE if d in i["dimensions"] and size > 1 else FactorKind.PASS
        b.factor([d], [d], size, kind)
    return b.build()


def concatenate(i: HloInstruction) -> FactorRule:
    """The joined dimension moves."""
    b = builder(i)
    for d, size in enumerate(i.shape.dims):
        kind = FactorKind.MOVE if d in i["dimensions"] else FactorKind.PASS
        b.factor([d] * len(i.operands), [d], size, kind)
    return b.build()


def dynamic_slice(i: HloInstruction) -> FactorRule:
    """Dimensions taken whole pass; the others are needed whole."""
    x, *starts = i.operands
    b = builder(i)
    none = [None] * len(starts)
    for d, size in enumerate(x.shape.dims):
        same = i.shape.dims[d] == size
        b.factor([d, *none], [d if same else None], size,
                 FactorKind.PASS if same else FactorKind.WHOLE)  # fmt: skip
    return b.build()


def dynamic_update_slice(i: HloInstruction) -> FactorRule:
    """Dimensions pass; along those that are updated in part the update is needed whole."""
    x, update, *starts = i.operands
    b = builder(i)
    none = [None] * len(starts)
    for d, size in enumerate(x.shape.dims):
        same = update.shape.dims[d] == size
        b.factor([d, d if same else None, *none], [d], size)
        if not same:
            b.factor([None, d, *none], [None], update.shape.dims[d], FactorKind.WHOLE)
    return b.build()
