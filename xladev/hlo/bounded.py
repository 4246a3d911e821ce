"""Values of bounded dynamic shape: a full-size buffer and the sizes that are in use.

At a module's interface such a value is a `Bounded`. Within an evaluation it is simply its live
part, an array shorter than the shape says in its dynamic dimensions: every opcode then means on it
what it means on an array of that size, and no padding can leak into a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xladev.errors import ArgumentError
from xladev.hlo.literal import Array, Value
from xladev.hlo.shape import UNBOUNDED, Shape


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """A bounded dynamic array.

    Attributes:
        array: buffer of the bounds' sizes; elements past the live sizes mean nothing.
        sizes: live size of each dynamic dimension of the shape, in order.
    """

    array: Array
    sizes: tuple[int, ...]

    def live(self, shape: Shape) -> Array:
        """The elements in use; an ArgumentError where sizes do not fit ``shape``."""
        dynamic = [d for d in range(shape.rank) if shape.is_dynamic_dimension(d)]
        if self.array.shape != shape.dims or len(dynamic) != len(self.sizes):
            raise ArgumentError(
                f"buffer {list(self.array.shape)} with sizes {list(self.sizes)} does not fit "
                f"{shape.to_string(layout=False)}"
            )
        cut = [slice(None)] * shape.rank
        for d, size in zip(dynamic, self.sizes, strict=True):
            if not 0 <= size <= shape.dims[d]:
                raise ArgumentError(f"size {size} of a dimension of bound {shape.dims[d]}")
            cut[d] = slice(size)
        return self.array[tuple(cut)]


def bounded(live: Array, shape: Shape) -> Bounded:
    """The live part of a value of ``shape``, padded with zeros to the bounds.

    Raises:
        ArgumentError: ``shape`` has a dimension without bound.
    """
    if UNBOUNDED in shape.dims:
        raise ArgumentError(
            f"a value of shape {shape.to_string(layout=False)} cannot be given back",
            why="a dimension without bound has no buffer",
            hint="give the dimension a bound, such as f32[<=8]",
        )
    full = np.zeros(shape.dims, live.dtype)
    full[tuple(map(slice, live.shape))] = live
    sizes = tuple(n for d, n in enumerate(live.shape) if shape.is_dynamic_dimension(d))
    return Bounded(full, sizes)


def to_live(value: Value, shape: Shape) -> Value:
    """A value as evaluation sees it: each `Bounded` as its live part, tuples part by part."""
    if shape.is_tuple:
        return tuple(to_live(v, s) for v, s in zip(value, shape.tuple_shapes, strict=True))
    return value.live(shape) if isinstance(value, Bounded) else value


def trimmed(values: Sequence[Value], shapes: Sequence[Shape], rank: int) -> tuple[Value, ...]:
    """Arrays cut to one size where some have a live size and others, being static, do not.

    Scalars and what else is not of ``rank`` stay as they are.
    """
    full = [at for at, shape in enumerate(shapes) if shape.rank == rank]
    if len({values[at].shape for at in full}) <= 1:
        return tuple(values)
    cut = [slice(None)] * rank
    for d in range(rank):
        live = [values[at].shape[d] for at in full if shapes[at].is_dynamic_dimension(d)]
        cut[d] = slice(live[0]) if live else slice(None)
    static = {at for at in full if not shapes[at].is_dynamic}
    return tuple(v[tuple(cut)] if at in static else v for at, v in enumerate(values))


def from_live(value: Value, shape: Shape) -> Value:
    """A value as callers see it: each array of dynamic shape as a `Bounded`."""
    if shape.is_tuple:
        return tuple(from_live(v, s) for v, s in zip(value, shape.tuple_shapes, strict=True))
    return bounded(value, shape) if shape.is_dynamic else value
