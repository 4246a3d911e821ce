"""Custom calls that ask for the largest elements, exactly or about, as topk or sorts."""

from __future__ import annotations

from xladev.hlo.custom_calls.backend_config import config_of
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import Emitter, Values


def expand_top_k(e: Emitter, call: HloInstruction, operands: Values) -> Values:
    """Values and indices of the largest elements of the last dimension."""
    k = call.shape.tuple_shapes[0].dims[-1]
    values, indices = e.parts(e.op("topk", operands[0], k=k, largest=True, is_stable=True))
    return values, e.convert(indices, call.shape.tuple_shapes[1].element_type)


def expand_approximate(e: Emitter, call: HloInstruction, operands: Values) -> Values:
    """The first elements along ``reduction_dim`` in the order of the comparator."""
    arrays = operands[: len(operands) // 2]
    axis = int(config_of(call).get("reduction_dim", arrays[0].shape.rank - 1))
    comparator: HloComputation = call["to_apply"] or tuple(call["called_computations"])[0]
    made = e.op("sort", *arrays, dimensions=(axis,), is_stable=True, to_apply=comparator)
    shapes = call.shape.tuple_shapes or (call.shape,)
    parts = e.parts(made) if len(arrays) > 1 else [made]
    return [e.slice_in(x, axis, 0, s.dims[axis]) for x, s in zip(parts, shapes, strict=True)]
