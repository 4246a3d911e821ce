"""Custom calls at the borders of manual regions: whole arrays in, one device's part out, and back.

Evaluated on all devices of a mesh at once (see `hlo/multi_device.py`): outside of a manual region
every device holds the same whole arrays; inside, its own parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from xladev.errors import EvaluationError
from xladev.hlo.attributes import Sharding
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.devices import DeviceLink, MeshAxes, link_of
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Evaluation, InstructionView, OpCall
from xladev.hlo.ops.dimension_rules import parts_of
from xladev.hlo.shape import Shape

ENTER = ("xla.sdy.GlobalToLocalShape", "SPMDFullToShardShape")
LEAVE = ("xla.sdy.LocalToGlobalShape", "SPMDShardToFullShape")

_HINT = "evaluate() of xladev.hlo.multi_device evaluates on all devices of the mesh"
_MESHES = "xla.sdy.meshes"
_SIDES = ("xla.sdy.in_shardings", "xla.sdy.out_shardings")
_MESH = re.compile(r"([\w.$-]+)\s*=\s*#sdy\.mesh<\[([^\]]*)\](?:,\s*device_ids=\[([\d,\s]*)\])?")
_AXIS = re.compile(r'"([^"]+)"\s*=\s*(\d+)')
_PER_VALUE = re.compile(r"<@([\w.$-]+),\s*\[((?:[^\[\]])*)\]")
_DIMENSION = re.compile(r"\{([^{}]*)\}")
_AXIS_REF = re.compile(r'"([^"]+)"(?::\((\d+)\)(\d+))?')


def has_manual_region(module: HloModule) -> bool:
    """True if some computation enters or leaves a manual region."""
    return any(
        i.opcode == "custom-call" and i["custom_call_target"] in (*ENTER, *LEAVE)
        for computation in module.computations
        for i in computation.instructions
    )


def module_meshes(module: HloModule) -> dict[str, MeshAxes]:
    """The named meshes of a module, from its frontend attribute ``xla.sdy.meshes``."""
    text = dict(module.header.frontend_attributes).get(_MESHES, "").replace('\\"', '"')
    meshes: dict[str, MeshAxes] = {}
    for name, axes, ids in _MESH.findall(text):
        sizes = tuple((axis, int(size)) for axis, size in _AXIS.findall(axes))
        order = tuple(int(i) for i in re.findall(r"\d+", ids))
        meshes[name] = MeshAxes(sizes, order)
    return meshes


@dataclass(frozen=True, slots=True)
class ManualParts:
    """How one array is cut over devices.

    Attributes:
        counts: number of parts per dimension.
        part_of: which part, per dimension, a device (by partition) holds.
    """

    counts: tuple[int, ...]
    part_of: Callable[[int], tuple[int, ...]]

    def cut(self, whole: Array, partition: int) -> Array:
        """The part of one device."""
        return whole[self._window(whole.shape, partition)].copy()

    def join(self, parts: Mapping[int, Array], dims: tuple[int, ...]) -> Array:
        """The whole array, of dimensions ``dims``, from the parts of some devices."""
        whole = np.zeros(dims, next(iter(parts.values())).dtype)
        for partition in reversed(tuple(parts)):
            whole[self._window(dims, partition)] = parts[partition]
        return whole

    def _window(self, dims: Sequence[int], partition: int) -> tuple[slice, ...]:
        sizes = [size // count for size, count in zip(dims, self.counts, strict=True)]
        at = self.part_of(partition)
        return tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, sizes, strict=True))


def _named_parts(
    mesh: MeshAxes, dimensions: Sequence[str], manual: frozenset[str], rank: int
) -> ManualParts:
    """Parts by axes of a mesh: each dimension names the axes that cut it, first one outermost."""
    cuts = [
        [ref for ref in _AXIS_REF.findall(text) if ref[0] in manual] for text in dimensions
    ] or [[] for _ in range(rank)]
    counts = tuple(prod(_axis_cut(mesh, ref)[0] for ref in refs) for refs in cuts)

    def part_of(partition: int) -> tuple[int, ...]:
        coordinates = mesh.coordinates(partition)
        found: list[int] = []
        for refs in cuts:
            at = 0
            for ref in refs:
                size, step = _axis_cut(mesh, ref)
                at = at * size + coordinates[ref[0]] // step % size
            found.append(at)
        return tuple(found)

    return ManualParts(counts, part_of)


def _axis_cut(mesh: MeshAxes, ref: tuple[str, str, str]) -> tuple[int, int]:
    """Number of parts that an axis, or a part of it, makes; and the step of its coordinate."""
    whole = dict(mesh.axes)[ref[0]]
    if not ref[1]:
        return whole, 1
    size = int(ref[2])
    return size, whole // (int(ref[1]) * size)


def tiled_parts(sharding: Sharding | None, rank: int) -> ManualParts:
    """Parts by a tile assignment; whole arrays where there is none.

    Args:
        sharding: a tiled one; any other kind cuts nothing.
        rank: of the array.
    """
    if sharding is None or sharding.kind != "tiled":
        return ManualParts((1,) * rank, lambda _: (0,) * rank)
    ids = sharding.devices
    flat = np.asarray(ids if isinstance(ids, tuple) else ids.device_ids()).reshape(-1)
    counts = sharding.tile_dims[:rank]
    places = np.unravel_index(np.argsort(flat), sharding.tile_dims)
    return ManualParts(
        counts, lambda partition: tuple(int(axis[partition]) for axis in places[:rank])
    )


def border_parts(meshes: Mapping[str, MeshAxes], instruction: InstructionView) -> list[ManualParts]:
    """How the whole arrays on the outer side of a border are cut.

    Args:
        meshes: of the module.
        instruction: a custom call of one of the targets ENTER or LEAVE.

    Raises:
        EvaluationError: it names a mesh that the module does not have.
    """
    if instruction["custom_call_target"] in ENTER:
        wholes = [operand.shape for operand in instruction.operands]
        return _parts(meshes, instruction, _SIDES[0], wholes)
    return _parts(meshes, instruction, _SIDES[1], parts_of(instruction.shape))


def _parts(
    meshes: Mapping[str, MeshAxes],
    instruction: InstructionView,
    attribute: str,
    wholes: Sequence[Shape],
) -> list[ManualParts]:
    attributes: Mapping[str, str] = dict(instruction.note.frontend_attributes)
    if attribute not in attributes:
        return [
            tiled_parts(sharding, shape.rank)
            for sharding, shape in zip(_shardings(instruction, len(wholes)), wholes, strict=True)
        ]
    manual = _manual_axes(instruction)
    pairs = zip(named_shardings(attributes[attribute]), wholes, strict=True)
    return [named_parts(meshes, named, shape.rank, manual) for named, shape in pairs]


def _manual_axes(instruction: InstructionView) -> frozenset[str]:
    attributes: Mapping[str, str] = dict(instruction.note.frontend_attributes)
    return frozenset(re.findall(r'"([^"]+)"', _plain(attributes.get("xla.sdy.manual_axes", ""))))


def border_groups(
    meshes: Mapping[str, MeshAxes], instruction: InstructionView, count: int
) -> tuple[tuple[int, ...], ...]:
    """Which devices hold the parts of one array: those that differ in manual axes only.

    Along the other axes all hold the same, or, within another manual region, arrays of their own.
    The devices of each group are in the order of their places along the manual axes.

    Args:
        meshes: of the module.
        instruction: a custom call of one of the targets ENTER or LEAVE.
        count: number of partitions.
    """
    attributes: Mapping[str, str] = dict(instruction.note.frontend_attributes)
    named = [
        named
        for attribute in _SIDES
        for named in named_shardings(attributes.get(attribute, ""))
        if named.mesh in meshes
    ]
    if not named:
        return (tuple(range(count)),)
    mesh, manual = meshes[named[0].mesh], _manual_axes(instruction)
    groups: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for partition in range(count):
        at = mesh.coordinates(partition)
        outer = tuple(at[name] for name, _ in mesh.axes if name not in manual)
        inner = tuple(at[name] for name, _ in mesh.axes if name in manual)
        groups.setdefault(outer, []).append((inner, partition))
    return tuple(tuple(p for _, p in sorted(group)) for group in groups.values())


@dataclass(frozen=True, slots=True)
class NamedSharding:
    """How one value is laid out, by the axes of a mesh.

    Attributes:
        text: as it is written, without the attribute around it.
        mesh: name of the mesh.
        dimensions: for each dimension the axes that cut it, and ``?`` where it is open.
    """

    text: str
    mesh: str
    dimensions: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """True if no axis cuts it, and some dimension may be cut."""
        return "?" in "".join(self.dimensions) and '"' not in "".join(self.dimensions)


def named_shardings(text: str) -> list[NamedSharding]:
    """The shardings in an attribute ``#sdy.sharding...``, one per value."""
    return [
        NamedSharding(found[0], found[1], tuple(_DIMENSION.findall(found[2])))
        for found in _PER_VALUE.finditer(_plain(text))
    ]


