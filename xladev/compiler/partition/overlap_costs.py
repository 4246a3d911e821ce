"""How long kernels and collectives take, for deciding what is worth running beside what."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.compiler.cost import whole_cost
from xladev.compiler.description import HOST_LINK, DeviceDescription, Link
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape
from xladev.hlo.work import total_cost

LEAST_GAIN_S = 5e-6
"""Seconds that a collective must be hidden, besides what another launch costs the host."""

_BANDWIDTH, _FLOPS = 1e12, 1e13
"""Rates of devices that do not say theirs, per second (`DeviceDescription`)."""
_LINK = Link(1e10, latency_s=10e-6)
"""The link between devices that do not describe it; assumed."""
_WHOLE = 2
"""The compilation level at which a program is cut only where it has to be."""
_RUNNING = frozenset({"while", "conditional", "call"})


@dataclass(frozen=True, slots=True)
class OverlapCosts:
    """Estimates for one device.

    Attributes:
        device: rates, links, what a launch costs.
        platform: its name, by which devices name links to their like.
    """

    device: DeviceDescription
    platform: str

    @property
    def least_s(self) -> float:
        """What it must save to begin a collective apart from its end, in seconds."""
        return LEAST_GAIN_S + self.device.launch_overhead_s

    def work_s(self, instruction: HloInstruction) -> float:
        """Seconds of a kernel, or of what a loop or a branch runs once."""
        is_run = instruction.opcode in _RUNNING
        cost = total_cost((instruction,)) if is_run else whole_cost(instruction)
        bandwidth = self.device.memory_spaces[0].bandwidth or _BANDWIDTH
        rate = max(self.device.peak_flops.values(), default=_FLOPS)
        return max(cost.bytes_accessed / bandwidth, (cost.flops + cost.transcendentals) / rate)

    def exchange_s(self, instruction: HloInstruction) -> float:
        """Seconds of a collective: the larger of what a device sends and what it receives."""
        links = self.device.links
        link = links.get(self.platform) or links.get(HOST_LINK) or _LINK
        sent = sum(_nbytes(o.shape) for o in instruction.operands)
        return link.seconds(max(sent, _nbytes(instruction.shape)))


def overlap_costs(target: CompileTarget, options: CompileOptions) -> OverlapCosts | None:
    """The estimates for a target; None if its collectives do not run beside kernels."""
    wanted = options.overlap_collectives and options.level == _WHOLE
    if not (wanted and target.description.overlaps_collectives):
        return None
    return OverlapCosts(target.description, target.name.partition(":")[0])


def _nbytes(shape: Shape) -> int:
    return sum(leaf.nbytes for _, leaf in shape.leaves() if leaf.is_array)
