"""Estimated times of instructions on devices and of transfers between them, from descriptions.

An instruction takes what its operations take by the device's rate of their type, or what its bytes
take by the bandwidth of its first memory, whichever is more. A transfer takes the link between the
two memories, or the links of both to the host.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.compiler.cost import InstructionCost, roofline
from xladev.compiler.description import HOST_LINK, DeviceDescription, Link
from xladev.compiler.partition.assignment import CompileTarget
from xladev.hlo.ir import HloInstruction
from xladev.hlo.work import total_cost

PICOSECONDS = 1e12
"""Times are whole numbers of picoseconds, so that sums are exact."""

UNKNOWN_LINK = Link(8e9, 1e-5)
"""To a device that tells nothing of its link to the host: eight lanes of PCIe 3, 10 us."""


class Estimate:
    """Times on some devices, in picoseconds.

    Args:
        devices: which; numbered by their places here.
    """

    def __init__(self, devices: Sequence[CompileTarget]) -> None:
        self._descriptions = [_rated(device) for device in devices]
        names = [device.name.partition(":")[0] for device in devices]
        numbers = range(len(devices))
        self._ways = [[self._way(names, a, b) for b in numbers] for a in numbers]

    def work(self, i: HloInstruction, device: int) -> int:
        """The time of an instruction with all that it calls."""
        cost = InstructionCost(i, 1, total_cost((i,)))
        return round(roofline(cost, self._descriptions[device]).seconds * PICOSECONDS)

    def transfer(self, nbytes: int, source: int, target: int) -> int:
        """The time of a copy from one device to another."""
        ways = self._ways[source][target]
        return round(sum(link.seconds(nbytes) for link in ways) * PICOSECONDS)

    def room(self, device: int) -> int | None:
        """Bytes of the device's first memory, if they are known."""
        return self._descriptions[device].memory_spaces[0].nbytes

    def _way(self, names: Sequence[str], a: int, b: int) -> tuple[Link, ...]:
        """The links that data takes from one device to another."""
        if a == b:
            return ()
        one, other = self._descriptions[a], self._descriptions[b]
        direct = one.links.get(names[b]) or other.links.get(names[a])
        if direct is not None:
            return (direct,)
        return tuple(link for d in (one, other) if (link := _host_link(d)) is not None)


def _host_link(description: DeviceDescription) -> Link | None:
    """The way between a device and the host; None where they share their memory."""
    if description.host_addressable:
        return None
    found = description.links.get(HOST_LINK)
    if found is None and description.transfer_bandwidth:
        return Link(description.transfer_bandwidth, UNKNOWN_LINK.latency_s)
    return found or UNKNOWN_LINK


def _rated(device: CompileTarget) -> DeviceDescription:
    """The device with its rates, which are measured where the vendor gives none."""
    return device.description if device.description.peak_flops else device.rated()
