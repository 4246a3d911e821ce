"""Estimated times of instructions on devices and of transfers between them.

An instruction takes what its operations take by the device's rates, or what its bytes take,
whichever is more (`rates.py`). A transfer takes the link between the two memories, or the links of
both to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.compiler.description import HOST_LINK, DeviceDescription, Link
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.rates import DeviceRates, Work, stated_rates, type_scale
from xladev.hlo.ir import HloInstruction

PICOSECONDS = 1e12
"""Times are whole numbers of picoseconds, so that sums are exact."""

UNKNOWN_LINK = Link(8e9, 1e-5)
"""To a device that tells nothing of its link to the host: eight lanes of PCIe 3, 10 us."""

FindRates = Callable[[CompileTarget], DeviceRates | None]
"""Gives the rates of a device that were measured; None where none were."""


def no_rates(_: CompileTarget) -> DeviceRates | None:
    """None of any device."""
    return None


class Estimate:
    """Times on some devices, in picoseconds.

    Args:
        devices: which; numbered by their places here.
        measured: gives the rates that were measured of a device.
    """

    def __init__(self, devices: Sequence[CompileTarget], measured: FindRates = no_rates) -> None:
        rows = [_rated(device, measured) for device in devices]
        self._descriptions = [description for description, _ in rows]
        self._rates = [rates for _, rates in rows]
        names = [device.name.partition(":")[0] for device in devices]
        numbers = range(len(devices))
        self._ways = [[self._way(names, a, b) for b in numbers] for a in numbers]
        self._work: dict[HloInstruction, Work] = {}

    def work(self, i: HloInstruction, device: int) -> int:
        """The time of an instruction with all that it calls."""
        if i not in self._work:
            self._work[i] = Work.of(i)
        return round(self.work_seconds(self._work[i], device) * PICOSECONDS)

    def work_seconds(self, work: Work, device: int) -> float:
        """The time of some work, in seconds, without what starts it."""
        scale = type_scale(self._descriptions[device], work.element_type)
        return self._rates[device].seconds(work, scale)

    def rates(self, device: int) -> DeviceRates:
        """What is known of a device."""
        return self._rates[device]

    def computes_with_host(self, device: int) -> bool:
        """True if the memory is the host's, which then waits for each launch."""
        return self._descriptions[device].host_addressable

    def transfer(self, nbytes: int, source: int, target: int) -> int:
        """The time of a copy from one device to another."""
        ways = self._ways[source][target]
        return round(sum(link.seconds(nbytes) for link in ways) * PICOSECONDS)

    def host_link(self, device: int) -> Link | None:
        """The way between a device and the host; None where they share their memory."""
        if self._descriptions[device].host_addressable:
            return None
        return self._rates[device].link or _host_link(self._descriptions[device])

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
        return tuple(link for n in (a, b) if (link := self.host_link(n)) is not None)


def _host_link(description: DeviceDescription) -> Link:
    """The link that a description states, or what is assumed."""
    found = description.links.get(HOST_LINK)
    if found is None and description.transfer_bandwidth:
        return Link(description.transfer_bandwidth, UNKNOWN_LINK.latency_s)
    return found or UNKNOWN_LINK


def _rated(device: CompileTarget, measured: FindRates) -> tuple[DeviceDescription, DeviceRates]:
    """The device with rates: measured by placement, stated, or measured by the vendor."""
    found = measured(device)
    if found is not None:
        return device.description, found
    described = device.description if device.description.peak_flops else device.rated()
    return described, stated_rates(described)
