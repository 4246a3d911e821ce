"""The Platform contract: the devices of one kind of hardware on this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.communicator import Communicator
from xladev.runtime.distributed.process_communicator import ProcessCommunicator
from xladev.runtime.executor import Executor

MAX_DEVICES = 4096
"""Most devices of one platform: all are opened where all are asked for, and a count beyond it is
what a driver leaves behind that failed (an error code, memory that was never written)."""


class Platform(ABC):
    """One driver and its devices; made once, by `PlatformSpec.factory`."""

    # Tier 1

    @abstractmethod
    def visible_device_count(self) -> int:
        """Number of devices that can be opened: 0, which is no error, to `MAX_DEVICES` (4096)."""

    @abstractmethod
    def create_executor(self, ordinal: int) -> Executor:
        """Opens device ``ordinal``, once; 0 <= ordinal < `visible_device_count`."""

    # Tier 6

    def create_communicator(self, devices: Sequence[Executor]) -> Communicator:
        """Collectives between these executors, in rank order; by default through host memory."""
        return HostCommunicator(devices)

    def create_process_communicator(
        self, devices: Sequence[Executor], through_host: ProcessCommunicator
    ) -> Communicator:
        """Collectives between these executors and devices of other processes.

        Args:
            devices: of this process, in the order of ``through_host.own``.
            through_host: does everything through host memory and the job's connections. It is what
                this gives by default, and what a communicator gives to that finds no other way.
        """
        return through_host

    # Optional

    def provide_devices(self, count: int) -> int:
        """Number of devices after a program asked for ``count``; more if they are virtual.

        By default nothing changes: a platform has the devices that it has.
        """
        return self.visible_device_count()

    def version(self) -> str:
        """Version of the driver, for `xladev doctor`."""
        return ""

    def libraries(self) -> Sequence[str]:
        """Libraries that programs may call, with versions, or why there is none; for the same."""
        return ()
