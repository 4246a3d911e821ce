"""Links between devices, the way that messages take over them, and how long that takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xladev.errors import OptionError
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
    """

    def __init__(self, sizes: Sequence[int], rates: LinkRates, topology: str = TORUS) -> None:
        self.sizes = tuple(sizes)
        self.rates = rates
        self.topology = topology
        self.link_nbytes: Counter[Link] = Counter()
        self._ways: dict[Link, tuple[Link, ...]] = {}

    @property
    def count(self) -> int:
        """How many devices there are."""
        return prod(self.sizes)

    def send(self, messages: Iterable[Message]) -> float:
        """Counts what goes over each link; how long all take that are sent at once, in seconds.

        A link carries one byte after another, a message waits once for each link of its way, and
        what passes through a device does not wait to be whole there.
        """
        loads: Counter[Link] = Counter()
        longest = 0
        for source, target, nbytes in messages:
            way = self.way(source, target)
            longest = max(longest, len(way))
            for link in way:
                loads[link] += nbytes
        self.link_nbytes.update(loads)
        heaviest = max(loads.values(), default=0)
        return longest * self.rates.latency_s + heaviest / self.rates.bandwidth

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
