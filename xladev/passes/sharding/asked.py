"""Shardings that a program asks for: annotations in all their forms, by the atoms of one grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from xladev.hlo.attributes import AxisRef, IotaTile, Sharding
from xladev.hlo.custom_calls.manual import module_meshes
from xladev.hlo.devices import MeshAxes
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.placement import SDY_SHARDING, Placement
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding, express, whole_on
from xladev.hlo.sharding.grid import Atoms, Grid, grid_of, mesh_grid
from xladev.hlo.sharding.sdy import SdySharding, read_shardings
from xladev.hlo.sharding.tiles import (
    axes_atoms,
    expressed,
    summand_placement,
    tile_placement,
    tile_strides,
)

ON_ONE_DEVICE = "it lies on one device alone"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of one array.

    Attributes:
        sharding: at least this; its grid may be one of its own.
        is_open: for each dimension, may propagation cut it further.
        priorities: for each dimension, the round from which it counts.
        replicated: atoms that must not cut it.
        fault: why it cannot be had; empty if it can.
    """

    sharding: AxisSharding
    is_open: tuple[bool, ...]
    priorities: tuple[int, ...]
    replicated: Atoms = ()
    fault: str = ""

    @property
    def says_nothing(self) -> bool:
        """True if no axis cuts it, and every dimension may be cut."""
        is_free = all(self.is_open) and not self.replicated
        return self.sharding.is_whole and is_free and not self.fault


def closed(sharding: AxisSharding, fault: str = "") -> Asked:
    """Exactly this sharding."""
    rank = len(sharding.dims)
    return Asked(sharding, (False,) * rank, (0,) * rank, fault=fault)


def axis_placement(grid: Grid, atoms: Atoms) -> Placement:
    """The placement of a line that is cut along some atoms."""
    return AxisSharding(grid, (atoms,)).placement


@dataclass(frozen=True, slots=True)
class Annotations:
    """The shardings in a program.

    Attributes:
        count: number of partitions.
        meshes: of the module.
        grid: of its devices; what it cannot express has a grid of its own.
        root: of the entry.
    """

    count: int
    meshes: Mapping[str, MeshAxes]
    grid: Grid = field(compare=False)
    root: HloInstruction | None = field(default=None, compare=False)

    def of(self, i: HloInstruction) -> tuple[Asked | None, ...]:
        """What is asked of each array of an instruction's value; None where nothing is."""
        shapes = flattened_shapes(i.shape)
        texts = dict(i.note.frontend_attributes).get(SDY_SHARDING)
        if texts is not None:
            named = read_shardings(texts)
            named = named * len(shapes) if len(named) == 1 else named
            return tuple(self.by_axes(n) for n in named) if len(named) == len(shapes) else ()
        sharding = i.note.sharding
        if sharding is None or self._is_filled_up(i):
            return (None,) * len(shapes)
        parts = sharding.parts if sharding.kind == "tuple" else (sharding,) * len(shapes)
        if len(parts) != len(shapes):
            return (None,) * len(shapes)
        ranks = [s.rank if s.is_array else None for s in shapes]
        return tuple(
            None if rank is None else self._by_tiles(part, rank)
            for part, rank in zip(parts, ranks, strict=True)
        )

    def _is_filled_up(self, i: HloInstruction) -> bool:
        """True for a function's results by Shardy: what it leaves open is ``replicated`` there.

        What it asks for stands at each result, in a call of ``xla.sdy.FuncResultSharding``.
        """
        return bool(self.meshes) and i.opcode == "tuple" and i is not self.root

    def by_axes(self, named: SdySharding) -> Asked:
        """What a sharding of Shardy asks for."""
        rank = len(named.dims)
        whole = whole_on(self.grid, rank)
        mesh = named.mesh_in(self.meshes)
        if mesh is None:
            return closed(whole, f"the module has no mesh {named.mesh!r}")
        if not mesh.axes and mesh.device_ids:
            return closed(whole, ON_ONE_DEVICE)
        if mesh.size == 1:
            return Asked(whole, *_marks(named))
        if mesh.size != self.count:
            return closed(whole, f"its mesh has {mesh.size} devices, not {self.count}")
        refs = [axis for d in named.dims for axis in d.axes]
        own = grid_of(mesh, (*refs, *named.replicated, *named.unreduced))
        dims = tuple(axes_atoms(own, d.axes) for d in named.dims)
        if None in dims:
            return closed(whole, "its parts of axes exclude each other")
        cut = AxisSharding(own, tuple(d or () for d in dims))
        sharding = expressed([self.grid], cut.placement)
        replicated = axes_atoms(self.grid, named.replicated) or ()
        if named.unreduced:
            summed = express(self.grid, axis_placement(own, axes_atoms(own, named.unreduced) or ()))
            if summed is None or sharding.grid != self.grid:
                return closed(whole, "a sum is kept apart along axes of another mesh")
            sharding = replace(sharding, unreduced=summed.atoms)
        return Asked(sharding, *_marks(named), replicated)

    def _by_tiles(self, sharding: Sharding, rank: int) -> Asked | None:
        if sharding.kind == "unknown":
            return None
        placement = tile_placement(sharding, rank, self.count)
        if placement is None:
            fault = _FAULTS.get(sharding.kind, f"it is not for {self.count} devices")
            return closed(whole_on(self.grid, rank), fault)
        cut = expressed([self.grid], placement)
        summands = summand_placement(sharding, rank, self.count)
        if summands is None:
            return closed(cut)
        summed = express(self.grid, summands)
        if summed is None or cut.grid != self.grid:
            return closed(cut, "a sum is kept apart along axes of another mesh")
        return closed(replace(cut, unreduced=summed.atoms))


