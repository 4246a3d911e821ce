"""Several devices that evaluate one program together: who they are, and where they meet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import prod
from threading import Condition
from typing import Any

from xladev.errors import EvaluationError
from xladev.hlo.literal import Value
from xladev.hlo.opdef import Evaluation

LINK = "link between devices"
"""Key of a `DeviceLink` in the shared state of an evaluation."""

NOT_MET = "HLO_DEVICES"
"""Code of the error of a device that waited for another in vain."""


@dataclass(frozen=True, slots=True, order=True)
class LogicalDevice:
    """One of ``replica_count * num_partitions`` devices."""

    replica: int
    partition: int


@dataclass(frozen=True, slots=True)
class Topology:
    """How many devices there are, and how they are numbered (partitions first)."""

    replica_count: int = 1
    num_partitions: int = 1

    @property
    def devices(self) -> tuple[LogicalDevice, ...]:
        """All devices, in the order of their flattened ids."""
        return tuple(
            LogicalDevice(r, p)
            for r in range(self.replica_count)
            for p in range(self.num_partitions)
        )

    def device(self, flattened: int) -> LogicalDevice:
        """The device with this flattened id."""
        return LogicalDevice(*divmod(flattened, self.num_partitions))


@dataclass(frozen=True, slots=True)
class MeshAxes:
    """A named mesh of devices.

    Attributes:
        axes: names and sizes, outermost first.
        device_ids: the devices in row-major order of the axes; 0, 1, 2, ... if empty.
    """

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of devices."""
        return prod(size for _, size in self.axes)

    def coordinates(self, device: int) -> dict[str, int]:
        """Where a device is along each axis."""
        at = self.device_ids.index(device) if self.device_ids else device
        found: dict[str, int] = {}
        for name, size in reversed(self.axes):
            found[name] = at % size
            at //= size
        return found


class EvaluatorRendezvous:
    """Where threads that evaluate one program each exchange values.

    An exchange is complete when all its participants came; a participant that has ended, failed
    or not, ends the waiting of the others with an error instead.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._given: dict[Hashable, dict[LogicalDevice, Value]] = {}
        self._taken: dict[Hashable, int] = {}
        self._ended: set[LogicalDevice] = set()

    def exchange(
        self,
        key: Hashable,
        device: LogicalDevice,
        participants: Sequence[LogicalDevice],
        value: Value,
    ) -> tuple[Value, ...]:
        """Gives this device's value and waits for those of all participants, in their order.

        Args:
            key: which exchange this is; participants use equal keys, and no key twice.
            device: who gives ``value``.
            participants: who takes part, ``device`` among them.

        Raises:
            EvaluationError: a participant ended or failed without coming.
        """
        with self._changed:
            given = self._given.setdefault(key, {})
            given[device] = value
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._settled(given, participants))
            if len(given) < len(participants):
                raise EvaluationError(
                    "devices do not meet: another device failed, or ended without this collective",
                    why=f"{len(given)} of {len(participants)} participants came",
                    code=NOT_MET,
                )
            self._release(key, len(participants))
            return tuple(given[participant] for participant in participants)

    def _settled(
        self, given: dict[LogicalDevice, Value], participants: Sequence[LogicalDevice]
    ) -> bool:
        missing = [p for p in participants if p not in given]
        return not missing or any(p in self._ended for p in missing)

    def _release(self, key: Hashable, count: int) -> None:
        """Forgets an exchange once every participant has taken its values."""
        self._taken[key] = self._taken.get(key, 0) + 1
        if self._taken[key] == count:
            del self._given[key], self._taken[key]

    def end(self, device: LogicalDevice) -> None:
        """Says that a device has ended, so that nobody waits for it."""
        with self._changed:
            self._ended.add(device)
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """One device's view of all: the topology, and the way to exchange values.

    Attributes:
        topology: all devices.
        rendezvous: where they meet.
        device: this one.
        meshes: the named meshes of the module.
    """

    topology: Topology
    rendezvous: EvaluatorRendezvous
    device: LogicalDevice
    meshes: dict[str, MeshAxes] = field(default_factory=dict)
    _counts: dict[Any, int] = field(default_factory=dict)

    def exchange(
        self, instruction: Any, participants: Sequence[LogicalDevice], value: Value
    ) -> tuple[Value, ...]:
        """Values that the participants give at their same execution of an instruction."""
        turn = self._counts.get(instruction, 0)
        self._counts[instruction] = turn + 1
        key = (instruction, turn, tuple(participants))
        return self.rendezvous.exchange(key, self.device, participants, value)


def link_of(evaluation: Evaluation) -> DeviceLink:
    """The link of an evaluation; that of the only device where none was made."""
    found = evaluation.shared.get(LINK)
    if isinstance(found, DeviceLink):
        return found
    link = DeviceLink(Topology(), EvaluatorRendezvous(), LogicalDevice(0, 0))
    evaluation.shared[LINK] = link
    return link
