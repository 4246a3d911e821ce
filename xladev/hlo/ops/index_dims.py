"""Dimension numbers of gather and scatter, which mirror each other, and what they select."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from xladev.hlo.literal import Array
from xladev.hlo.numerics.casts import as_indices
from xladev.hlo.opdef import OpCall
from xladev.hlo.ops import rules
from xladev.hlo.shape import UNBOUNDED, Shape


class Attributes(Protocol):
    """An instruction, or a call about to be checked."""

    def __getitem__(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class IndexDims:
    """How index vectors and windows map to the dimensions of the array they index.

    In XLA's terms (``Gather`` and ``Scatter`` of its operation semantics), the windowed side has
    offset dimensions (gather) or update window dimensions (scatter), where a window of the array,
    whose collapsed or inserted dimensions have size 1, runs, and batch dimensions.

    Attributes:
        window: dimensions of the windowed side (gather's result, scatter's updates) that run over
            the window; the others run over the index vectors.
        dropped: dimensions of the array that the window has with size 1 and does not show.
        index_map: the array's dimension that each component of an index vector belongs to.
        batching: dimensions of the array paired with those in ``indices_batching``.
        indices_batching: dimensions of the indices that are batch numbers of the array.
        vector_dim: dimension of the indices that holds the vectors; their rank if it is implied.
    """

    window: tuple[int, ...]
    dropped: tuple[int, ...]
    index_map: tuple[int, ...]
    batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    vector_dim: int

    @classmethod
    def of_gather(cls, attrs: Attributes) -> IndexDims:
        """Those of a gather."""
        return cls(
            tuple(attrs["offset_dims"]),
            tuple(attrs["collapsed_slice_dims"]),
            tuple(attrs["start_index_map"]),
            tuple(attrs["operand_batching_dims"]),
            tuple(attrs["start_indices_batching_dims"]),
            attrs["index_vector_dim"],
        )

    @classmethod
    def of_scatter(cls, attrs: Attributes) -> IndexDims:
        """Those of a scatter."""
        return cls(
            tuple(attrs["update_window_dims"]),
            tuple(attrs["inserted_window_dims"]),
            tuple(attrs["scatter_dims_to_operand_dims"]),
            tuple(attrs["input_batching_dims"]),
            tuple(attrs["scatter_indices_batching_dims"]),
            attrs["index_vector_dim"],
        )

    def windowed(self, rank: int) -> tuple[int, ...]:
        """Dimensions of an array of that rank which the window shows, in order."""
        hidden = self.hidden
        return tuple(d for d in range(rank) if d not in hidden)

    def batch_axes(self, rank: int) -> tuple[int, ...]:
        """Dimensions of the windowed side, of that rank, which run over index vectors."""
        return tuple(d for d in range(rank) if d not in self.window)

    @property
    def hidden(self) -> frozenset[int]:
        """Dimensions of the array that the window does not show."""
        return frozenset((*self.dropped, *self.batching))

    @property
    def batch_numbers(self) -> dict[int, int]:
        """For each batching dimension of the array the place of its pair in `batch_dims`."""
        pairs = zip(self.batching, self.indices_batching, strict=True)
        return {d: axis - (axis > self.vector_dim) for d, axis in pairs}

    def batch_dims(self, indices_rank: int) -> tuple[int, ...]:
        """Dimensions of the indices without the one that holds the vectors."""
        return tuple(d for d in range(indices_rank) if d != self.vector_dim)


def starts(indices: Array, dims: IndexDims, rank: int) -> tuple[list[Array], tuple[int, ...]]:
    """Window starts per dimension of the array, as s64, and the sizes of the batch they fill.

    Each start broadcasts against the batch: 0 where nothing indexes that dimension.
    """
    vectors = as_indices(indices)
    if dims.vector_dim == vectors.ndim:
        vectors = vectors[..., np.newaxis]
    vectors = np.moveaxis(vectors, dims.vector_dim, -1)
    batch = vectors.shape[:-1]
    result = [np.zeros((1,) * len(batch), np.int64) for _ in range(rank)]
    for component, d in enumerate(dims.index_map):
        result[d] = vectors[..., component]
    for d, source in zip(dims.batching, dims.indices_batching, strict=True):
        axis = source - (source > dims.vector_dim)
        result[d] = along(np.arange(batch[axis]), axis, len(batch))
    return result, batch


def along(line: Array, axis: int, rank: int) -> Array:
    """A line of values lying along one of ``rank`` dimensions."""
    return line.reshape([-1 if a == axis else 1 for a in range(rank)])


def check_index_dims(
    call: OpCall, dims: IndexDims, array: Shape, indices: Shape, rank: int
) -> None:
    """Rules that gather and scatter share; cites ``OP_c2`` to ``OP_c12``.

    Args:
        call: what is checked.
        dims: its dimension numbers.
        array: the indexed array.
        indices: the index vectors.
        rank: rank of the windowed side.
    """
    rules.require_kinds(call, indices, rules.INTEGER, "c2")
    for rule, listed, limit in _listed(dims, array, indices, rank):
        rules.require_dims_in_range(call, listed, limit, rule)
    for rule, listed in (("c6", dims.window), ("c7", dims.dropped), ("c8", dims.batching)):
        in_order = list(listed) == sorted(listed)
        call.require(in_order, rules.constraint(call, rule), f"{list(listed)} is not sorted")
    _check_vectors(call, dims, indices)
    hidden = (*dims.dropped, *dims.batching)
    apart = len({*hidden}) == len(hidden) and not {*dims.batching} & {*dims.index_map}
    call.require(apart, rules.constraint(call, "c10"), "a dimension has two roles")
    shown = array.rank - len(hidden)
    call.require(
        len(dims.window) == shown,
        rules.constraint(call, "c11"),
        f"{len(dims.window)} window dimensions for {shown} of the array",
    )
    _check_batching(call, dims, array, indices)


def _listed(
    dims: IndexDims, array: Shape, indices: Shape, rank: int
) -> Iterator[tuple[str, Sequence[int], int]]:
    yield "c3", (dims.vector_dim,), indices.rank + 1
    yield "c4", dims.index_map, array.rank
    yield "c6", dims.window, rank
    yield "c7", dims.dropped, array.rank
    yield "c8", dims.batching, array.rank
    yield "c9", dims.indices_batching, indices.rank


def _check_vectors(call: OpCall, dims: IndexDims, indices: Shape) -> None:
    length = 1 if dims.vector_dim == indices.rank else indices.dims[dims.vector_dim]
    call.require(
        length in (len(dims.index_map), UNBOUNDED),
        rules.constraint(call, "c5"),
        f"index vectors of {length} components for {len(dims.index_map)} dimensions",
    )


def _check_batching(call: OpCall, dims: IndexDims, array: Shape, indices: Shape) -> None:
    pairs = len(dims.batching), len(dims.indices_batching)
    name = rules.constraint(call, "c12")
    call.require(pairs[0] == pairs[1], name, f"{pairs[0]} batch dimensions and {pairs[1]}")
    call.require(dims.vector_dim not in dims.indices_batching, name, "vectors are no batch")
    for a, b in zip(dims.batching, dims.indices_batching, strict=True):
        sizes = array.dims[a], indices.dims[b]
        fits = UNBOUNDED in sizes or sizes[0] == sizes[1]
        call.require(fits, name, f"batch dimensions of sizes {sizes[0]} and {sizes[1]}")
