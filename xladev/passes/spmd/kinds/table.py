"""The code for each opcode that needs more than the same opcode on parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.hlo.ir import HloInstruction
from xladev.hlo.sharding.factors import FactorKind, FactorRule
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.hlo.sharding.rules import contraction
from xladev.hlo.sharding.rules import indexing as rules
from xladev.hlo.sharding.rules.table import factor_rule
from xladev.passes.spmd.kinds import convolutions, indexing, movement, reduction, top_k, windows
from xladev.passes.spmd.kinds.counted import counted_dims
from xladev.passes.spmd.operation import Emit, MayCut, Operation


def division_rule(i: HloInstruction) -> FactorRule | None:
    """The factors that an instruction may be cut along.

    They are those along which shardings spread, what counting index vectors make one, and those
    that only convolutions of some forms, and the choice of the largest, have.
    """
    if i.opcode in _BY_VECTORS and (rule := factor_rule(i)) is not None:
        counted = counted_dims(i)
        return _BY_VECTORS[i.opcode](i, counted) if counted else rule
    if i.opcode == "convolution" and factor_rule(i) is not None:
        return contraction.divided_convolution(i)
    if top_k.is_top_k(i) and factor_rule(i) is not None:
        return top_k.rule(i)
    return factor_rule(i)


_BY_VECTORS: Mapping[str, Callable[[HloInstruction, Mapping[int, int]], FactorRule]] = (
    MappingProxyType({"gather": rules.gather, "scatter": rules.scatter})
)


def same(o: Operation) -> HloInstruction:
    """The same opcode on parts."""
    return o.local()


EMIT: Mapping[str, Emit] = MappingProxyType(
    {
        "constant": movement.constant,
        "iota": movement.iota,
        "slice": windows.slice_,
        "pad": windows.pad,
        "reverse": windows.reverse,
        "concatenate": windows.concatenate,
        "reduce-window": windows.reduce_window,
        "dynamic-slice": movement.dynamic_slice,
        "dynamic-update-slice": movement.dynamic_update_slice,
        "custom-call": movement.custom_call,
        "dot": reduction.product,
        "scaled-dot": reduction.product,
        "convolution": convolutions.convolution,
        "reduce": reduction.reduce,
        "gather": indexing.gather,
        "scatter": indexing.scatter,
    }
)
"""By opcode; `same` for all others."""


COMBINED: Mapping[str, Callable[[Operation, Sequence[HloInstruction]], HloInstruction]] = (
    MappingProxyType(
        {
            "reduce": reduction.combined,
            "topk": top_k.combined,
            "custom-call": top_k.combined,
        }
    )
)
"""What makes results of several arrays of what each device found."""


_REDUCTIONS: Mapping[str, MayCut] = MappingProxyType(
    {
        "dot": reduction.may_multiply,
        "scaled-dot": reduction.may_multiply,
        "convolution": convolutions.may_cut,
        "gather": reduction.may_add,
        "reduce": reduction.may_reduce,
        "scatter": indexing.may_scatter,
        "topk": top_k.may_cut,
        "custom-call": top_k.may_cut,
    }
)


def may_cut(i: HloInstruction, rule: FactorRule, factor: int, atoms: Atoms, grid: Grid) -> bool:
    """True if there is code for an instruction one of whose factors is cut along atoms."""
    kind = rule.kinds[factor]
    if kind is FactorKind.PASS:
        return True
    if kind is FactorKind.REDUCE:
        ask = _REDUCTIONS.get(i.opcode)
        return ask is not None and ask(i, rule, factor, atoms, grid)
    return kind is FactorKind.MOVE and windows.may_move(i, rule, factor, atoms, grid)
