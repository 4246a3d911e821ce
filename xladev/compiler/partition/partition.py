"""The one partition mechanism: cuts a computation into acyclic regions, one device each.

An instruction's level starts as the number of borders between devices on the longest way to it. A
region is all of one device and one level: edges within a region keep the level and edges between
regions raise it, so that regions cannot depend on each other in a circle. Instructions then sink to
later regions of their device where their users allow it, which empties regions and adds none.

Where collectives run beside kernels, the computation is first cut into pieces around them
(`collective_schedule.py`), and each piece is partitioned by itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from xladev.compiler.clustering.clusters import Cluster
from xladev.compiler.clustering.levels import Clustering
from xladev.compiler.partition.assignment import (
    CONTROL_OPCODES,
    SDK,
    STRUCTURAL_OPCODES,
    Assignment,
)
from xladev.compiler.partition.collective_schedule import (
    Costs,
    DoneStep,
    StartStep,
    pieces,
)
from xladev.compiler.partition.region_values import RegionValue, operand_sources, sources
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.work import total_cost
from xladev.passes.effects import computations_with_effects, has_effect


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Instructions that one device runs in one go.

    Attributes:
        device: name of the device.
        instructions: in an order where operands come first.
    """

    device: str
    instructions: tuple[HloInstruction, ...]


Step = Region | HloInstruction | StartStep | DoneStep
"""A region, one instruction that the SDK runs, or the start or the end of a collective."""
Live = dict[HloInstruction, set[HloInstruction]]
"""Instructions that run, in program order, with those that must run before each."""


def partition(
    computation: HloComputation,
    devices: Mapping[HloInstruction, str],
    effects: AbstractSet[HloComputation] = frozenset(),
    *,
    clustering: Clustering | None = None,
    launch_order: Sequence[str] = (),
    overlap: Costs | None = None,
) -> tuple[Step, ...]:
    """Steps that together run what the computation's result and side effects need.

    Args:
        computation: what to cut.
        devices: device name, or `SDK`, of each instruction that is no structure.
        effects: computations that must run even if nobody uses their values.
        clustering: what regions consist of, other than all that can be together.
        launch_order: see `Assignment.launch_order`.
        overlap: estimates, if collectives may run beside kernels; not with ``clustering``.

    Returns:
        Steps in an order where a step needs only earlier ones.
    """
    live = _live(computation, effects)
    names = dict.fromkeys((*launch_order, *devices.values()))
    order = {name: at for at, name in enumerate(names)}
    if clustering is not None:
        return _clustered(clustering.clusters(live, devices), live, devices, order)
    steps: list[Step] = []
    for piece in [tuple(live)] if overlap is None else pieces(live, devices, overlap):
        if isinstance(piece, tuple):
            inside = _live_within(piece, live)
            steps += _in_levels(inside, devices, order, is_beside=bool(launch_order))
        else:
            steps.append(piece)
    return tuple(steps)


def _live_within(piece: Sequence[HloInstruction], live: Live) -> Live:
    """The instructions of a piece, with what they need of it."""
    if len(piece) == len(live):
        return live
    own = set(piece)
    return {i: live[i] & own for i in piece}


def _in_levels(
    live: Live,
    devices: Mapping[HloInstruction, str],
    order: Mapping[str, int],
    *,
    is_beside: bool,
) -> tuple[Step, ...]:
    """A step for each device and level."""
    levels = _levels(live, devices, is_beside=is_beside)
    groups: dict[tuple[int, int, int], list[HloInstruction]] = {}
    for at, instruction in enumerate(live):
        device = devices[instruction]
        alone = at + 1 if device == SDK else 0
        groups.setdefault((levels[instruction], order[device], alone), []).append(instruction)
    return tuple(_step(devices[groups[key][0]], groups[key]) for key in sorted(groups))


def _clustered(
    clusters: Sequence[Cluster],
    live: Live,
    devices: Mapping[HloInstruction, str],
    order: Mapping[str, int],
) -> tuple[Step, ...]:
    """A step for each cluster; of those that may run at the same time, the first devices' first."""
    levels: dict[HloInstruction, int] = {}
    for cluster in clusters:
        needed = {n for i in cluster for n in live[i] if n in levels}
        ways = (levels[n] + _border(n, cluster[0], devices) for n in needed)
        levels.update(dict.fromkeys(cluster, max(ways, default=0)))
    ordered = sorted(clusters, key=lambda cluster: (levels[cluster[0]], order[devices[cluster[0]]]))
    return tuple(_step(devices[cluster[0]], cluster) for cluster in ordered)


