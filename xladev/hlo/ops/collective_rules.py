"""Shape rules of collectives."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation
from xladev.hlo.opdef import OpCall
from xladev.hlo.ops.dimension_rules import (
    convertible,
    one_or_tuple,
    parts_of,
    require_array,
    require_axes,
)
from xladev.hlo.ops.groups import check_groups
from xladev.hlo.ops.rules import constraint
from xladev.hlo.shape import UNBOUNDED, Shape, array


def infer_all_gather(call: OpCall) -> Shape:
    """Operands, with the gathered dimension times the size of a group.

    Raises:
        ShapeError: ``all_gather_c1`` dimension, ``_c6`` result; and `check_groups`.
    """
    size = check_groups(call, equal=True)
    return one_or_tuple([_scaled(call, at, size, grow=True) for at in range(len(call.operands))])


def infer_reduce_scatter(call: OpCall) -> Shape:
    """Operands, with the scattered dimension divided by the size of a group.

    Raises:
        ShapeError: ``reduce_scatter_c1`` divisible dimension, ``_c2`` dimension in range, ``_c7``
            reducer, ``_c6`` result; and `check_groups`.
    """
    size = check_groups(call, equal=True)
    _check_reducer(call)
    return one_or_tuple([_scaled(call, at, size, grow=False) for at in range(len(call.operands))])


def _scaled(call: OpCall, at: int, size: int | None, *, grow: bool) -> Shape:
    name, operand = call.op.name.replace("-", "_"), call.operands[at]
    require_array(call, at)
    call.require(len(call["dimensions"]) == 1, f"{name}_c1", "there must be one dimension")
    require_axes(call, "dimensions", call["dimensions"], operand.rank, f"{name}_c1")
    (axis,) = call["dimensions"]
    factor = size if size is not None else _declared_factor(call, at, axis, grow=grow)
    if not grow and operand.dims[axis] % factor:
        call.fail(f"{name}_c1", f"{operand.dims[axis]} elements do not make {factor} parts")
    extent = operand.dims[axis]
    if extent != UNBOUNDED:
        extent = extent * factor if grow else extent // factor
    dims = (*operand.dims[:axis], extent, *operand.dims[axis + 1 :])
    return array(operand.element_type, dims, dynamic=operand.dynamic)


def _declared_factor(call: OpCall, at: int, axis: int, *, grow: bool) -> int:
    """Size of a group as it follows from the declared result; 1 where nothing is declared."""
    if call.declared is None:
        return 1
    parts = parts_of(call.declared)
    if at >= len(parts) or parts[at].rank != call.operands[at].rank:
        call.fail(constraint(call, "c6"), f"the result {call.declared} does not fit the operands")
    operand, result = call.operands[at].dims[axis], parts[at].dims[axis]
    small, large = (operand, result) if grow else (result, operand)
    if small <= 0 or not large or large % small:
        return 1
    return large // small


def _check_reducer(call: OpCall) -> None:
    reducer: HloComputation = call["to_apply"]
    parameters, root = [p.shape for p in reducer.parameters], reducer.root.shape
    scalars = len(parameters) == 2 and all(shape.is_scalar for shape in (*parameters, root))
    what = f"reducer {reducer.name} must take two scalars and give one"
    call.require(scalars, constraint(call, "c7"), what)
    for shape in (*parameters, *_data(call)):
        if not convertible(shape.element_type, root.element_type):
            what = f"reducer {reducer.name} gives {root}, which does not fit {shape}"
            call.fail(constraint(call, "c7"), what)


def infer_all_reduce(call: OpCall) -> Shape:
    """Shapes of the operands.

    Raises:
        ShapeError: ``<op>_c7`` reducer; and `check_groups`.
    """
    check_groups(call, equal=False)
    result = _same(call, _data(call))
    _check_reducer(call)
    return result


def infer_broadcast(call: OpCall) -> Shape:
    """Shapes of the operands, without the dynamic root."""
    check_groups(call, equal=False)
    return _same(call, _data(call))


def _data(call: OpCall) -> Sequence[Shape]:
    """Operands that carry data: all, or all but the roots that follow them.

    Raises:
        ShapeError: ``<op>_c8``: the roots are not s32.
    """
    if not ("has_dynamic_root" in call.op.by_name and call["has_dynamic_root"]):
        return call.operands
    roots = call.operands[-1]
    integers = len(call.operands) > 1 and roots.element_type is dt.S32
    call.require(integers, constraint(call, "c8"), "the last operand must hold the roots, as s32")
    return call.operands[:-1]


def _same(call: OpCall, shapes: Sequence[Shape]) -> Shape:
    require_array(call, *range(len(shapes)))
    return one_or_tuple([shape.without_layout() for shape in shapes])


def infer_all_to_all(call: OpCall) -> Shape:
    """Shape of the only operand, cut along ``dimensions``; or of one operand per group member.

    Raises:
        ShapeError: ``all_to_all_c1`` dimension, ``_c2`` divisible, ``_c3`` operands per member,
            ``_c4`` equal operands; and `check_groups`.
    """
    size = check_groups(call, equal=True)
    require_array(call)
    if not call["dimensions"]:
        return _tuple_exchange(call, size)
    call.require(len(call.operands) == 1, "all_to_all_c3", "dimensions go with one operand")
    call.require(len(call["dimensions"]) == 1, "all_to_all_c1", "there must be one dimension")
    operand = call.operands[0]
    require_axes(call, "dimensions", call["dimensions"], operand.rank, "all_to_all_c1")
    extent = operand.dims[call["dimensions"][0]]
    divides = size is None or extent == UNBOUNDED or extent % size == 0
    call.require(divides, "all_to_all_c2", f"{extent} elements do not make {size} parts")
    return operand.without_layout()


def _tuple_exchange(call: OpCall, size: int | None) -> Shape:
    fits = size is None or len(call.operands) == size
    call.require(fits, "all_to_all_c3", "there must be one operand per member of a group")
    for shape in call.operands:
        same = shape.equal_ignoring_layout(call.operands[0])
        call.require(same, "all_to_all_c4", "all operands must have the same shape")
    parts = [shape.without_layout() for shape in call.operands]
    declared = call.declared
    if len(parts) == 1 and declared is not None and declared.is_tuple:
        return Shape(dt.TUPLE, tuple_shapes=tuple(parts))
    return one_or_tuple(parts)


def infer_ragged_all_to_all(call: OpCall) -> Shape:
    """Shape of the second operand, the output to update.

    Raises:
        ShapeError: ``ragged_all_to_all_c1`` data operands, ``_c2`` offsets and sizes.
    """
    check_groups(call, equal=True)
    require_array(call)
    data, output, *numbers = call.operands
    name = "ragged_all_to_all"
    same = data.element_type is output.element_type and data.dims[1:] == output.dims[1:]
    call.require(
        same and data.rank >= 1, f"{name}_c1", "input and output must agree after dimension 0"
    )
    for shape in numbers:
        vector = (
            shape.rank == 1 and shape.element_type.is_integral and shape.dims == numbers[0].dims
        )
        call.require(
            vector, f"{name}_c2", "offsets and sizes must be integer vectors of equal size"
        )
    return output.without_layout()


def infer_permute(call: OpCall) -> Shape:
    """Shapes of the operands; with slices, of the outputs they update.

    Raises:
        ShapeError: ``collective_permute_c1`` a source twice, ``_c2`` a target twice, ``_c3`` a
            negative id, ``_c4`` operands of the form with slices.
    """
    name = "collective_permute"
    pairs = call["source_target_pairs"]
    for end, rule in ((0, "c1"), (1, "c2")):
        ids = [pair[end] for pair in pairs]
        what = f"a device is {'source' if end == 0 else 'target'} twice"
        call.require(len(set(ids)) == len(ids), f"{name}_{rule}", what)
    negative = any(i < 0 for pair in pairs for i in pair)
    call.require(not negative, f"{name}_c3", "device ids must not be negative")
    if not call["slice_sizes"]:
        return _same(call, call.operands)
    four = len(call.operands) == 4
    call.require(four, f"{name}_c4", "slices need input, output and the starts of both")
    return call.operands[1].without_layout()


def infer_shuffle(call: OpCall) -> Shape:
    """Shape of the operand.

    Raises:
        ShapeError: ``shuffle_c1`` dimensions, ``_c2`` one shift per dimension, ``_c3`` mode.
    """
    require_array(call)
    call.require(call["mode"] in (None, "rotate"), "shuffle_c3", "the one mode is rotate")
    operand = call.operands[0]
    require_axes(call, "dimensions", call["dimensions"], operand.rank, "shuffle_c1")
    same = len(call["shifts"]) == len(call["dimensions"])
    call.require(same, "shuffle_c2", "there must be one shift per dimension")
    return operand.without_layout()


def infer_id(call: OpCall) -> Shape:
    """u32[]."""
    del call
    return array(dt.U32)
