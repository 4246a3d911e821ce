"""Links between devices, the way that messages take over them, and how long that takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xladev.errors import OptionError
from xladev.profiling.mesh.round_times import TransportTimes
from xladev.runtime.distributed.rounds import Message

Link = tuple[int, int]
"""From which device to which."""

TORUS, GRID, FULL = "torus", "grid", "full"
TOPOLOGIES = (TORUS, GRID, FULL)

_RATES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class LinkRates:
    """What a link does in one direction.

    Attributes:
        bandwidth: bytes per second.
        latency_s: of a message over one link, in seconds.
    """

    bandwidth: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Hosts:
    """Machines whose processors carry the messages of their processes, of one device each.

    Attributes:
        times: what rounds take on one machine, as measured.
        per_host: processes, of devices that follow each other, on each machine.
    """

    times: TransportTimes
    per_host: int

    def of(self, device: int) -> int:
        """The machine of a device."""
        return device // self.per_host

    def seconds(self, messages: Sequence[Message]) -> float:
        """What messages that are sent at once take of processors, on the machine that is last."""
        rows: dict[int, tuple[list[int], list[int]]] = {}
        for source, target, nbytes in messages:
            rows.setdefault(source, ([], []))[0].append(nbytes)
            rows.setdefault(target, ([], []))[1].append(nbytes)
        at_work = Counter(map(self.of, rows))
        return max(
            (
                self.times.seconds(at_work[self.of(device)], row)
                for device, pair in rows.items()
                for row in pair
            ),
            default=0.0,
        )


def parse_mesh(text: str) -> tuple[int, ...]:
    """Sizes from a text such as ``16x16``.

    Raises:
        OptionError: it is none.
    """
    if not re.fullmatch(r"[1-9][0-9]*(x[1-9][0-9]*)*", text):
        raise OptionError(f"{text!r} is no mesh", hint="--mesh 16x16, or --mesh 8")
    return tuple(map(int, text.split("x")))


def parse_link(text: str) -> LinkRates:
    """Rates from a text such as ``50GB/s,2us``.

    Raises:
        OptionError: it is none.
    """
    found = re.fullmatch(r"([0-9.]+)\s*([kmgt]?)B/s\s*,\s*([0-9.]+)\s*(s|ms|us|ns)", text, re.I)
    try:
        if found is None:
            raise ValueError
        rate = float(found[1]) * _RATES[found[2].lower()]
        latency = float(found[3]) * _TIMES[found[4].lower()]
        if not rate > 0:
            raise ValueError
    except ValueError:
        raise OptionError(
            f"{text!r} is no link",
            why="it has a rate above zero and a time",
            hint="--link 50GB/s,2us",
        ) from None
    return LinkRates(rate, latency)


class Network:
    """Devices in a mesh, numbered with the last dimension fastest.

    Args:
        sizes: of the mesh.
        rates: of each link, in each direction.
        topology: `GRID`: links between neighbours; `TORUS`: those at the ends are neighbours too;
            `FULL`: a link between every two.
        hosts: the machines that the devices are on; None: messages take nothing but links.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        rates: LinkRates,
        topology: str = TORUS,
        hosts: Hosts | None = None,
    ) -> None:
        self.sizes = tuple(sizes)
        self.rates = rates
        self.topology = topology
        self.hosts = hosts
        self.link_nbytes: Counter[Link] = Counter()
        self._ways: dict[Link, tuple[Link, ...]] = {}

    @property
    def count(self) -> int:
        """How many devices there are."""
        return prod(self.sizes)

    def send(self, messages: Iterable[Message]) -> float:
        """Counts what goes over each link; how long all take that are sent at once, in seconds.

        A link carries one byte after another, a message waits once for each link of its way, and
        what passes through a device does not wait to be whole there. Links within a machine take
        no time, for its processors do.
        """
        given = list(messages)
        loads: Counter[Link] = Counter()
        longest = 0
        for source, target, nbytes in given:
            way = self.way(source, target)
            longest = max(longest, sum(map(self.is_between_hosts, way)))
            for link in way:
                loads[link] += nbytes
        self.link_nbytes.update(loads)
        outward = (nbytes for link, nbytes in loads.items() if self.is_between_hosts(link))
        taken = longest * self.rates.latency_s + max(outward, default=0) / self.rates.bandwidth
        return taken if self.hosts is None else taken + self.hosts.seconds(given)

    def dimension(self, link: Link) -> str:
        """The dimension of the mesh that a link is along; empty where it is along none."""
        strides = [prod(self.sizes[n + 1 :]) for n in range(len(self.sizes))]
        places = (
            [device // s % n for s, n in zip(strides, self.sizes, strict=True)] for device in link
        )
        changed = [n for n, (a, b) in enumerate(zip(*places, strict=True)) if a != b]
        return str(changed[0]) if len(changed) == 1 else ""

    def is_between_hosts(self, link: Link) -> bool:
        """True if it is a link from one machine to another; without machines each is."""
        return self.hosts is None or self.hosts.of(link[0]) != self.hosts.of(link[1])

    def way(self, source: int, target: int) -> tuple[Link, ...]:
        """The links between two devices: one dimension after the other, the shorter way round."""
        ends = (source, target)
        if ends not in self._ways:
            self._ways[ends] = tuple(self._steps(source, target))
        return self._ways[ends]

    def _steps(self, source: int, target: int) -> Iterator[Link]:
        if self.topology == FULL:
            yield from [(source, target)] if source != target else []
            return
        here, stride = source, 1
        for size in reversed(self.sizes):
            at, to = here // stride % size, target // stride % size
            step = self._direction(at, to, size)
            while at != to:
                following = (at + step) % size
                beside = here + (following - at) * stride
                yield (here, beside)
                here, at = beside, following
            stride *= size

    def _direction(self, at: int, to: int, size: int) -> int:
        ahead = (to - at) % size
        if self.topology == TORUS:
            return 1 if 2 * ahead <= size else -1
        return 1 if to > at else -1
