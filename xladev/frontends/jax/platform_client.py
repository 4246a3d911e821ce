"""One xladev platform as a PJRT client, and what the shim tells of it."""

from __future__ import annotations

import ctypes

from xladev.errors import AbsentDeviceError, ProcessError
from xladev.frontends.jax.platform_names import DEFAULT, jax_name
from xladev.frontends.jax.processes import Processes, Said, join, meetings
from xladev.frontends.jax.records import ClientRecord, DeviceRecord, Storage
from xladev.frontends.jax.transfers import Transfers
from xladev.runtime.device import Device
from xladev.runtime.registry import current_registry


class PlatformClient:
    """A platform with its devices.

    Args:
        platform: its name; empty means the platform of highest priority.
        num_devices: how many virtual devices are wanted, if it has such; 0: as many as it has.
        processes: the other processes whose devices belong to it, if there are any.

    Raises:
        AbsentDeviceError: there is no such platform, or it has no device.
        ProcessError: another process does not come, or is of another version.
    """

    def __init__(
        self, platform: str, num_devices: int = 0, processes: Processes | None = None
    ) -> None:
        registered = current_registry().platform(platform or None)
        if num_devices:
            registered.provide_devices(num_devices)
        self.platform = registered.name
        self.devices = registered.devices()
        self.host_addressable = registered.describe().host_addressable
        told = [_said(device) for device in self.devices]
        self.job = None if processes is None else join(self.platform, told, processes)
        self._meeting = meetings(self.platform)
        self._index = 0 if self.job is None else self.job.index
        self._every = [told] if processes is None else processes.devices
        self._places = [(p, d) for p, row in enumerate(self._every) for d in range(len(row))]
        self._storage = Storage()
        self.record = self._make_record(jax_name(self.platform) if platform else DEFAULT)

    @property
    def address(self) -> int:
        """The address of the record."""
        return ctypes.addressof(self.record)

    def device(self, index: int) -> Device:
        """A device of this process by its position in the record.

        Raises:
            AbsentDeviceError: it is another process's.
        """
        process, ordinal = self._places[index]
        if process != self._index:
            raise AbsentDeviceError(
                f"device {index} is in process {process}, this is {self._index}"
            )
        return self.devices[ordinal]

    def transfers(self) -> Transfers:
        """What moves arrays to and from other processes.

        Raises:
            ProcessError: there are none.
        """
        job = self.job
        if job is None:
            raise ProcessError("there is no other process that an array could go to")
        return job.kept("jax: transfers", lambda: Transfers(job))

    def transfer_name(self, key: int) -> bytes:
        """What names a transfer in all processes: JAX counts them from 0 for each client."""
        return f"{self._meeting}.{key}".encode()

    def is_own(self, index: int) -> bool:
        """True if a device is in this process."""
        return self._places[index][0] == self._index

    def _make_record(self, name: str) -> ClientRecord:
        version = current_registry().platform(self.platform).platform.version()
        devices = [self._device_record(name, i) for i in range(len(self._places))]
        return ClientRecord(
            self._storage.chars(name),
            self._storage.chars(f"xladev {version}"),
            self.host_addressable,
            self._index,
            len(self._every),
            len(devices),
            self._storage.structs(devices, DeviceRecord),
        )

    def _device_record(self, name: str, index: int) -> DeviceRecord:
        chars = self._storage.chars
        process, ordinal = self._places[index]
        said = self._every[process][ordinal]
        attributes: dict[str, str | int] = {"platform": self.platform, "cores": int(said["cores"])}
        at = f" of process {process}" if self.job else ""
        return DeviceRecord(
            index,
            process,
            ordinal,
            chars(str(said["kind"])),
            chars(f"{self.platform}:{ordinal}{at} ({said['kind']})"),
            chars(f"{name}:{index}"),
            chars("device"),
            self._storage.attributes(attributes),
            len(attributes),
        )


def _said(device: Device) -> Said:
    """What other processes are told of a device."""
    return {"kind": device.description.name, "cores": device.description.cores}
