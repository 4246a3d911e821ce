"""Operations on sums that nobody has added up: what is linear is done to each summand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xladev.hlo.dtype import PRED
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.sharding.grid import Atoms
from xladev.passes.spmd.choice import Division, Wanted

_ALL = frozenset(range(64))
_LINEAR: Mapping[str, frozenset[int]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "add", "subtract", "negate", "copy", "reshape", "transpose", "broadcast", "slice",
                "concatenate", "pad", "reverse",
            ),
            _ALL,
        ),
        **dict.fromkeys(("dynamic-slice", "gather"), frozenset({0})),
        "dynamic-update-slice": frozenset({0, 1}),
        "select": frozenset({1, 2}),
    }
)  # fmt: skip
"""Operands in which an opcode is linear, all of them together.

Quotients are not among them: a summand of zero, divided by zero, is a NaN.
"""
_BILINEAR = frozenset({"dot", "multiply"})


@dataclass(frozen=True, slots=True)
class KeptApart:
    """Along which atoms the operands, and so the result, stay sums.

    Attributes:
        atoms: along which.
        operands: numbers of those that are sums.
    """

    atoms: Atoms = ()
    operands: frozenset[int] = frozenset()


NOTHING = KeptApart()


def summands_kept(
    i: HloInstruction, given: Sequence[Wanted], division: Division, wanted: Sequence[Wanted]
) -> KeptApart:
    """Which sums an instruction leaves as they are, since its result is wanted as a sum.

    Args:
        i: the instruction.
        given: how its operands are cut.
        division: how it is divided.
        wanted: how its results are wanted.
    """
    target = wanted[0] if len(wanted) == 1 else None
    if target is None or target.grid != division.results[0].grid:
        return NOTHING
    used = {a for atoms in division.factors for a in atoms}
    rest = tuple(a for a in target.unreduced if a not in used)
    operands = _operands(i, given, rest) if rest else frozenset[int]()
    return KeptApart(rest, operands) if operands else NOTHING


def _operands(i: HloInstruction, given: Sequence[Wanted], atoms: Atoms) -> frozenset[int]:
    if i.opcode in _LINEAR and i.shape.element_type is not PRED:
        return _LINEAR[i.opcode] & frozenset(range(len(i.operands)))
    sums = [n for n, cut in enumerate(given) if cut and {*atoms} <= {*cut.unreduced}]
    if i.opcode in _BILINEAR and len(sums) == 1 and len(i.operands) == 2:
        return frozenset(sums)
    if i.opcode == "convert" and _is_float(i) and _is_float(i.operands[0]):
        return frozenset({0})
    is_sum = i.opcode == "reduce" and len(i.operands) == 2 and _adds(i)
    return frozenset({0, 1}) if is_sum else frozenset()


def _adds(i: HloInstruction) -> bool:
    return monoid_of(i["to_apply"]) is not None and i["to_apply"].root.opcode == "add"


def _is_float(i: HloInstruction) -> bool:
    return i.shape.element_type.is_float
