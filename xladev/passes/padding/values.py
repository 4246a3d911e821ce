"""Values of dynamic shape in static form: full-size data, and the live size of each dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.nested_values import nested
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.passes.expansions.emit import Emitter

Size = HloInstruction | None
"""Live size of a dimension as s32[]; None for all of it."""


@dataclass(frozen=True, slots=True)
class Padded:
    """An array, token or tuple without dynamic parts.

    Attributes:
        data: of the bounds' sizes; elements past the live sizes mean nothing.
        sizes: one per dimension of an array; empty where nothing is dynamic.
    """

    data: HloInstruction
    sizes: tuple[Size, ...] = ()

    def size(self, dimension: int) -> Size:
        """Live size of one dimension."""
        return self.sizes[dimension] if self.sizes else None

    @property
    def is_dynamic(self) -> bool:
        """True if some dimension is."""
        return any(size is not None for size in self.sizes)


Value = Padded | tuple["Value", ...]
Rule = Callable[[Emitter, HloInstruction, Sequence[Value]], "Value | None"]
"""Gives what an instruction is on padded operands; None where it must be run on dynamic ones."""
Rules = Mapping[str, Rule]


def arrays(values: Sequence[Value]) -> list[Padded]:
    """Values none of which is a tuple."""
    return [value for value in values if isinstance(value, Padded)]


def padded(data: HloInstruction, sizes: Sequence[Size]) -> Padded:
    """An array with sizes, some or all of which may be None."""
    return Padded(data, tuple(sizes) if any(s is not None for s in sizes) else ())


def dim_size(e: Emitter, value: Padded, dimension: int) -> HloInstruction:
    """Live size of a dimension, as s32[]; a constant where all of it is live."""
    size = value.size(dimension)
    return e.scalar(value.data.shape.dims[dimension], dt.S32) if size is None else size


def is_live(e: Emitter, value: Padded, dims: Sequence[int]) -> HloInstruction | None:
    """Flags of the elements that are live in some dimensions; None if all are."""
    found: HloInstruction | None = None
    for d in dims:
        size = value.size(d)
        if size is None:
            continue
        inside = e.compare("LT", e.iota(dt.S32, value.data.shape.dims, d), size)
        found = inside if found is None else e.op("and", found, inside)
    return found


def masked(
    e: Emitter, value: Padded, dims: Sequence[int], fill: HloInstruction | complex
) -> HloInstruction:
    """The data with ``fill`` (a scalar) in what is not live in some dimensions."""
    live = is_live(e, value, dims)
    return value.data if live is None else e.select(live, value.data, fill)


def materialized(e: Emitter, value: Value) -> HloInstruction:
    """One instruction for a value without dynamic parts."""
    if isinstance(value, Padded):
        return value.data
    return e.op("tuple", *(materialized(e, part) for part in value))


def has_dynamic_part(value: Value) -> bool:
    """True if an array in the value has a live size."""
    if isinstance(value, Padded):
        return value.is_dynamic
    return any(map(has_dynamic_part, value))


# Between padded values, dynamic instructions, and flat lists of instructions


def as_dynamic(e: Emitter, value: Value) -> HloInstruction:
    """One instruction of dynamic shape for the value."""
    if not isinstance(value, Padded):
        return e.op("tuple", *(as_dynamic(e, part) for part in value))
    made = value.data
    for d, size in enumerate(value.sizes):
        if size is not None:
            made = e.op("set-dimension-size", made, size, dimensions=(d,))
    return made


def from_dynamic(e: Emitter, instruction: HloInstruction) -> Value:
    """A value of dynamic shape taken apart: zeros fill what is not live."""
    shape = instruction.shape
    if shape.is_tuple:
        return tuple(from_dynamic(e, part) for part in e.parts(instruction))
    if not shape.is_array or not shape.is_dynamic:
        return Padded(instruction)
    sizes: list[Size] = [None] * shape.rank
    data = instruction
    for d in range(shape.rank):
        if shape.is_dynamic_dimension(d):
            sizes[d] = e.op("get-dimension-size", instruction, dimensions=(d,))
            flags = [f and at > d for at, f in enumerate(shape.dynamic)]
            static = Shape(shape.element_type, shape.dims, None, _flags(flags))
            bound = e.scalar(shape.dims[d], dt.S32)
            data = e.op("set-dimension-size", data, bound, shape=static, dimensions=(d,))
    return Padded(data, tuple(sizes))


def _flags(flags: Sequence[bool]) -> tuple[bool, ...]:
    return tuple(flags) if any(flags) else ()


def flat_shapes(shape: Shape) -> list[Shape]:
    """Shapes of `flattened`: static leaves in order, then an s32[] per dynamic dimension."""
    leaves = flattened_shapes(shape)
    count = sum(sum(leaf.dynamic) for leaf in leaves)
    return [leaf.static() for leaf in leaves] + [Shape(dt.S32)] * count


def flattened(e: Emitter, value: Value, shape: Shape) -> list[HloInstruction]:
    """The leaves of a value that stands for one of ``shape``, then its live sizes."""
    leaves = list(_leaves(e, value, shape))
    sizes = [
        dim_size(e, leaf, d)
        for leaf, (_, s) in zip(leaves, shape.leaves(), strict=True)
        for d, flag in enumerate(s.dynamic)
        if flag
    ]
    return [leaf.data for leaf in leaves] + sizes


def _leaves(e: Emitter, value: Value, shape: Shape) -> Iterator[Padded]:
    if not shape.is_tuple:
        assert isinstance(value, Padded)
        yield value
        return
    parts = value if isinstance(value, tuple) else tuple(map(Padded, e.parts(value.data)))
    for part, part_shape in zip(parts, shape.tuple_shapes, strict=True):
        yield from _leaves(e, part, part_shape)


def gathered(flat: Sequence[HloInstruction], shape: Shape) -> Value:
    """The value of ``shape`` that `flattened` gave these instructions for."""
    count = len(flattened_shapes(shape))
    leaves, sizes = iter(flat[:count]), iter(flat[count:])
    rows = [
        Padded(next(leaves), tuple(next(sizes) if f else None for f in leaf.dynamic))
        for _, leaf in shape.leaves()
    ]
    padded = iter(rows)
    value: Value = nested(shape, lambda _: next(padded))
    return value
