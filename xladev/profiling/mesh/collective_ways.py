"""What each collective of a program goes over: axes of a mesh, links, machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from xladev.compiler.cost import loop_iterations, program_cost
from xladev.hlo.device_groups import Groups, device_groups
from xladev.hlo.devices import MeshAxes
from xladev.hlo.ir import HloModule
from xladev.profiling.mesh.network import Link, Network
from xladev.profiling.mesh.prediction import collective_rounds, device_counts


@dataclass(frozen=True, slots=True)
class CollectiveWay:
    """One collective.

    Attributes:
        name, opcode, shape: of the instruction.
        iterations: how often it runs in a step.
        groups: of devices that exchange values.
        axes: of the mesh, if the groups run along some.
        device_nbytes: that the device sends in a step that sends most.
        links: how many links its messages go over, by the dimension of the network.
        crosses_machines: True if a message goes from one machine to another.
        seconds: that it takes in a step.
    """

    name: str
    opcode: str
    shape: str
    iterations: int
    groups: Groups
    axes: tuple[str, ...]
    device_nbytes: int
    links: tuple[tuple[str, int], ...]
    crosses_machines: bool
    seconds: float


def collective_ways(
    module: HloModule, network: Network, meshes: Iterable[MeshAxes] = ()
) -> tuple[CollectiveWay, ...]:
    """What the collectives of a program go over, in its order.

    Args:
        module: the program of one device.
        network: the devices.
        meshes: that may name axes, the best first.

    Raises:
        XladevError: the program does not fit the devices.
    """
    counts = device_counts(module, network.count)
    return tuple(_ways(module, network, counts, tuple(meshes)))


def _ways(
    module: HloModule, network: Network, counts: tuple[int, int], meshes: Sequence[MeshAxes]
) -> Iterator[CollectiveWay]:
    for each in program_cost(module, loop_iterations(module)).instructions:
        i = each.instruction
        if i.op.category != "collective" or not i.operands:
            continue
        sent: Counter[int] = Counter()
        links: set[Link] = set()
        seconds = 0.0
        for messages in collective_rounds(i, counts):
            seconds += network.send(messages)
            for source, target, nbytes in messages:
                sent[source] += nbytes
                links.update(network.way(source, target))
        groups = device_groups(i, *counts)
        yield CollectiveWay(
            i.name,
            i.opcode,
            i.shape.to_string(layout=False),
            each.iterations,
            groups,
            next((axes for mesh in meshes if (axes := _axes(groups, mesh))), ()),
            each.iterations * max(sent.values(), default=0),
            tuple(sorted(Counter(network.dimension(link) for link in links).items())),
            any(map(network.is_between_hosts, links)),
            each.iterations * seconds,
        )


def _axes(groups: Groups, mesh: MeshAxes) -> tuple[str, ...]:
    """The axes along which the groups run; the fewest that do."""
    sizes = tuple(size for _, size in mesh.axes)
    if mesh.size != sum(map(len, groups)):
        return ()
    ids = np.array(mesh.device_ids or range(mesh.size)).reshape(sizes)
    wanted = {frozenset(group) for group in groups}
    numbers = range(len(sizes))
    for count in range(1, len(sizes) + 1):
        for chosen in combinations(numbers, count):
            rest = [n for n in numbers if n not in chosen]
            length = int(np.prod([sizes[n] for n in chosen]))
            rows = ids.transpose(*rest, *chosen).reshape(-1, length)
            if {frozenset(map(int, row)) for row in rows} == wanted:
                return tuple(mesh.axes[n][0] for n in chosen)
    return ()
