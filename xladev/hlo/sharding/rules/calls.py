"""Factor rules of custom calls."""

from __future__ import annotations


from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.factors import FactorKind, FactorRule, RuleBuilder

_IDENTITIES = frozenset(
    {
        "Sharding", "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier", "MoveToHost",
        "MoveToDevice", "annotate_device_placement", "PinToDevice", "PinToDeviceSram",
        "PinToVmem", "AssumeGatherIndicesInBound", "LayoutConstraint",
    }
)  # fmt: skip


def custom_call(i: HloInstruction) -> FactorRule | None:
    """Rules of the calls whose meaning is known here; None for all others."""
    target: str = i["custom_call_target"]
    if target in _IDENTITIES or target.startswith(("mhlo.", "chlo.")):
        return _same(i)
    if target == "TopK":
        return _leading(i, 1)
    return None


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
