"""Tile assignments (``OpSharding``, HLO text ``devices=[4,2]<=[8]``) and axes: both ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import prod

import numpy as np

from xladev.hlo.attributes import AxisRef, IotaTile, Mesh, Sharding
from xladev.hlo.placement import Placement
from xladev.hlo.sharding.axis_sharding import AxisSharding, express
from xladev.hlo.sharding.grid import Grid, mesh_grid

_COPIES = "copies"


def tile_placement(sharding: Sharding, rank: int, count: int) -> Placement | None:
    """Which part each device holds; None for kinds that give no part to each.

    Trailing tile dimensions (replicated or manual subgroups) cut nothing.

    Args:
        sharding: of an array.
        rank: of the array.
        count: number of devices.
    """
    if sharding.kind in ("replicated", "manual"):
        return Placement((1,) * rank, ((0,) * rank,) * count)
    if sharding.kind == "named":
        return _named_placement(sharding, count)
    if sharding.kind == "unreduced":
        return Placement((1,) * rank, ((0,) * rank,) * count)
    if sharding.kind != "tiled":
        return None
    ids = sharding.devices
    flat = np.asarray(ids if isinstance(ids, tuple) else ids.device_ids()).reshape(-1)
    if sorted(flat.tolist()) != list(range(count)):
        return None
    places = np.unravel_index(np.argsort(flat), sharding.tile_dims)
    parts = tuple(tuple(int(axis[d]) for axis in places[:rank]) for d in range(count))
    return Placement(sharding.tile_dims[:rank], parts)


def summand_placement(sharding: Sharding, rank: int, count: int) -> Placement | None:
    """Which summand each device holds, as a line cut into as many parts; None if there is one.

    Args:
        sharding: tiled, or unreduced: along all devices.
        rank: of the array.
        count: number of devices.
    """
    if sharding.kind == "unreduced":
        return Placement((count,), tuple((d,) for d in range(count)))
    if sharding.kind != "tiled" or "unreduced" not in sharding.last_tile_dims:
        return None
    ids = sharding.devices
    flat = np.asarray(ids if isinstance(ids, tuple) else ids.device_ids()).reshape(-1)
    places = np.unravel_index(np.argsort(flat), sharding.tile_dims)
    axis = rank + sharding.last_tile_dims.index("unreduced")
    parts = tuple((int(places[axis][d]),) for d in range(count))
    return Placement((sharding.tile_dims[axis],), parts)


def _named_placement(sharding: Sharding, count: int) -> Placement | None:
    mesh = sharding.mesh
    if mesh is None or sharding.unreduced_axes or mesh.ids().size != count:
        return None
    refs = tuple(axis for axes, _ in sharding.dim_axes for axis in axes)
    grid = mesh_grid(mesh.axes, tuple(mesh.ids().reshape(-1).tolist()), refs)
    dims = tuple(axes_atoms(grid, axes) for axes, _ in sharding.dim_axes)
    return None if None in dims else AxisSharding(grid, tuple(d or () for d in dims)).placement


def axes_atoms(grid: Grid, axes: Iterable[AxisRef]) -> tuple[int, ...] | None:
    """The atoms of mesh axes and their parts; None if the grid does not cut them there."""
    found: list[int] = []
    for ref in axes:
        own = [(i, a) for i, a in enumerate(grid.atoms) if a.name == ref.name]
        low, size = ref.pre_size, ref.size or prod(a.size or 1 for _, a in own)
        inside = [
            i for i, a in own if low <= a.pre_size and a.pre_size * (a.size or 1) <= low * size
        ]
        if grid.count(inside) != size:
            return None
        found += inside
    return tuple(found)


def to_tiles(sharding: AxisSharding) -> Sharding:
    """The tile assignment: as iota where devices are in order, else listed."""
    if sharding.is_whole:
        return Sharding("replicated")
    grid = sharding.grid
    used = (*sharding.atoms, *sharding.unreduced)
    rest = tuple(a for a in range(len(grid.atoms)) if a not in used)
    kinds = (("unreduced", sharding.unreduced), ("replicated", rest))
    sub = [(kind, grid.count(atoms)) for kind, atoms in kinds if grid.count(atoms) > 1]
    dims = (*sharding.counts, *(count for _, count in sub))
    last = tuple(kind for kind, _ in sub)
    order = (*used, *rest)
    if grid.devices == tuple(range(grid.size)):
        tile: IotaTile | tuple[int, ...] = _iota(dims, [grid.count((a,)) for a in order], order)
    else:
        tile = tuple(d for group in grid.groups(order) for d in group)
    return Sharding("tiled", tile_dims=dims, devices=tile, last_tile_dims=last)


def _iota(dims: tuple[int, ...], sizes: Sequence[int], order: Sequence[int]) -> IotaTile:
    """The shortest form: atoms that stay neighbours are one dimension."""
    runs: list[list[int]] = []
    for place, atom in enumerate(order):
        if runs and order[runs[-1][-1]] + 1 == atom:
            runs[-1].append(place)
        else:
            runs.append([place])
    by_atom = sorted(range(len(runs)), key=lambda r: order[runs[r][0]])
    merged = [prod(sizes[place] for place in run) for run in runs]
    reshape = tuple(merged[r] for r in by_atom)
    return IotaTile(dims, reshape, tuple(by_atom.index(r) for r in range(len(runs))))


def to_named(sharding: AxisSharding) -> Sharding:
    """The form that names axes (``mesh['x'=2], [{'x'}, {}]``), all dimensions closed."""
    grid = sharding.grid
    sizes: dict[str, int] = {}
    for atom in grid.atoms:
        sizes[atom.name] = sizes.get(atom.name, 1) * (atom.size or 1)
    is_iota = grid.devices == tuple(range(grid.size))
    mesh = Mesh(tuple(sizes.items()), None if is_iota else grid.devices)
    dims = tuple((grid.axes(atoms), True) for atoms in sharding.dims)
    return Sharding("named", mesh=mesh, dim_axes=dims, unreduced_axes=grid.axes(sharding.unreduced))


def placement_grid(placement: Placement) -> Grid:
    """A grid in which a placement can be expressed: an axis for each dimension that is cut."""
    holders: dict[tuple[int, ...], list[int]] = {}
    for device, part in enumerate(placement.parts):
        holders.setdefault(part, []).append(device)
    devices = [device for part in sorted(holders) for device in holders[part]]
    axes = [(f"d{i}", n) for i, n in enumerate(placement.counts) if n > 1]
    copies = len(devices) // prod(placement.counts)
    return mesh_grid([*axes, (_COPIES, copies)] if copies > 1 else axes, devices)


def expressed(grids: Sequence[Grid], placement: Placement) -> AxisSharding:
    """A placement by the first grid that can express it, else by one of its own."""
    for grid in grids:
        found = express(grid, placement)
        if found is not None:
            return found
    own = express(placement_grid(placement), placement)
    assert own is not None, placement
    return own


def tile_strides(sharding: Sharding) -> tuple[int, ...]:
    """Distances between neighbours along the dimensions of an iota: where it cuts the devices."""
    if not isinstance(sharding.devices, IotaTile):
        return ()
    backwards = accumulate(reversed(sharding.devices.reshape_dims), lambda a, b: a * b)
    tiles = _tile_strides(sharding)
    return tuple(dict.fromkeys((*backwards, *tiles)))


def _tile_strides(sharding: Sharding) -> tuple[int, ...]:
    """Cuts of the tiles themselves, where the devices are simply in order."""
    tile = sharding.devices
    if isinstance(tile, IotaTile) and tile.transpose == tuple(range(len(tile.transpose))):
        return tuple(accumulate(reversed(tile.dims), lambda a, b: a * b))
    return ()