def named_parts(
    meshes: Mapping[str, MeshAxes],
    named: NamedSharding,
    rank: int,
    manual: frozenset[str] | None = None,
) -> ManualParts:
    """Parts by the axes of a mesh.

    Args:
        meshes: of the module.
        named: how the value is laid out.
        rank: of the array.
        manual: the axes that count; None means all.

    Raises:
        EvaluationError: it names a mesh that the module does not have.
    """
    mesh = meshes.get(named.mesh)
    if mesh is None:
        raise EvaluationError(f"the module has no mesh {named.mesh!r}")
    axes = frozenset(name for name, _ in mesh.axes) if manual is None else manual
    return _named_parts(mesh, named.dimensions, axes, rank)


def _plain(text: str) -> str:
    return text.replace('\\"', '"')


def _shardings(instruction: InstructionView, count: int) -> list[Sharding | None]:
    """Tile assignments at a border: of the operand on the way in, of the result on the way out."""
    entering = instruction["custom_call_target"] in ENTER
    notes = [operand.note for operand in instruction.operands] if entering else [instruction.note]
    found: list[Sharding | None] = [note.sharding for note in notes]
    if len(found) == 1 and found[0] is not None and found[0].kind == "tuple":
        found = list(found[0].parts)
    return found if len(found) == count else found * count