def _marks(named: SdySharding) -> tuple[tuple[bool, ...], tuple[int, ...]]:
    """What is open, and priorities, by dimension."""
    return tuple(d.is_open for d in named.dims), tuple(d.priority for d in named.dims)


_FAULTS = {"maximal": ON_ONE_DEVICE}


def annotations_of(module: HloModule, count: int) -> Annotations:
    """The shardings in a module of ``count`` partitions."""
    meshes = module_meshes(module)
    return Annotations(count, meshes, _grid(module, meshes, count), module.entry.root)


def _grid(module: HloModule, meshes: Mapping[str, MeshAxes], count: int) -> Grid:
    """The grid of the first mesh that has all devices, cut where any sharding cuts."""
    fitting = [m for m in meshes.values() if m.size == count and m.axes]
    base = fitting[0] if fitting else MeshAxes((("devices", count),))
    refs, strides = [], []
    for mesh in fitting:
        if mesh.device_ids == base.device_ids:
            strides += _strides(mesh)
    for sharding in _annotated(module, meshes):
        if isinstance(sharding, SdySharding):
            refs += [axis for d in sharding.dims for axis in d.axes if axis.size]
        elif isinstance(sharding.devices, IotaTile) and not base.device_ids:
            strides += tile_strides(sharding)
    return mesh_grid(base.axes, base.device_ids, (*refs, *_as_refs(base, strides)))


def _strides(mesh: MeshAxes) -> list[int]:
    found, stride = [], 1
    for _, size in reversed(mesh.axes):
        stride *= size
        found.append(stride)
    return found


def _as_refs(mesh: MeshAxes, strides: list[int]) -> Iterator[AxisRef]:
    """Parts of axes that end where devices are ``strides`` apart."""
    inner = 1
    for name, size in reversed(mesh.axes):
        for stride in strides:
            if inner < stride < inner * size and stride % inner == 0:
                part = stride // inner
                if size % part == 0:
                    yield AxisRef(name, size // part, part)
        inner *= size


def _annotated(
    module: HloModule, meshes: Mapping[str, MeshAxes]
) -> Iterator[SdySharding | Sharding]:
    for computation in module.computations:
        for i in computation.instructions:
            for name, text in i.note.frontend_attributes:
                if name in _TEXTS:
                    yield from read_shardings(text)
            sharding = i.note.sharding
            if sharding is not None:
                yield from sharding.parts if sharding.kind == "tuple" else (sharding,)


_TEXTS = (SDY_SHARDING, "xla.sdy.in_shardings", "xla.sdy.out_shardings")
