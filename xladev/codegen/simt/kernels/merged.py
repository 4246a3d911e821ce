"""Vectors along a whole array, also where an operand is spread over some of its dimensions.

Neighbouring dimensions that a broadcast treats alike are one to it: of a number for each feature
in ``[batch, feature, height, width]`` all that counts is how far height times width reaches, so
vectors need not end where a row of the image does.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from math import prod
from types import MappingProxyType

from xladev.codegen.elemental.emitter import ElementalEmitter, ElementRule
from xladev.codegen.elemental.vectors import (
    FLAT_RULES,
    FlatEmitter,
    NotInVectorsError,
    VectorEmitter,
    is_row_major,
)
from xladev.codegen.index import Index
from xladev.codegen.scalar.elements import Element
from xladev.hlo.ir import HloInstruction


class MergedEmitter(FlatEmitter):
    """Emits vectors of elements at one row-major position, through broadcasts of any dimensions."""

    def __init__(self, single: ElementalEmitter, lanes: int) -> None:
        VectorEmitter.__init__(self, single, lanes, _RULES)


def _broadcast(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    """The operand at the position that is left when dimensions it has not are taken away."""
    source, mapped = i.operands[0].shape, i["dimensions"]
    if source.size == 1 or source.size == i.shape.size:
        return FLAT_RULES["broadcast"](e, i, index)
    if tuple(sorted(mapped)) != mapped or not (is_row_major(source) and is_row_major(i.shape)):
        raise NotInVectorsError("a broadcast in another order")
    counted = [d for d, n in enumerate(i.shape.dims) if n != 1]
    runs = [
        (kept, prod(i.shape.dims[d] for d in group))
        for kept, group in groupby(counted, lambda d: d in mapped)
    ]
    places = e.at.delinear(index[0], [size for _, size in runs])
    sizes = [size for kept, size in runs if kept]
    strides = [prod(sizes[n + 1 :]) for n in range(len(sizes))]
    own = [place for (kept, _), place in zip(runs, places, strict=True) if kept]
    position = e.at.strided(own, strides)
    if isinstance(e, VectorEmitter) and not e.at.moves(position):
        return e.single(i.operands[0], e.at.delinear(position, source.dims))
    return e.operand(i, 0, (position,))


_RULES: Mapping[str, ElementRule] = MappingProxyType({**FLAT_RULES, "broadcast": _broadcast})
