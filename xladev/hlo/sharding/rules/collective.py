"""Factor rules of collectives that the program has itself, in manual regions."""

from __future__ import annotations

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder


def elementwise(i: HloInstruction) -> FactorRule | None:
    """Each operand goes with its result, all dimensions passing."""
    if i.opcode == "collective-permute" and i["slice_sizes"]:
        return None
    if i.opcode == "collective-broadcast" and i["has_dynamic_root"]:
        return None
    return _pairs(i, frozenset())


def along_dimension(i: HloInstruction) -> FactorRule | None:
    """The dimension that is gathered, scattered or exchanged is needed whole."""
    dims = i["dimensions"]
    return _pairs(i, frozenset(dims)) if dims else None


def _pairs(i: HloInstruction, whole: frozenset[int]) -> FactorRule:
    results = flattened_shapes(i.shape)
    shapes = [o.shape for o in i.operands]
    b = RuleBuilder([s.rank for s in shapes], [s.rank for s in results])
    for n, shape in enumerate(shapes):
        for d, size in enumerate(shape.dims):
            place = [d if m == n else None for m in range(len(shapes))]
            kind = FactorKind.WHOLE if d in whole else FactorKind.PASS
            b.factor(place, place, size, kind)
    return b.build()
