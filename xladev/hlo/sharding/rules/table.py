"""The factor rule of each opcode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder
from xladev.hlo.sharding.rules import calls, collective, contraction, indexing, movement, reduction

Rule = Callable[[HloInstruction], FactorRule | None]


def elementwise(i: HloInstruction) -> FactorRule:
    """All dimensions pass; scalars among arrays have none."""
    results = flattened_shapes(i.shape)
    rank = results[0].rank
    b = RuleBuilder([o.shape.rank for o in i.operands], [rank] * len(results))
    for d, size in enumerate(results[0].dims):
        b.factor([d if o.shape.rank else None for o in i.operands], [d] * len(results), size)
    return b.build()


def bitcast_convert(i: HloInstruction) -> FactorRule:
    """As elementwise; a last dimension that holds the pieces of one element is needed whole."""
    operand, result = i.operands[0].shape, i.shape
    b = RuleBuilder([operand.rank], [result.rank])
    for d in range(max(operand.rank, result.rank)):
        places = [d if d < rank else None for rank in (operand.rank, result.rank)]
        size = (result if d < result.rank else operand).dims[d]
        kind = FactorKind.WHOLE if None in places else FactorKind.PASS
        b.factor(places[:1], places[1:], size, kind)
    return b.build()


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "broadcast": movement.broadcast,
        "iota": movement.made_of_nothing,
        "constant": movement.made_of_nothing,
        "transpose": movement.transpose,
        "reshape": movement.reshape,
        "copy": elementwise,
        "bitcast-convert": bitcast_convert,
        "slice": movement.slice_,
        "pad": movement.pad,
        "reverse": movement.reverse,
        "concatenate": movement.concatenate,
        "dynamic-slice": movement.dynamic_slice,
        "dynamic-update-slice": movement.dynamic_update_slice,
        "gather": indexing.gather,
        "scatter": indexing.scatter,
        "dot": contraction.dot,
        "scaled-dot": contraction.scaled_dot,
        "convolution": contraction.convolution,
        "reduce": reduction.reduce,
        "reduce-window": reduction.reduce_window,
        "select-and-scatter": reduction.select_and_scatter,
        "sort": reduction.sort,
        "topk": reduction.top_k,
        "fft": reduction.fft,
        "cholesky": reduction.matrices,
        "triangular-solve": reduction.matrices,
        "map": elementwise,
        "custom-call": calls.custom_call,
        "all-reduce": collective.elementwise,
        "collective-permute": collective.elementwise,
        "collective-broadcast": collective.elementwise,
        "all-gather": collective.along_dimension,
        "reduce-scatter": collective.along_dimension,
        "all-to-all": collective.along_dimension,
    }
)
"""Rules by opcode; elementwise opcodes have `elementwise`."""

WHOLE: Mapping[str, str] = MappingProxyType(
    {
        "ragged-dot": "groups lie anywhere along the rows",
        "scan": "its body is on slices whose sizes it states",
        "bitcast": "what it means depends on layouts",
        "batch-norm-training": "computed whole; frameworks write its parts",
        "batch-norm-inference": "computed whole; frameworks write its parts",
        "batch-norm-grad": "computed whole; frameworks write its parts",
        "rng": "numbers must not depend on how many devices there are",
        "rng-bit-generator": "bits must not depend on how many devices there are",
        "rng-get-and-update-state": "one state on all devices",
        "fusion": "made by a compiler, behind the partitioner",
        "shuffle": "elements go round along its dimensions",
        "ragged-all-to-all": "parts lie anywhere",
        "collective-reduce": "its result is unspecified but at the root",
        "dynamic-reshape": "sizes are known at run time only",
        "get-dimension-size": "a scalar",
        "set-dimension-size": "sizes are known at run time only",
        "replica-id": "a scalar",
        "partition-id": "a scalar",
    }
)
"""Opcodes that every device computes whole, and why."""

STRUCTURE = frozenset(
    {
        "parameter", "tuple", "get-tuple-element", "while", "conditional", "call", "opt-barrier",
        "after-all", "add-dependency", "domain",
    }
)  # fmt: skip
"""Opcodes that pass values on."""

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("infeed", "outfeed", "send", "send-done", "recv", "recv-done"),
            "it is not known which device the transfer is for",
        ),
        **dict.fromkeys(
            (
                "async-start", "async-update", "async-done", "copy-start", "copy-done",
                "all-gather-start", "all-gather-done", "all-reduce-start", "all-reduce-done",
                "collective-permute-start", "collective-permute-done",
            ),
            "the program was scheduled before it was partitioned",
        ),
    }
)  # fmt: skip
"""Opcodes that a program to be partitioned must not have, and why."""


def factor_rule(i: HloInstruction) -> FactorRule | None:
    """The factors of an instruction; None if every device needs, and gives, everything.

    Arrays of dynamic shape are never cut.
    """
    rule = RULES.get(i.opcode) or (elementwise if i.op.elementwise else None)
    shapes = (*flattened_shapes(i.shape), *(o.shape for o in i.operands))
    if rule is None or any(s.is_dynamic or s.is_tuple for s in shapes):
        return None
    return rule(i)
