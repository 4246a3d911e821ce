"""Factor rules of reductions, windows, sorts, and of opcodes on matrices and lines."""

from __future__ import annotations

from collections.abc import Collection

from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.reducers import keeps_elements, monoid_of, monoid_opcodes
from xladev.hlo.ops.reduction_parts import ReductionParts
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder


def reduce(i: HloInstruction) -> FactorRule:
    """Kept dimensions pass; reduced ones too, as parts of a sum, if the reducer is known."""
    parts = ReductionParts.of(i)
    count = len(parts.arrays)
    first = parts.arrays[0].shape
    kind = FactorKind.REDUCE if _is_known(parts) else FactorKind.WHOLE
    b = RuleBuilder([o.shape.rank for o in i.operands], [first.rank - len(parts.dims)] * count)
    inits: list[int | None] = [None] * count
    to = 0
    for d, size in enumerate(first.dims):
        if d in parts.dims:
            b.factor([*[d] * count, *inits], inits, size, kind)
        else:
            b.factor([*[d] * count, *inits], [to] * count, size)
            to += 1
    return b.build()


def _is_known(parts: ReductionParts) -> bool:
    """True if parts of a reduction can be combined."""
    reducer = parts.reducer
    if len(parts.arrays) == 1:
        return monoid_of(reducer) is not None
    return bool(monoid_opcodes(reducer)) or keeps_elements(reducer)


def reduce_window(i: HloInstruction) -> FactorRule:
    """Dimensions with a window of one element pass; others move."""
    results = flattened_shapes(i.shape)
    count = len(i.operands) // 2
    first = i.operands[0].shape
    b = RuleBuilder([o.shape.rank for o in i.operands], [s.rank for s in results])
    for d, size in enumerate(first.dims):
        kind = FactorKind.PASS if i["window"][d] == WindowDim(1) else FactorKind.MOVE
        b.factor([d] * count + [None] * count, [d] * len(results), size, kind)
    return b.build()


def select_and_scatter(i: HloInstruction) -> FactorRule:
    """Dimensions with a window of one element pass; others move."""
    x, source, _ = i.operands
    b = RuleBuilder([x.shape.rank, source.shape.rank, 0], [i.shape.rank])
    for d, size in enumerate(x.shape.dims):
        kind = FactorKind.PASS if i["window"][d] == WindowDim(1) else FactorKind.MOVE
        b.factor([d, d, None], [d], size, kind)
    return b.build()


def sort(i: HloInstruction) -> FactorRule:
    """Lines are sorted by themselves."""
    return lines(i, set(i["dimensions"]))


def top_k(i: HloInstruction) -> FactorRule:
    """As a sort along the last dimension."""
    rank = i.operands[0].shape.rank
    return lines(i, {rank - 1}, blocked=True)


def scan(i: HloInstruction) -> FactorRule | None:
    """Not cut: its body is on slices, of a size that it states."""
    return None


def fft(i: HloInstruction) -> FactorRule:
    """Leading dimensions are a batch."""
    rank = i.shape.rank
    return lines(i, set(range(rank - len(i["fft_length"]), rank)), blocked=True)


def matrices(i: HloInstruction) -> FactorRule:
    """Leading dimensions are a batch of matrices."""
    rank = i.operands[0].shape.rank
    return lines(i, {rank - 2, rank - 1}, blocked=True)


def lines(i: HloInstruction, whole: Collection[int], *, blocked: bool = False) -> FactorRule:
    """Some dimensions are needed whole; in all others operands and results agree.

    Operands and results of the same rank as the first take part; others are needed whole.
    """
    first = i.operands[0].shape
    results = flattened_shapes(i.shape)
    b = RuleBuilder([o.shape.rank for o in i.operands], [s.rank for s in results])
    shapes = [o.shape for o in i.operands]
    for d, size in enumerate(first.dims):
        ins = [d if s.rank > d and s.dims[d] == size else None for s in shapes]
        outs = [d if s.rank > d and (d in whole or s.dims[d] == size) else None for s in results]
        kind = FactorKind.WHOLE if d in whole else FactorKind.PASS
        b.factor(ins, outs, size, kind, blocked=blocked and d in whole)
    _rest(b, [s.rank for s in shapes], [s.rank for s in results])
    return b.build()


def _rest(b: RuleBuilder, operands: list[int], results: list[int]) -> None:
    """Dimensions that no factor has."""
    built = b.build()
    for side, tensors in enumerate((built.operands, built.results)):
        for t, tensor in enumerate(tensors):
            for d, factors in enumerate(tensor):
                if factors:
                    continue
                places: list[list[int | None]] = [[None] * len(operands), [None] * len(results)]
                places[side][t] = d
                b.factor(places[0], places[1], 1, FactorKind.WHOLE)
