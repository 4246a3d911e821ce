"""What the collectives of a program move: how many of each kind, and bytes that a device receives.

The model is that of rings and direct exchanges, which theory takes too: each of n devices receives
(n - 1) / n of what an all-gather gives, or of what a reduce-scatter or an all-to-all takes, and
twice that of an all-reduce. Loops count as often as they run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xladev.compiler.cost import loop_iterations, program_cost
from xladev.hlo.device_groups import device_groups
from xladev.hlo.ir import HloInstruction, HloModule

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Collectives of one run of a program.

    Attributes:
        counts: how many run, by kind; several arrays of one collective count as one.
        nbytes: that a device receives, by kind; the mean of the devices where they differ.
    """

    counts: Mapping[str, int]
    nbytes: Mapping[str, float]

    @property
    def total_nbytes(self) -> float:
        """Of all kinds."""
        return sum(self.nbytes.values())


def collective_traffic(
    module: HloModule, devices: int, loops: Mapping[str, int] | None = None
) -> Traffic:
    """Counts the collectives of the program of one device.

    Args:
        module: partitioned, and not replicated.
        devices: that run it, which a compiled module does not say.
        loops: how often each loop runs, by name; default: what is plain to see.

    Raises:
        ValueError: how often a loop runs is not known.
    """
    cost = program_cost(module, loop_iterations(module) if loops is None else loops)
    if cost.uncounted:
        raise ValueError(f"how often does {cost.uncounted[0].name} run?")
    counts, nbytes = Counter[str](), Counter[str]()
    for each in cost.instructions:
        kind = each.instruction.opcode
        if kind in KINDS:
            counts[kind] += each.iterations
            nbytes[kind] += each.iterations * _received(each.instruction, devices)
    return Traffic(counts, nbytes)


def _received(i: HloInstruction, devices: int) -> float:
    """Bytes that a device receives, the mean of all."""
    taken = sum(o.shape.nbytes for o in i.operands)
    if i.opcode == "collective-permute":
        return taken * len(i["source_target_pairs"]) / devices
    size = max(map(len, device_groups(i, 1, devices)))
    return _OF[i.opcode](taken, size) * (size - 1) / size


_OF: Mapping[str, Callable[[int, int], float]] = {
    "all-reduce": lambda taken, _: 2 * taken,
    "all-gather": lambda taken, size: taken * size,
    "reduce-scatter": lambda taken, _: taken,
    "all-to-all": lambda taken, _: taken,
}
"""What (n - 1) / n of is received, from what a device gives and the devices of a group."""
