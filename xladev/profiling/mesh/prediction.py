"""A step of a program on a mesh: the collectives are simulated, message by message.

What is simulated is what the SDK's own processes send, with one device each. Work and messages do
not overlap, and all devices do the same work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from xladev.compiler.cost import loop_iterations, program_cost
from xladev.compiler.program.collective_thunk import simple_reduction
from xladev.errors import OptionError
from xladev.hlo.device_groups import device_groups
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.shape import Shape
from xladev.profiling.mesh.network import Network
from xladev.runtime.distributed.rounds import (
    Message,
    Round,
    all_gather_rounds,
    all_reduce_rounds,
    exchange_rounds,
)

_REDUCING = ("all-reduce", "reduce-scatter", "collective-reduce")
_VIEWS = frozenset({"tuple", "get-tuple-element", "bitcast", "parameter", "constant"})


@dataclass(frozen=True, slots=True)
class CollectivePrediction:
    """One collective of a step, in all its iterations.

    Attributes:
        name, opcode: of the instruction.
        iterations: how often it runs in a step.
        nbytes: that all devices send together.
        seconds: it takes.
    """

    name: str
    opcode: str
    iterations: int
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MeshPrediction:
    """One step of a program.

    Attributes:
        collectives: in the order of the program.
        memory_nbytes: that a device needs at most: arguments, results, and what lives at once.
    """

    collectives: tuple[CollectivePrediction, ...]
    memory_nbytes: int

    @property
    def exchange_s(self) -> float:
        """How long the collectives take, in seconds."""
        return sum(each.seconds for each in self.collectives)


def predict(module: HloModule, network: Network) -> MeshPrediction:
    """Predicts what a step exchanges; ``network`` has counted the bytes of each link then.

    Args:
        module: the program of one device, with its collectives.
        network: the devices.

    Raises:
        OptionError: the program is for another number of devices.
        XladevError: a collective does not fit the devices.
    """
    counts = device_counts(module, network.count)
    found: list[CollectivePrediction] = []
    for each in program_cost(module, loop_iterations(module)).instructions:
        i = each.instruction
        if i.op.category == "collective" and i.operands:
            nbytes, taken = _sent(i, counts, network, each.iterations)
            found.append(CollectivePrediction(i.name, i.opcode, each.iterations, nbytes, taken))
    return MeshPrediction(tuple(found), most_alive(module))


def device_counts(module: HloModule, devices: int) -> tuple[int, int]:
    """Replicas and partitions: as the program says, or one of them is the mesh's.

    Raises:
        OptionError: the program is for another number of devices.
    """
    replicas, partitions = module.header.replica_count, module.header.num_partitions
    if replicas * partitions == devices:
        return replicas, partitions
    if replicas * partitions > 1 and not _is_open(module):
        raise OptionError(
            f"the program is for {replicas * partitions} devices, the mesh has {devices}",
            why="its collectives name their devices",
            hint="name a mesh of as many, or replica_groups={} in the program",
        )
    return (replicas, devices // replicas) if partitions > 1 else (devices, 1)


def _is_open(module: HloModule) -> bool:
    """True if no collective names devices."""
    for computation in module.computations:
        for i in computation.instructions:
            if "replica_groups" in i.op.by_name and i["replica_groups"].expand():
                return False
            if "source_target_pairs" in i.op.by_name:
                return False
    return True


def _sent(
    i: HloInstruction, counts: tuple[int, int], network: Network, iterations: int
) -> tuple[int, float]:
    """Bytes that all send, and seconds."""
    nbytes, taken = 0, 0.0
    for messages in collective_rounds(i, counts):
        once = network.send(messages)
        for _ in range(iterations - 1):
            network.send(messages)
        nbytes += iterations * sum(m[2] for m in messages)
        taken += iterations * once
    return nbytes, taken


def collective_rounds(i: HloInstruction, counts: tuple[int, int]) -> Iterator[list[Message]]:
    """What devices send in one run of a collective, round by round; groups do so side by side.

    Args:
        i: the collective.
        counts: replicas and partitions.

    Raises:
        XladevError: it does not fit the devices.
    """
    groups = [g for g in device_groups(i, *counts) if len(g) > 1]
    stacked = i.opcode == "all-to-all" and not i["dimensions"]
    for operand in i.operands[:1] if stacked else i.operands:
        rows = zip_longest(*(_placed(i, operand.shape, group) for group in groups), fillvalue=())
        for row in rows:
            yield [message for part in row for message in part]


def _placed(i: HloInstruction, shape: Shape, group: tuple[int, ...]) -> Iterator[list[Message]]:
    """The rounds of one operand, from device to device."""
    for each in _rounds(i, shape, len(group)):
        yield [(group[a], group[b], nbytes) for a, b, nbytes in each]


def _rounds(i: HloInstruction, shape: Shape, ranks: int) -> Iterator[Round]:
    nbytes = shape.nbytes
    if i.opcode in _REDUCING and simple_reduction(i.called[0]):
        return all_reduce_rounds(ranks, shape.size, nbytes // max(shape.size, 1))
    if i.opcode == "all-to-all":
        return all_gather_rounds(ranks, nbytes // ranks if i["dimensions"] else nbytes)
    if i.opcode == "collective-permute":
        pairs = [(int(a), int(b)) for a, b in i["source_target_pairs"]]
        return exchange_rounds((a, b, nbytes) for a, b in pairs)
    if i.opcode == "collective-broadcast":
        return exchange_rounds((0, b, nbytes) for b in range(ranks))
    return all_gather_rounds(ranks, nbytes)


def most_alive(module: HloModule) -> int:
    """Bytes of arguments and results, and most that lives at once of other values of the entry.

    Instructions run in their order and nothing is fused; what loops need within counts once.
    """
    entry = module.entry
    order = list(entry.instructions)
    last: dict[HloInstruction, int] = {}
    for number, i in reversed(list(enumerate(order))):
        end = max(last.get(i, number), number) if i.opcode in _VIEWS else number
        for operand in i.operands:
            last[operand] = max(last.get(operand, 0), end)
    ends: dict[int, list[HloInstruction]] = {}
    for value, number in last.items():
        ends.setdefault(number, []).append(value)
    alive, most = 0, 0
    for number, i in enumerate(order):
        if i.opcode not in _VIEWS:
            alive += i.shape.nbytes
        most = max(most, alive)
        alive -= sum(v.shape.nbytes for v in ends.get(number, ()) if v.opcode not in _VIEWS)
    given = sum(p.shape.nbytes for p in entry.parameters)
    return given + most
