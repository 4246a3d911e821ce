"""Grid: the devices of a program as an array of prime sizes, the one form of all shardings.

A mesh axis, a part of one (a sub-axis) and a dimension of a tile assignment are sequences of the
grid's atoms. An atom cannot be cut further, so overlap, prefix and movement of axes are questions
about sequences of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from xladev.hlo.attributes import AxisRef
from xladev.hlo.devices import MeshAxes

Atoms = tuple[int, ...]
"""Numbers of atoms, outermost first."""

Coordinates = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Grid:
    """Devices in an array with one dimension per atom.

    Attributes:
        atoms: parts of mesh axes whose sizes are primes, outermost first; ``size`` is set.
        devices: partition numbers in row-major order of the atoms; each of 0 to n - 1 once.
    """

    atoms: tuple[AxisRef, ...]
    devices: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.devices)

    def count(self, atoms: Iterable[int]) -> int:
        """Into how many parts some atoms cut."""
        return prod(self.atoms[a].size or 1 for a in atoms)

    def index(self, atoms: Atoms) -> tuple[int, ...]:
        """For each device, by its number, its place along some atoms, the first one outermost."""
        return _index(self, atoms)

    def groups(self, atoms: Atoms) -> tuple[tuple[int, ...], ...]:
        """Devices that differ along these atoms only; each group in the order of `index`."""
        return _groups(self, atoms)

    def axes(self, atoms: Atoms) -> tuple[AxisRef, ...]:
        """The atoms as mesh axes and parts of them, neighbours joined."""
        found: list[AxisRef] = []
        for ref in (self.atoms[a] for a in atoms):
            last = found[-1] if found else None
            if last and last.name == ref.name and last.pre_size * _size(last) == ref.pre_size:
                found[-1] = AxisRef(ref.name, last.pre_size, _size(last) * _size(ref))
            else:
                found.append(ref)
        return tuple(map(self._whole, found))

    def _whole(self, ref: AxisRef) -> AxisRef:
        """Without sizes, if it is all of its axis."""
        total = prod(_size(a) for a in self.atoms if a.name == ref.name)
        return AxisRef(ref.name) if total == ref.size else ref

    def text(self, atoms: Atoms) -> str:
        """The atoms as Shardy spells them, such as ``"x", "y":(1)2``."""
        return ", ".join(map(axis_text, self.axes(atoms)))


def axis_text(ref: AxisRef) -> str:
    """An axis, or part of one, as Shardy spells it."""
    return f'"{ref.name}"' + (f":({ref.pre_size}){ref.size}" if ref.size else "")


def _size(ref: AxisRef) -> int:
    return ref.size or 1


@lru_cache(_REMEMBERED)
def _coordinates(grid: Grid) -> Coordinates:
    """For each atom and device (by number), the place of the device along the atom."""
    places = np.indices([_size(a) for a in grid.atoms], dtype=np.int64)
    flat = places.reshape(len(grid.atoms), grid.size)
    return flat[:, np.argsort(grid.devices)]


@lru_cache(_REMEMBERED)
def _index(grid: Grid, atoms: Atoms) -> tuple[int, ...]:
    at = np.zeros(grid.size, np.int64)
    for atom in atoms:
        at = at * _size(grid.atoms[atom]) + _coordinates(grid)[atom]
    return tuple(at.tolist())


@lru_cache(_REMEMBERED)
def _groups(grid: Grid, atoms: Atoms) -> tuple[tuple[int, ...], ...]:
    others = tuple(a for a in range(len(grid.atoms)) if a not in atoms)
    rows: dict[int, list[tuple[int, int]]] = {}
    for device, (row, place) in enumerate(zip(grid.index(others), grid.index(atoms), strict=True)):
        rows.setdefault(row, []).append((place, device))
    return tuple(tuple(device for _, device in sorted(rows[row])) for row in sorted(rows))


def prime_factors(number: int) -> tuple[int, ...]:
    """The prime factors of a positive number, ascending; none of 1."""
    found: list[int] = []
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return tuple(found)


def mesh_grid(
    axes: Sequence[tuple[str, int]], devices: Sequence[int] = (), cuts: Iterable[AxisRef] = ()
) -> Grid:
    """The grid of a mesh.

    Args:
        axes: names and sizes, outermost first.
        devices: in row-major order; 0, 1, 2, ... if empty.
        cuts: parts of axes that shardings name; between them axes are cut into ascending primes.
    """
    named = [ref for ref in cuts if ref.size]
    atoms = [ref for name, size in axes for ref in _cut(name, size, named)]
    return Grid(tuple(atoms), tuple(devices) or tuple(range(prod(n for _, n in axes))))


def _cut(name: str, size: int, cuts: Sequence[AxisRef]) -> Iterable[AxisRef]:
    places = {1, size}
    for ref in cuts:
        ends = {ref.pre_size, ref.pre_size * _size(ref)}
        if ref.name == name and _is_chain(places | ends):
            places |= ends
    for low, high in pairwise(sorted(places)):
        for prime in prime_factors(high // low):
            yield AxisRef(name, low, prime)
            low *= prime


def _is_chain(places: Iterable[int]) -> bool:
    return all(high % low == 0 for low, high in pairwise(sorted(places)))


def grid_of(mesh: MeshAxes, cuts: Iterable[AxisRef] = ()) -> Grid:
    """The grid of a module's mesh."""
    return mesh_grid(mesh.axes, mesh.device_ids, cuts)
