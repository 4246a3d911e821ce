"""Opcodes that move elements by static rules.

Arrays may be shorter than the instruction's shape in its dynamic dimensions (see `hlo/bounded.py`);
sizes are therefore taken from the operands wherever those have them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.attributes import PadDim, SliceDim, dilated
from xladev.hlo.expense import FREE, MOVE
from xladev.hlo.literal import Array, Value
from xladev.hlo.numerics.casts import convert
from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, Evaluation, InstructionView, OpCall, OpDef
from xladev.hlo.ops import moved, rules
from xladev.hlo.ops.reshaping import reshaped_dynamic
from xladev.hlo.shape import UNBOUNDED, Shape

_DIMENSIONS = Attr("dimensions", AttrKind.INTS, default=(), shown=True)


def _infer_broadcast(call: OpCall) -> Shape:
    rules.require_arrays(call)
    (operand,), result = call.operands, rules.declared_array(call)
    dims = call["dimensions"]
    count = len(dims)
    call.require(
        count == operand.rank, "broadcast_c2", f"{count} dimensions for rank {operand.rank}"
    )
    rules.require_dims_in_range(call, dims, result.rank, "c3")
    for i, d in enumerate(dims):
        same = UNBOUNDED in (operand.dims[i], result.dims[d]) or operand.dims[i] == result.dims[d]
        call.require(same, "broadcast_c4", f"{operand} does not fit {result} at dimension {d}")
        dynamic = operand.is_dynamic_dimension(i), result.is_dynamic_dimension(d)
        call.require(
            dynamic[0] == dynamic[1], "broadcast_c5", f"dimension {d}: only one is dynamic"
        )
    return rules.with_type(result, operand.element_type)


def _evaluate_broadcast(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    return broadcast(operands[0], instruction["dimensions"], instruction.shape.dims)


def broadcast(array: Array, dimensions: Sequence[int], dims: Sequence[int]) -> Array:
    """Dimension i of ``array`` becomes ``dimensions[i]``; it repeats along the rest of ``dims``."""
    live = list(dims)
    for i, d in enumerate(dimensions):
        live[d] = array.shape[i]
    order = sorted(range(array.ndim), key=lambda i: dimensions[i])
    kept = [live[d] if d in dimensions else 1 for d in range(len(dims))]
    return np.broadcast_to(array.transpose(order).reshape(kept), live)


def _infer_reshape(call: OpCall) -> Shape:
    rules.require_arrays(call)
    (operand,), result = call.operands, rules.declared_array(call)
    unknown = UNBOUNDED in operand.dims or UNBOUNDED in result.dims
    call.require(
        unknown or operand.size == result.size,
        "reshape_c2",
        f"{operand.size} elements cannot be {result.size}",
    )
    call.require(
        operand.is_dynamic or not result.is_dynamic,
        "reshape_c3",
        f"{operand} has no dynamic dimension for {result}",
    )
    return rules.with_type(result, operand.element_type)


def _evaluate_reshape(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    (array,), shape = operands, instruction.shape
    if not shape.is_dynamic:
        return array.reshape(shape.dims)
    return array.reshape(reshaped_dynamic(array.shape, instruction.operands[0].shape, shape))


def _infer_transpose(call: OpCall) -> Shape:
    rules.require_arrays(call)
    (operand,) = call.operands
    order = call["dimensions"]
    call.require(
        sorted(order) == list(range(operand.rank)),
        "transpose_c2",
        f"{list(order)} is no permutation of {operand.rank} dimensions",
    )
    flags = [operand.is_dynamic_dimension(d) for d in order]
    return rules.shape_like(operand, (operand.dims[d] for d in order), flags)


def _evaluate_transpose(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    return operands[0].transpose(instruction["dimensions"])


def _infer_reverse(call: OpCall) -> Shape:
    rules.require_arrays(call)
    (operand,) = call.operands
    rules.require_dims_in_range(call, call["dimensions"], operand.rank, "c2")
    return operand.without_layout()


def _evaluate_reverse(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    return np.flip(operands[0], instruction["dimensions"])


def _infer_slice(call: OpCall) -> Shape:
    rules.require_arrays(call)
    (operand,) = call.operands
    parts: tuple[SliceDim, ...] = call["slice"]
    count = len(parts)
    call.require(count == operand.rank, "slice_c2", f"{count} ranges for rank {operand.rank}")
    for d, part in enumerate(parts):
        size = operand.dims[d]
        inside = 0 <= part.start <= part.limit and (part.limit <= size or size == UNBOUNDED)
        call.require(inside, "slice_c3", f"{part.start}:{part.limit} is not inside {operand}")
        call.require(part.stride > 0, "slice_c4", f"stride {part.stride} is not positive")
    dims = [-((p.start - p.limit) // p.stride) for p in parts]
    flags = [operand.is_dynamic_dimension(d) and n != 1 for d, n in enumerate(dims)]
    return rules.shape_like(operand, dims, flags)


def _evaluate_slice(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    parts: tuple[SliceDim, ...] = instruction["slice"]
    return operands[0][tuple(slice(p.start, p.limit, p.stride) for p in parts)]


def padded_size(size: int, pad: PadDim) -> int:
    """Size of a dimension after padding; negative where more is removed than there is."""
    return pad.low + dilated(size, pad.interior + 1) + pad.high


def _infer_pad(call: OpCall) -> Shape:
    rules.require_arrays(call)
    operand, value = call.operands
    pads: tuple[PadDim, ...] = call["padding"]
    call.require(value.is_scalar, "pad_c2", f"padding value {value} is no scalar")
    rules.same_element_type(call, call.operands, "c3")
    count = len(pads)
    call.require(count == operand.rank, "pad_c4", f"{count} paddings for rank {operand.rank}")
    dims: list[int] = []
    for size, pad in zip(operand.dims, pads, strict=True):
        call.require(pad.interior >= 0, "pad_c5", f"interior padding {pad.interior} is under 0")
        padded = UNBOUNDED if size == UNBOUNDED else padded_size(size, pad)
        call.require(padded >= 0 or size == UNBOUNDED, "pad_c6", f"size {size} becomes {padded}")
        dims.append(padded)
    return rules.shape_like(operand, dims, operand.dynamic)


def _evaluate_pad(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    array, value = operands
    return pad(array, value, instruction["padding"])


def pad(array: Array, value: Array, pads: Sequence[PadDim]) -> Array:
    """``array`` with ``value`` between its elements and at its edges."""
    dims = [max(0, padded_size(n, p)) for n, p in zip(array.shape, pads, strict=True)]
    result = np.full(dims, value, array.dtype)
    if array.size == 0:
        return result
    sources, targets = [], []
    for size, limit, p in zip(array.shape, dims, pads, strict=True):
        step = p.interior + 1
        first = max(0, -(p.low // step))
        last = min(size - 1, (limit - 1 - p.low) // step)
        if last < first:
            return result
        sources.append(slice(first, last + 1))
        targets.append(slice(p.low + first * step, p.low + last * step + 1, step))
    result[tuple(targets)] = array[tuple(sources)]
    return result


def _infer_concatenate(call: OpCall) -> Shape:
    rules.require_arrays(call)
    first, axes = call.operands[0], call["dimensions"]
    call.require(len(axes) == 1, "concatenate_c2", f"dimensions {list(axes)} are not one")
    axis = axes[0]
    call.require(0 <= axis < first.rank, "concatenate_c2", f"dimension {axis} of {first}")
    rules.same_element_type(call, call.operands, "c3")
    others = [_with_size(call, s, axis, 0) for s in call.operands]
    merged = rules.merge_dims(call, others, "c4")
    sizes = [s.dims[axis] for s in call.operands]
    dims = list(merged.dims)
    dims[axis] = UNBOUNDED if UNBOUNDED in sizes else sum(sizes)
    return rules.shape_like(merged, dims, merged.dynamic)


def _with_size(call: OpCall, shape: Shape, axis: int, size: int) -> Shape:
    call.require(axis < shape.rank, "concatenate_c4", f"dimension {axis} of {shape}")
    return rules.shape_like(
        shape, (*shape.dims[:axis], size, *shape.dims[axis + 1 :]), shape.dynamic
    )


def _evaluate_concatenate(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation
    return np.concatenate(operands, axis=instruction["dimensions"][0])


def _infer_iota(call: OpCall) -> Shape:
    result, axis = rules.declared_array(call), call["iota_dimension"]
    call.require(0 <= axis < result.rank, "iota_c1", f"dimension {axis} of {result}")
    rules.require_kinds(call, result, rules.NUMBER, "c2")
    return result


def _evaluate_iota(
    evaluation: Evaluation, instruction: InstructionView, operands: tuple[Value, ...]
) -> Value:
    del evaluation, operands
    shape, axis = instruction.shape, instruction["iota_dimension"]
    if not shape.size:
        return np.zeros(shape.dims, shape.element_type.np)
    with np.errstate(all="ignore"):
        counted = convert(np.arange(shape.dims[axis], dtype=np.int64), shape.element_type)
    return broadcast(counted, (axis,), shape.dims)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "broadcast",
        1,
        "Maps operand dimensions to result dimensions and repeats along the rest.",
        attrs=(_DIMENSIONS,),
        infer=_infer_broadcast,
        evaluate=_evaluate_broadcast,
        category="shape",
        expense=FREE,
    ),
    OpDef(
        "reshape",
        1,
        "Same elements in row-major order under other dimensions.",
        attrs=(Attr("inferred_dimension", AttrKind.INT, default=-1, proto="dimensions"),),
        infer=_infer_reshape,
        evaluate=_evaluate_reshape,
        category="shape",
    ),
    OpDef(
        "transpose",
        1,
        "Permutes dimensions.",
        attrs=(_DIMENSIONS,),
        infer=_infer_transpose,
        evaluate=_evaluate_transpose,
        category="shape",
        expense=MOVE,
    ),
    OpDef(
        "reverse",
        1,
        "Flips dimensions.",
        attrs=(_DIMENSIONS,),
        infer=_infer_reverse,
        evaluate=_evaluate_reverse,
        category="shape",
    ),
    OpDef(
        "slice",
        1,
        "Static strided window.",
        attrs=(Attr("slice", AttrKind.SLICE, default=(), proto="slice_dimensions", shown=True),),
        infer=_infer_slice,
        evaluate=_evaluate_slice,
        category="shape",
        moved=moved.result_twice,
    ),
    OpDef(
        "pad",
        2,
        "Edge and interior padding; negative edges remove.",
        attrs=(Attr("padding", AttrKind.PADDING, default=(), proto="padding_config", shown=True),),
        infer=_infer_pad,
        evaluate=_evaluate_pad,
        category="shape",
        expense=MOVE,
    ),
    OpDef(
        "concatenate",
        (1, VARIADIC),
        "Joins along one dimension.",
        attrs=(Attr("dimensions", AttrKind.INTS, required=True),),
        infer=_infer_concatenate,
        evaluate=_evaluate_concatenate,
        category="shape",
        expense=MOVE,
    ),
    OpDef(
        "iota",
        0,
        "Counts along one dimension.",
        attrs=(Attr("iota_dimension", AttrKind.INT, required=True, proto="dimensions"),),
        infer=_infer_iota,
        evaluate=_evaluate_iota,
        category="shape",
        expense=FREE,
    ),
)
