"""Collectives: what one launch sees of the devices it may exchange data with."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from xladev.errors import ArgumentError, XladevError
from xladev.runtime.communicator import Communicator

_REMEMBERED_FAILURES = 64


class Abortable(Protocol):
    """What devices share in one execution, and wait for each other with."""

    def abort(self) -> None:
        """Makes all that wait go on, and fail."""
        ...


_Shared = TypeVar("_Shared", bound=Abortable)


class CommunicatorPool:
    """The communicators between the devices of one program, made when first needed.

    Args:
        size: number of devices.
        create: makes the communicator of the devices with these numbers, in this order.
    """

    def __init__(self, size: int, create: Callable[[tuple[int, ...]], Communicator]) -> None:
        self._size = size
        self._create = create
        self._lock = threading.Lock()
        self._made: dict[tuple[int, ...], Communicator] = {}
        self._aborted: OrderedDict[int, XladevError] = OrderedDict()
        self._shared: dict[int, dict[Hashable, Abortable]] = {}

    @property
    def size(self) -> int:
        """Number of devices."""
        return self._size

    def communicator(self, group: tuple[int, ...]) -> Communicator:
        """The communicator of the devices with these indices, in this order."""
        with self._lock:
            if group not in self._made:
                self._made[group] = made = self._create(group)
                for run_id, error in self._aborted.items():
                    made.abort(run_id, error)
            return self._made[group]

    def shared(self, run_id: int, key: Hashable, make: Callable[[], _Shared]) -> _Shared:
        """What all devices get that ask for the same key in run ``run_id``; made for the first."""
        with self._lock:
            found = self._shared.setdefault(run_id, {})
            if key not in found:
                found[key] = made = make()
                if run_id in self._aborted:
                    made.abort()
            return cast("_Shared", found[key])

    def failure(self, run_id: int) -> XladevError | None:
        """Why run ``run_id`` was given up; None if it was not."""
        with self._lock:
            return self._aborted.get(run_id)

    def end(self, run_id: int) -> None:
        """Forgets what the devices shared in run ``run_id``, which is over."""
        with self._lock:
            self._shared.pop(run_id, None)

    def abort(self, run_id: int, error: XladevError) -> None:
        """Makes all collectives of run ``run_id`` fail, those that wait and those to come."""
        with self._lock:
            self._aborted.setdefault(run_id, error)
            if len(self._aborted) > _REMEMBERED_FAILURES:
                self._aborted.popitem(last=False)
            made = tuple(self._made.values())
            for shared in self._shared.get(run_id, {}).values():
                shared.abort()
        for communicator in made:
            communicator.abort(run_id, error)


@dataclass(frozen=True, slots=True)
class Collectives:
    """One participant's view of the devices of its execution.

    Devices are numbered ``replica * num_partitions + partition``, as in flattened-id groups.

    Attributes:
        pool: communicators between all devices of the program.
        device_index: number of this participant.
        num_replicas: replicas of the program.
        num_partitions: partitions of the program.
    """

    pool: CommunicatorPool
    device_index: int
    num_replicas: int = 1
    num_partitions: int = 1

    @property
    def replica(self) -> int:
        """This participant's replica."""
        return self.device_index // self.num_partitions

    @property
    def partition(self) -> int:
        """This participant's partition."""
        return self.device_index % self.num_partitions

    def group(self, members: Sequence[int]) -> tuple[Communicator, int]:
        """The communicator of these device numbers, and this participant's rank in it.

        Raises:
            ArgumentError: this participant is no member, or a number is out of range or repeated.
        """
        group = tuple(members)
        if len(set(group)) != len(group) or not all(0 <= m < self.pool.size for m in group):
            raise ArgumentError(
                f"{list(group)} is no group of devices",
                why=f"members are different numbers from 0 to {self.pool.size - 1}",
            )
        if self.device_index not in group:
            raise ArgumentError(f"device {self.device_index} is no member of group {list(group)}")
        return self.pool.communicator(group), group.index(self.device_index)
