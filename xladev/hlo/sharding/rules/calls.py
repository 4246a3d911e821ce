"""Factor rules of custom calls."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xladev.hlo.custom_calls.registry import known
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder
from xladev.hlo.sharding.rule_text import read_rule

_IDENTITIES = frozenset(
    {
        "Sharding", "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier", "MoveToHost",
        "MoveToDevice", "annotate_device_placement", "PinToDevice", "PinToDeviceSram",
        "PinToVmem", "AssumeGatherIndicesInBound", "LayoutConstraint",
    }
)  # fmt: skip


SHARDING_RULE = "xla.sdy.sharding_rule"
"""The frontend attribute by which a call says its rule itself."""


def _agreed(rule: FactorRule, i: HloInstruction) -> FactorRule | None:
    """The rule of a call: what operands and results do not all have is needed whole.

    None where it does not fit the shapes.
    """
    shapes = [o.shape for o in i.operands], list(flattened_shapes(i.shape))
    for tensors, side in zip((rule.operands, rule.results), shapes, strict=True):
        if [len(t) for t in tensors] != [s.rank for s in side]:
            return None
        for tensor, shape in zip(tensors, side, strict=True):
            if any(
                prod(rule.sizes[f] for f in d) != n for d, n in zip(tensor, shape.dims, strict=True)
            ):
                return None
    kinds = [
        kind if kind is not FactorKind.PASS or _is_everywhere(rule, f) else FactorKind.WHOLE
        for f, kind in enumerate(rule.kinds)
    ]
    return replace(
        rule, kinds=tuple(FactorKind.WHOLE if k is FactorKind.REDUCE else k for k in kinds)
    )


def _is_everywhere(rule: FactorRule, factor: int) -> bool:
    taken = any(factor in d for tensor in rule.operands for d in tensor)
    return taken and all(any(factor in d for d in tensor) for tensor in rule.results)


def custom_call(i: HloInstruction) -> FactorRule | None:
    """Rules of the calls whose meaning is known here; None for all others."""
    target: str = i["custom_call_target"]
    text = dict(i.note.frontend_attributes).get(SHARDING_RULE)
    if text is not None:
        return _agreed(read_rule(text), i)
    if target in _IDENTITIES or target.startswith(("mhlo.", "chlo.")):
        return _same(i)
    if target == "TopK":
        return _leading(i, 1)
    call = known(target)
    return None if call is None or call.problem_rank is None else _leading(i, call.problem_rank)


def _same(i: HloInstruction) -> FactorRule | None:
    """Elementwise, if all dimensions agree."""
    dims = i.shape.dims if i.shape.is_array else None
    if dims is None or any(o.shape.dims != dims for o in i.operands):
        return None
    b = RuleBuilder([len(dims)] * len(i.operands), [len(dims)])
    for d, size in enumerate(dims):
        b.factor([d] * len(i.operands), [d], size)
    return b.build()


def _leading(i: HloInstruction, inner: int) -> FactorRule | None:
    """Leading dimensions are a batch, of operands and results alike."""
    shapes = [o.shape for o in i.operands]
    results = flattened_shapes(i.shape)
    batch = shapes[0].dims[: shapes[0].rank - inner]
    count = len(batch)
    if any(s.dims[:count] != batch for s in (*shapes, *results)):
        return None
    b = RuleBuilder([s.rank for s in shapes], [s.rank for s in results])
    for d, size in enumerate(batch):
        b.factor([d] * len(shapes), [d] * len(results), size)
    for side, tensors in enumerate((shapes, results)):
        for n, shape in enumerate(tensors):
            for d in range(count, shape.rank):
                places: list[list[int | None]] = [[None] * len(shapes), [None] * len(results)]
                places[side][n] = d
                b.factor(places[0], places[1], shape.dims[d], FactorKind.WHOLE)
    return b.build()
