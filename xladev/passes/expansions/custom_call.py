"""custom-call in plain HLO: as its target is registered with, or by the routines known here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls.cusolver import PERMUTATION
from xladev.hlo.custom_calls.registry import known
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.cusolver import CUSOLVER, expand_permutation
from xladev.passes.expansions.emit import begin
from xladev.passes.expansions.lapack import ROUTINES, Routine
from xladev.passes.expansions.top_k_calls import expand_approximate, expand_top_k

_LAPACK_TYPES = (dt.F32, dt.F64, dt.C64, dt.C128)

_DECOMPOSITIONS = MappingProxyType({**ROUTINES, **CUSOLVER})

TARGETS: Mapping[str, Routine] = MappingProxyType(
    {
        **_DECOMPOSITIONS,
        PERMUTATION: expand_permutation,
        "TopK": expand_top_k,
        "mhlo.topk": expand_top_k,
        "chlo.top_k": expand_top_k,
        "ApproxTopK": expand_approximate,
        "PartialReduce": expand_approximate,
    }
)
"""Expansions by target; a target's own, where it was registered with one, comes first."""


def expand_registered(instruction: HloInstruction) -> HloComputation | None:
    """What the registry of custom calls says; None if it says nothing."""
    target = known(instruction["custom_call_target"])
    if target is None or target.expand is None:
        return None
    e, operands = begin(instruction)
    return e.build(target.expand(e, instruction, operands))


def expand_known_target(instruction: HloInstruction) -> HloComputation | None:
    """The expansion of a target of the table; None if it has none for the operands' types."""
    target = instruction["custom_call_target"]
    routine = TARGETS.get(target)
    if routine is None or (target in _DECOMPOSITIONS and not _has_lapack_types(instruction)):
        return None
    e, operands = begin(instruction)
    results = routine(e, instruction, operands)
    return e.build(e.op("tuple", *results) if instruction.shape.is_tuple else results[0])


def _has_lapack_types(instruction: HloInstruction) -> bool:
    """True if the matrix has a type that LAPACK has, and no operand is a float of another."""
    types = [operand.shape.element_type for operand in instruction.operands]
    inexact = [t for t in types if t.is_float or t.is_complex]
    return types[:1] == inexact[:1] and all(t in _LAPACK_TYPES for t in inexact)
