"""What instructions that move elements do to each dimension: which of them could be one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

from xladev.hlo.attributes import PadDim, SliceDim, WindowDim
from xladev.hlo.ir import HloInstruction

Groups = Sequence[Sequence[int]]
LANES = 64
"""A multiple of the elements of all vectors."""
_WHOLE = WindowDim(1)


@dataclass(frozen=True, slots=True)
class Touched:
    """An instruction whose result and arrays have the same dimensions, of maybe other sizes.

    Attributes:
        arrays: its operands that have these dimensions.
        dims: the dimensions that it does not leave as they are.
        stretches: true if it does to one of them together with those that follow, which it leaves
            alone, what it does to the one.
    """

    arrays: tuple[HloInstruction, ...]
    dims: frozenset[int]
    stretches: bool = False

    def may_merge(self, d: int) -> bool:
        """Whether a dimension and the next may be one."""
        return d + 1 not in self.dims and (self.stretches or d not in self.dims)


def touched(i: HloInstruction) -> Touched | None:
    """What an instruction does to dimensions; None for those that are not known."""
    dims = range(i.shape.rank)
    match i.opcode:
        case "concatenate":
            (d,) = i["dimensions"]
            ends = accumulate(o.shape.dims[d] for o in i.operands)
            return Touched(i.operands, frozenset((d,)), _in_whole_vectors(i, d, ends))
        case "reverse":
            return Touched(i.operands, frozenset(i["dimensions"]))
        case "slice":
            whole = [SliceDim(0, n) for n in i.operands[0].shape.dims]
            found = {d: i["slice"][d] for d in dims if i["slice"][d] != whole[d]}
            return Touched(i.operands, frozenset(found), all(s.stride == 1 for s in found.values()))
        case "pad":
            padded = {d: i["padding"][d] for d in dims if i["padding"][d] != PadDim(0, 0)}
            sizes = i.operands[0].shape.dims
            stretches = all(
                not p.interior and _in_whole_vectors(i, d, (p.low, p.low + sizes[d]))
                for d, p in padded.items()
            )
            return Touched(i.operands[:1], frozenset(padded), stretches)
        case "dynamic-slice":
            sizes, source = i["dynamic_slice_sizes"], i.operands[0].shape.dims
            cut = frozenset(d for d in dims if sizes[d] != source[d])
            is_each = len(i.operands) == 1 + len(sizes)
            return Touched(i.operands[:1], cut) if is_each else None
        case "reduce-window" if i.shape.is_array:
            return Touched(i.operands[:1], frozenset(d for d in dims if i["window"][d] != _WHOLE))
    return None


def _in_whole_vectors(i: HloInstruction, d: int, places: Iterable[int]) -> bool:
    """True if no vector has elements from both sides of a place, were the dimensions behind one."""
    behind = prod(i.shape.dims[d + 1 :])
    return all(place * behind % LANES == 0 for place in places)


def merged_attributes(i: HloInstruction, groups: Groups) -> Mapping[str, Any]:
    """The attributes of an instruction that `touched` knows, for merged dimensions."""
    attrs = dict(i.attrs)
    match i.opcode:
        case "concatenate" | "reverse":
            place = {d: number for number, group in enumerate(groups) for d in group}
            attrs["dimensions"] = tuple(dict.fromkeys(place[d] for d in i["dimensions"]))
        case "slice":
            spans, sizes = i["slice"], i.operands[0].shape.dims
            attrs["slice"] = tuple(
                SliceDim(spans[g[0]].start * n, spans[g[0]].limit * n, spans[g[0]].stride)
                for g in groups
                for n in (prod(sizes[d] for d in g[1:]),)
            )
        case "pad":
            pads, sizes = i["padding"], i.shape.dims
            attrs["padding"] = tuple(
                PadDim(pads[g[0]].low * n, pads[g[0]].high * n, pads[g[0]].interior)
                for g in groups
                for n in (prod(sizes[d] for d in g[1:]),)
            )
        case "dynamic-slice":
            sizes = i["dynamic_slice_sizes"]
            attrs["dynamic_slice_sizes"] = tuple(prod(sizes[d] for d in g) for g in groups)
        case "reduce-window":
            attrs["window"] = tuple(i["window"][g[0]] for g in groups)
    return attrs


def merged_operands(
    i: HloInstruction, operands: Sequence[HloInstruction], groups: Groups
) -> tuple[HloInstruction, ...]:
    """The operands for merged dimensions: a dynamic slice has one start for each."""
    if i.opcode != "dynamic-slice":
        return tuple(operands)
    return (operands[0], *(operands[1 + g[0]] for g in groups))