def cut(
    module: HloModule,
    assignment: Assignment,
    *,
    clustering: Clustering | None = None,
    overlap: Costs | None = None,
) -> Mapping[HloComputation, tuple[Step, ...]]:
    """The partition of each computation that the SDK runs, the entry among them.

    Args:
        module: prepared.
        assignment: where its instructions run.
        clustering: what regions consist of, other than all that can be together.
        overlap: see `partition`.
    """
    effects = computations_with_effects(module)
    steps: dict[HloComputation, tuple[Step, ...]] = {}
    inside = {module.entry}
    for computation in reversed(module.computations):
        if computation in inside:
            found = partition(
                computation,
                assignment.devices,
                effects,
                clustering=clustering,
                launch_order=assignment.launch_order,
                overlap=overlap,
            )
            steps[computation] = found
            inside.update(c for step in found for c in callees(step))
    return steps


def callees(step: Step) -> tuple[HloComputation, ...]:
    """The computations that the SDK runs for a step."""
    if not isinstance(step, HloInstruction) or step.opcode not in CONTROL_OPCODES:
        return ()
    return step.called


def instructions_of(step: Step) -> tuple[HloInstruction, ...]:
    """The instructions that a step runs; a collective runs when it begins."""
    match step:
        case Region():
            return step.instructions
        case StartStep():
            return (step.instruction,)
        case DoneStep():
            return ()
        case _:
            return (step,)


def _step(device: str, instructions: Sequence[HloInstruction]) -> Step:
    return instructions[0] if device == SDK else Region(device, tuple(instructions))


def _levels(
    live: Live, devices: Mapping[HloInstruction, str], *, is_beside: bool
) -> dict[HloInstruction, int]:
    """A level for each instruction; steps run in the order of levels."""
    levels: dict[HloInstruction, int] = {}
    for instruction, needed in live.items():
        ways = (levels[n] + _border(n, instruction, devices) for n in needed)
        levels[instruction] = max(ways, default=0)
    _sink(live, devices, levels, is_beside=is_beside)
    return levels


def _sink(
    live: Live,
    devices: Mapping[HloInstruction, str],
    levels: dict[HloInstruction, int],
    *,
    is_beside: bool,
) -> None:
    """Moves instructions to the last region of their device that their users allow.

    Not what takes time on a device that may work beside others: it would wait for them.
    """
    regions: dict[str, set[int]] = {}
    for instruction, level in levels.items():
        regions.setdefault(devices[instruction], set()).add(level)
    ordered = {device: sorted(found) for device, found in regions.items() if device != SDK}
    limits: dict[HloInstruction, int] = {}
    for instruction in reversed(live):
        needed = live[instruction]
        device, level = devices[instruction], levels[instruction]
        stays = device == SDK or (is_beside and _takes_time(instruction))
        if instruction in limits and not stays:
            found = ordered[device]
            level = levels[instruction] = found[bisect_right(found, limits[instruction]) - 1]
        for n in needed:
            limit = level - _border(n, instruction, devices)
            limits[n] = min(limits.get(n, limit), limit)


def _takes_time(instruction: HloInstruction) -> bool:
    cost = total_cost((instruction,))
    return cost.flops + cost.transcendentals + cost.bytes_accessed >= _MUCH


_MUCH = 1 << 18
"""Operations and bytes of what is worth a region of its own."""


def _border(
    earlier: HloInstruction, later: HloInstruction, devices: Mapping[HloInstruction, str]
) -> int:
    return 0 if devices[later] == devices[earlier] != SDK else 1


def needs(instruction: HloInstruction) -> set[HloInstruction]:
    """Instructions, other than structure, that must run before this one."""
    values = operand_sources(instruction.operands)
    for predecessor in instruction.note.control_predecessors:
        values.extend(sources(predecessor))
    return {value.producer for value in values if value.producer.opcode not in STRUCTURAL_OPCODES}


def _live(computation: HloComputation, effects: AbstractSet[HloComputation]) -> Live:
    """What the result and side effects need, in program order, with what each needs itself.

    Structure is left out.
    """
    wanted = {value.producer for value in sources(computation.root)}
    wanted |= {i for i in computation.instructions if has_effect(i, effects)}
    live: list[tuple[HloInstruction, set[HloInstruction]]] = []
    for instruction in reversed(computation.instructions):
        if instruction in wanted and instruction.opcode not in STRUCTURAL_OPCODES:
            needed = needs(instruction)
            wanted |= needed
            live.append((instruction, needed))
    return dict(reversed(live))


def region_outputs(
    steps: tuple[Step, ...], root: HloInstruction
) -> dict[Region, list[RegionValue]]:
    """For each region, the values that other steps or the result need, in a fixed order."""
    home = {i: step for step in steps if isinstance(step, Region) for i in step.instructions}
    outputs: dict[Region, dict[RegionValue, None]] = {s: {} for s in steps if isinstance(s, Region)}

    def take(values: list[RegionValue], user: Step | None) -> None:
        for value in values:
            region = home.get(value.producer)
            if region is not None and region is not user:
                outputs[region][value] = None

    for step in steps:
        for instruction in instructions_of(step):
            take(operand_sources(instruction.operands), step)
    take(list(sources(root)), None)
    return {region: list(values) for region, values in outputs.items()}