def _evaluate_enter(
    evaluation: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    link = link_of(evaluation)
    parts = border_parts(link.meshes, instruction)
    _check_devices(link, parts)
    cut = tuple(
        part.cut(value, link.device.partition) for part, value in zip(parts, operands, strict=True)
    )
    return cut if instruction.shape.is_tuple else cut[0]


def _evaluate_leave(
    evaluation: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    link = link_of(evaluation)
    wholes = parts_of(instruction.shape)
    parts = border_parts(link.meshes, instruction)
    _check_devices(link, parts)
    members = link.exchange(instruction, link.topology.devices, tuple(operands))
    groups = border_groups(link.meshes, instruction, len(members))
    mine = next(group for group in groups if link.device.partition in group)
    joined = tuple(
        part.join({p: values[p] for p in mine}, shape.dims)
        for part, values, shape in zip(parts, zip(*members, strict=True), wholes, strict=True)
    )
    return joined if instruction.shape.is_tuple else joined[0]


def _check_border(call: OpCall) -> None:
    pairs = (call.operands, parts_of(call.result()))
    kinds = [[None if s.is_tuple else (s.element_type, s.rank) for s in side] for side in pairs]
    fits = kinds[0] == kinds[1] and None not in kinds[0]
    message = "it gives an array for each operand, of its rank, and a token for a token"
    call.require(fits, "custom_call_border", message)


def _check_devices(link: DeviceLink, parts: Sequence[ManualParts]) -> None:
    needed = max((prod(part.counts) for part in parts), default=1)
    found = len(link.topology.devices)
    if found < needed:
        raise EvaluationError(
            f"{needed} devices hold parts of an array, but {found} evaluate the program",
            hint=_HINT,
        )


def manual_device_count(module: HloModule) -> int:
    """Number of devices that a module's manual regions are for; 1 if it has none."""
    if not has_manual_region(module):
        return 1
    counts = [mesh.size for mesh in module_meshes(module).values()]
    for computation in module.computations:
        for i in computation.instructions:
            sharding = i.note.sharding
            if sharding is not None and sharding.kind == "tiled":
                counts.append(prod(sharding.tile_dims))
    return max(counts, default=1)


_EVALUATE: tuple[tuple[tuple[str, ...], str, Any], ...] = (
    (ENTER, "Cuts whole arrays into the parts of each device.", _evaluate_enter),
    (LEAVE, "Joins the parts of all devices.", _evaluate_leave),
)

CALLS: tuple[CustomCall, ...] = tuple(
    CustomCall(target, summary, evaluate, _check_border, side_effect=target.startswith("xla.sdy"))
    for targets, summary, evaluate in _EVALUATE
    for target in targets
)
