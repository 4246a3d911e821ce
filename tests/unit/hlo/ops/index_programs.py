"""Random gathers and scatters, and their meaning element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_INDEX_TYPES = (np.int32, np.int64, np.uint32, np.uint8, np.int8, np.uint64)


@dataclass(frozen=True)
class IndexProgram:
    """An array, index vectors, and how windows are laid out in both."""

    dims: tuple[int, ...]
    indices: np.ndarray
    window: tuple[int, ...]
    dropped: tuple[int, ...]
    index_map: tuple[int, ...]
    batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    vector_dim: int
    sizes: tuple[int, ...]

    @property
    def windowed(self) -> list[int]:
        return [d for d in range(len(self.dims)) if d not in (*self.dropped, *self.batching)]

    @property
    def vectors(self) -> np.ndarray:
        """Index vectors along the last dimension."""
        if self.vector_dim == self.indices.ndim:
            return self.indices[..., None]
        return np.moveaxis(self.indices, self.vector_dim, -1)

    @property
    def side_dims(self) -> tuple[int, ...]:
        """Dimensions of gather's result and of scatter's updates."""
        batch, window = iter(self.vectors.shape[:-1]), iter(self.sizes[d] for d in self.windowed)
        rank = self.vectors.ndim - 1 + len(self.window)
        return tuple(next(window) if a in self.window else next(batch) for a in range(rank))

    def gather_attrs(self) -> dict[str, Any]:
        return {
            "offset_dims": self.window,
            "collapsed_slice_dims": self.dropped,
            "start_index_map": self.index_map,
            "operand_batching_dims": self.batching,
            "start_indices_batching_dims": self.indices_batching,
            "index_vector_dim": self.vector_dim,
            "slice_sizes": self.sizes,
        }

    def scatter_attrs(self) -> dict[str, Any]:
        return {
            "update_window_dims": self.window,
            "inserted_window_dims": self.dropped,
            "scatter_dims_to_operand_dims": self.index_map,
            "input_batching_dims": self.batching,
            "scatter_indices_batching_dims": self.indices_batching,
            "index_vector_dim": self.vector_dim,
        }

    def elements(self) -> Iterator[tuple[tuple[int, ...], list[int], list[int]]]:
        """Yields (place on the windowed side, window start, place in the window), in order."""
        batch_axes = [a for a in range(len(self.side_dims)) if a not in self.window]
        for batch in np.ndindex(*self.vectors.shape[:-1]):
            start = self._start(batch)
            for inside in np.ndindex(*(self.sizes[d] for d in self.windowed)):
                side = [0] * len(self.side_dims)
                offset = [0] * len(self.dims)
                for axis, at in zip(batch_axes, batch, strict=True):
                    side[axis] = at
                for axis, d, at in zip(self.window, self.windowed, inside, strict=True):
                    side[axis], offset[d] = at, at
                yield tuple(side), start, offset

    def _start(self, batch: tuple[int, ...]) -> list[int]:
        start = [0] * len(self.dims)
        for component, d in enumerate(self.index_map):
            start[d] = int(self.vectors[batch][component])
        for d, source in zip(self.batching, self.indices_batching, strict=True):
            start[d] = batch[source - (source > self.vector_dim)]
        return start


def gathered(program: IndexProgram, array: np.ndarray) -> np.ndarray:
    """Gather, one element at a time."""
    result = np.zeros(program.side_dims, array.dtype)
    for side, start, offset in program.elements():
        limits = [n - s for n, s in zip(program.dims, program.sizes, strict=True)]
        clamped = [min(max(s, 0), limit) for s, limit in zip(start, limits, strict=True)]
        result[side] = array[tuple(c + o for c, o in zip(clamped, offset, strict=True))]
    return result


def scattered(
    program: IndexProgram,
    array: np.ndarray,
    updates: np.ndarray,
    combine: Callable[[Any, Any], Any],
) -> np.ndarray:
    """Scatter, one element at a time."""
    result = array.copy()
    for side, start, offset in program.elements():
        limits = [n - s for n, s in zip(program.dims, program.sizes, strict=True)]
        if all(0 <= s <= limit for s, limit in zip(start, limits, strict=True)):
            at = tuple(s + o for s, o in zip(start, offset, strict=True))
            result[at] = combine(result[at], updates[side])
    return result


def random_program(rng: np.random.Generator) -> IndexProgram:
    """A valid program of rank 1 to 3, with starts inside and outside."""
    rank = int(rng.integers(1, 4))
    dims = tuple(int(n) for n in rng.integers(1, 5, rank))
    order = [int(d) for d in rng.permutation(rank)]
    split = int(rng.integers(0, min(2, rank)))
    batching, rest = tuple(sorted(order[:split])), order[split:]
    index_map = tuple(rest[: int(rng.integers(0, len(rest) + 1))])
    dropped = tuple(sorted(rest[len(rest) - int(rng.integers(0, len(rest) + 1)) :]))
    hidden = {*batching, *dropped}
    sizes = tuple(1 if d in hidden else int(rng.integers(1, n + 1)) for d, n in enumerate(dims))
    sources = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
    batch = sources + [dims[d] for d in batching]
    shuffled = [int(i) for i in rng.permutation(len(batch))]
    places = [shuffled.index(len(sources) + i) for i in range(len(batching))]
    index_dims = [batch[i] for i in shuffled]
    vector_dim = int(rng.integers(0, len(index_dims) + 1))
    if len(index_map) == 1 and rng.random() < 0.3:
        vector_dim = len(index_dims)
    else:
        index_dims.insert(vector_dim, len(index_map))
        places = [p + (p >= vector_dim) for p in places]
    side_rank = rank - len(hidden) + len(batch)
    window = tuple(sorted(int(a) for a in rng.permutation(side_rank)[: rank - len(hidden)]))
    indices = _indices(rng, index_dims)
    return IndexProgram(
        dims, indices, window, dropped, index_map, batching, tuple(places), vector_dim, sizes
    )


def _indices(rng: np.random.Generator, dims: list[int]) -> np.ndarray:
    dtype = np.dtype(_INDEX_TYPES[int(rng.integers(len(_INDEX_TYPES)))])
    indices = rng.integers(0 if dtype.kind == "u" else -2, 6, dims).astype(dtype)
    if indices.size and rng.random() < 0.2:
        indices.flat[0] = np.iinfo(dtype).max
    return indices
