"""AxisSharding: which atoms of a grid cut each dimension of an array, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from xladev.hlo.literal import Array
from xladev.hlo.placement import Placement
from xladev.hlo.shape import Shape
from xladev.hlo.sharding.grid import Atoms, Grid


@dataclass(frozen=True, slots=True)
class AxisSharding:
    """How an array is cut.

    A dimension of n elements in p parts has parts of ceil(n / p) elements. The device at place i
    holds elements from i * ceil(n / p); what its part has beyond the array is padding, which may
    have any value.

    Attributes:
        grid: of the devices.
        dims: for each dimension the atoms that cut it, outermost first; no atom is used twice.
        unreduced: atoms along which the array is a sum, of which each device holds one summand.
    """

    grid: Grid
    dims: tuple[Atoms, ...]
    unreduced: Atoms = ()

    @property
    def atoms(self) -> Atoms:
        """All atoms that cut something."""
        return tuple(a for atoms in self.dims for a in atoms)

    @property
    def is_whole(self) -> bool:
        """True if every device holds all of it."""
        return not any(self.dims) and not self.unreduced

    @property
    def reduced(self) -> AxisSharding:
        """The same, added up."""
        return replace(self, unreduced=()) if self.unreduced else self

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of parts of each dimension."""
        return tuple(map(self.grid.count, self.dims))

    def local_dims(self, dims: Sequence[int]) -> tuple[int, ...]:
        """Dimensions of a part of an array of ``dims``, padding included."""
        return tuple(-(-n // c) for n, c in zip(dims, self.counts, strict=True))

    def local(self, shape: Shape) -> Shape:
        """Shape of a part, padding included."""
        return replace(shape, dims=self.local_dims(shape.dims)) if any(self.dims) else shape

    def is_even(self, dims: Sequence[int]) -> bool:
        """True if no part of an array of ``dims`` has padding."""
        return all(n % c == 0 for n, c in zip(dims, self.counts, strict=True))

    def starts(self, dims: Sequence[int], device: int) -> tuple[int, ...]:
        """Where the part of a device begins in an array of ``dims``; maybe behind its end."""
        sizes = zip(self.dims, self.local_dims(dims), strict=True)
        return tuple(self.grid.index(atoms)[device] * size for atoms, size in sizes)

    def cut(self, whole: Array, device: int, fill: object = 0) -> Array:
        """The part of a device.

        Args:
            whole: the array.
            device: number of its partition.
            fill: value of the padding.
        """
        part = np.full(self.local_dims(whole.shape), fill, whole.dtype)
        taken = whole[self._window(whole.shape, device)]
        part[tuple(map(slice, taken.shape))] = taken
        return part

    def join(self, parts: Sequence[Array], dims: Sequence[int]) -> Array:
        """The array of ``dims`` whose parts the devices hold, in their order."""
        whole = np.empty(tuple(dims), parts[0].dtype)
        for device in reversed(range(self.grid.size)):
            window = self._window(dims, device)
            sizes = (s.stop - s.start for s in window)
            whole[window] = parts[device][tuple(map(slice, sizes))]
        return whole

    def _window(self, dims: Sequence[int], device: int) -> tuple[slice, ...]:
        starts = self.starts(dims, device)
        sizes = self.local_dims(dims)
        found = []
        for start, size, n in zip(starts, sizes, dims, strict=True):
            begin = min(start, n)
            found.append(slice(begin, min(begin + size, n)))
        return tuple(found)

    @property
    def placement(self) -> Placement:
        """The same, device by device."""
        columns = [self.grid.index(atoms) for atoms in self.dims]
        parts = tuple(tuple(c[device] for c in columns) for device in range(self.grid.size))
        return Placement(self.counts, parts)

    @property
    def text(self) -> str:
        """As Shardy spells dimensions, such as ``[{"x"}, {}]``."""
        dims = ", ".join(f"{{{self.grid.text(atoms)}}}" for atoms in self.dims)
        more = f", unreduced={{{self.grid.text(self.unreduced)}}}" if self.unreduced else ""
        return f"[{dims}]{more}"

    def with_dim(self, dimension: int, atoms: Atoms) -> AxisSharding:
        """The same but for one dimension."""
        return replace(self, dims=(*self.dims[:dimension], atoms, *self.dims[dimension + 1 :]))

    def part_bytes(self, shape: Shape) -> int:
        """Bytes of one part."""
        width = shape.nbytes // shape.size if shape.size else 0
        return width * prod(self.local_dims(shape.dims))


def whole_on(grid: Grid, rank: int) -> AxisSharding:
    """Everything everywhere."""
    return AxisSharding(grid, ((),) * rank)


def express(grid: Grid, placement: Placement) -> AxisSharding | None:
    """A placement by the atoms of a grid; None if the grid has no such atoms.

    Dimension by dimension and from the outside, it looks for the atom along which every device is
    where the placement has it; so it fits whatever form the placement came from.
    """
    used: list[int] = []
    dims: list[Atoms] = []
    for dimension, count in enumerate(placement.counts):
        at = [part[dimension] for part in placement.parts]
        found = _atoms_of(grid, at, count, used)
        if found is None:
            return None
        used += found
        dims.append(found)
    return AxisSharding(grid, tuple(dims))


def _atoms_of(grid: Grid, at: Sequence[int], count: int, used: Sequence[int]) -> Atoms | None:
    found: list[int] = []
    while count > 1:
        atom = _outermost(grid, at, count, (*used, *found))
        if atom is None:
            return None
        found.append(atom)
        count //= grid.count((atom,))
        at = [place % count for place in at]
    return tuple(found)


def _outermost(grid: Grid, at: Sequence[int], count: int, used: Sequence[int]) -> int | None:
    for atom in range(len(grid.atoms)):
        size = grid.count((atom,))
        if atom in used or count % size:
            continue
        if all(p // (count // size) == i for p, i in zip(at, grid.index((atom,)), strict=True)):
            return atom
    return None
