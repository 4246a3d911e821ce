"""Recipes for opcodes that join devices, and for asynchronous pairs.

All devices of a random program are given the same arguments, so operands are mixed with the number
of the device first: what comes from the wrong one is then seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.dtype import ARRAY_TYPES, PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Shape, array, tuple_of
from xladev.testing.draw import Dims, Draw, Recipe
from xladev.testing.recipes.computations import reducer


def _own(d: Draw, dtype: PrimitiveType, dims: Dims) -> HloInstruction:
    """An array that is different on each device."""
    value = d.value(dtype, dims)
    number = d.op("convert", d.op("replica-id"), shape=array(dtype))
    spread = d.op("broadcast", number, shape=array(dtype, dims), dimensions=())
    return d.op("xor" if dtype is dt.PRED else "add", value, spread)


def _any_own(d: Draw, least_rank: int = 0) -> HloInstruction:
    return _own(d, d.dtype(ARRAY_TYPES), d.dims(least_rank, 3))


def _rows(d: Draw) -> tuple[tuple[int, ...], ...]:
    """Groups of equal size that hold every replica once."""
    size = d.pick([s for s in (1, 2, 4) if d.replicas % s == 0])
    ids = d.permutation(d.replicas)
    return tuple(ids[at : at + size] for at in range(0, d.replicas, size))


def _groups(d: Draw) -> tuple[ReplicaGroups, int]:
    """Groups, and how many members each has; no groups stand for one of all replicas."""
    if d.chance(0.3):
        return ReplicaGroups(), d.replicas
    rows = _rows(d)
    return ReplicaGroups(rows), len(rows[0])


def _ids(d: Draw) -> tuple[dict[str, Any], int]:
    """Attributes that say who takes part: replicas, or flattened ids of all devices."""
    groups, size = _groups(d)
    if groups == ReplicaGroups() or d.chance(0.6):
        return {"replica_groups": groups}, size
    return {"replica_groups": groups, "channel_id": 1, "use_global_device_ids": True}, size


def _all_gather(d: Draw) -> HloInstruction:
    value = _any_own(d, 1)
    attrs, size = _ids(d)
    axis = d.integer(0, value.shape.rank - 1)
    shape = _stretched(value.shape, axis, size)
    return d.op("all-gather", value, shape=shape, dimensions=(axis,), **attrs)


def _stretched(shape: Shape, axis: int, factor: int) -> Shape:
    dims = list(shape.dims)
    dims[axis] *= factor
    return array(shape.element_type, dims)


def _all_reduce(d: Draw) -> HloInstruction:
    value = _any_own(d)
    attrs, _ = _ids(d)
    dtype = value.shape.element_type
    operands = [value]
    if d.chance(0.2):
        operands.append(_own(d, dtype, d.dims(0, 2)))
    return d.op("all-reduce", *operands, to_apply=reducer(d, dtype), **attrs)


def _reduce_scatter(d: Draw) -> HloInstruction:
    attrs, size = _ids(d)
    dims = list(d.dims(1, 3))
    axis = d.integer(0, len(dims) - 1)
    part = tuple(dims)
    dims[axis] *= size
    value = _own(d, d.dtype(ARRAY_TYPES), tuple(dims))
    dtype = value.shape.element_type
    shape = array(dtype, part)
    body = reducer(d, dtype)
    return d.op("reduce-scatter", value, shape=shape, dimensions=(axis,), to_apply=body, **attrs)


def _all_to_all(d: Draw) -> HloInstruction:
    groups, size = _groups(d)
    if d.chance(0.4):
        first = _any_own(d)
        others = [_own(d, first.shape.element_type, first.shape.dims) for _ in range(size - 1)]
        return d.op("all-to-all", first, *others, replica_groups=groups)
    dims = list(d.dims(1, 3))
    axis = d.integer(0, len(dims) - 1)
    dims[axis] *= size
    value = _own(d, d.dtype(ARRAY_TYPES), tuple(dims))
    return d.op("all-to-all", value, dimensions=(axis,), replica_groups=groups)


def _collective_broadcast(d: Draw) -> HloInstruction:
    rows = _rows(d)
    kept = rows[: d.integer(1, len(rows))]
    return d.op("collective-broadcast", _any_own(d), replica_groups=ReplicaGroups(kept))


def _collective_permute(d: Draw) -> HloInstruction:
    """Some replicas send to some others; who receives nothing has zeros."""
    count = d.integer(0, d.replicas)
    sources, targets = d.permutation(d.replicas)[:count], d.permutation(d.replicas)[:count]
    pairs = tuple(zip(sources, targets, strict=True))
    return d.op("collective-permute", _any_own(d), source_target_pairs=pairs)


def _collective_reduce(d: Draw) -> HloInstruction:
    """The combined values at the first member of each group."""
    value = _any_own(d)
    attrs, _ = _ids(d)
    body = reducer(d, value.shape.element_type)
    return d.op("collective-reduce", value, to_apply=body, **attrs)


def _ragged_all_to_all(d: Draw) -> HloInstruction:
    """Rows of each replica for each, as many as the receiver wants, written over another array."""
    most, row, count = d.integer(0, 3), d.dims(0, 2), d.replicas
    dtype = d.dtype(ARRAY_TYPES)
    value = _own(d, dtype, (count * most, *row))
    target = _own(d, dtype, (count * most + d.integer(0, 2), *row))
    index = d.pick((dt.S32, dt.S64))
    wanted = [d.integer(0, most) for _ in range(count)]
    sizes = d.builder.constant(np.array(wanted, index.np), index)
    starts = d.builder.constant(np.arange(count, dtype=index.np) * index.np.type(most), index)
    here = d.builder.op("replica-id")
    mine = _one_for_all(d, starts, here), _one_for_all(d, sizes, here)
    return d.op("ragged-all-to-all", value, target, starts, sizes, *mine)


def _one_for_all(d: Draw, vector: HloInstruction, at: HloInstruction) -> HloInstruction:
    """One element of a vector, as often as the vector has elements."""
    one = d.builder.op("dynamic-slice", vector, at, dynamic_slice_sizes=(1,))
    flat = d.builder.op("reshape", one, shape=array(vector.shape.element_type, ()))
    return d.builder.op("broadcast", flat, shape=vector.shape.without_layout(), dimensions=())


def _shuffle(d: Draw) -> HloInstruction:
    value = d.any_value(ARRAY_TYPES, least_rank=1)
    dimensions = d.subset(value.shape.rank, least=1)
    shifts = tuple(d.integer(-3, 3) for _ in dimensions)
    return d.op("shuffle", value, dimensions=dimensions, mode="rotate", shifts=shifts)


def _device_number(opcode: str) -> Recipe:
    return lambda d: d.op(opcode)


# -- asynchronous pairs ---------------------------------------------------------------------------


def _started(d: Draw, opcode: str, begun: HloInstruction) -> HloInstruction:
    """Finishes what was begun; only the result is a value."""
    made = d.builder.op(opcode, begun)
    d.inexact.add(made)
    return d.keep(made)


def _all_gather_pair(d: Draw) -> HloInstruction:
    value = _any_own(d, 1)
    attrs, size = _ids(d)
    axis = d.integer(0, value.shape.rank - 1)
    part = value.shape.without_layout()
    shape = tuple_of(part, _stretched(part, axis, size))
    begun = d.builder.op("all-gather-start", value, shape=shape, dimensions=(axis,), **attrs)
    return _started(d, "all-gather-done", begun)


def _all_reduce_pair(d: Draw) -> HloInstruction:
    value = _any_own(d)
    attrs, _ = _ids(d)
    body = reducer(d, value.shape.element_type)
    begun = d.builder.op("all-reduce-start", value, to_apply=body, **attrs)
    return _started(d, "all-reduce-done", begun)


def _permute_pair(d: Draw) -> HloInstruction:
    pairs = tuple(enumerate(d.permutation(d.replicas)))
    begun = d.builder.op("collective-permute-start", _any_own(d), source_target_pairs=pairs)
    return _started(d, "collective-permute-done", begun)


def _copy_pair(d: Draw) -> HloInstruction:
    begun = d.builder.op("copy-start", d.any_value(ARRAY_TYPES))
    return _started(d, "copy-done", begun)


def _async(d: Draw) -> HloInstruction:
    """A wrapped computation, begun, perhaps continued, and finished."""
    value = d.any_value(ARRAY_TYPES)
    inner = d.inside("wrapped")
    given = inner.parameter(value.shape.without_layout())
    root = inner.steps(1, ("select", "concatenate", "reverse", "copy"))[-1]
    if root.shape.is_tuple:
        root = given
    body: HloComputation = inner.builder.build(root)
    part, result = value.shape.without_layout(), root.shape.without_layout()
    shape = tuple_of(tuple_of(part), result)
    made = d.builder.op("async-start", value, shape=shape, calls=body)
    if d.chance(0.5):
        made = d.builder.op("async-update", made, calls=body)
    done = d.builder.op("async-done", made, calls=body)
    d.inexact.add(done)
    return d.keep(done)


DEVICES: Mapping[str, Recipe] = MappingProxyType(
    {
        "all-gather": _all_gather,
        "all-reduce": _all_reduce,
        "reduce-scatter": _reduce_scatter,
        "all-to-all": _all_to_all,
        "collective-broadcast": _collective_broadcast,
        "collective-permute": _collective_permute,
        "collective-reduce": _collective_reduce,
        "ragged-all-to-all": _ragged_all_to_all,
        "shuffle": _shuffle,
        "replica-id": _device_number("replica-id"),
        "partition-id": _device_number("partition-id"),
        "all-gather-start": _all_gather_pair,
        "all-reduce-start": _all_reduce_pair,
        "collective-permute-start": _permute_pair,
        "copy-start": _copy_pair,
        "async-start": _async,
    }
)
"""Recipe by opcode."""
