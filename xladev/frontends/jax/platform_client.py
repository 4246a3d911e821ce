"""One xladev platform as a PJRT client, and what the shim tells of it."""

from __future__ import annotations

import ctypes

from xladev.frontends.jax.platform_names import DEFAULT, jax_name
from xladev.frontends.jax.records import ClientRecord, DeviceRecord, Storage
from xladev.runtime.device import Device
from xladev.runtime.registry import current_registry


class PlatformClient:
    """A platform with its devices.

    Args:
        platform: its name; empty means the platform of highest priority.
        num_devices: how many virtual devices are wanted, if it has such; 0: as many as it has.

    Raises:
        DeviceError: there is no such platform, or it has no device.
    """

    def __init__(self, platform: str, num_devices: int = 0) -> None:
        registered = current_registry().platform(platform or None)
        if num_devices:
            registered.provide_devices(num_devices)
        self.platform = registered.name
        self.devices = registered.devices()
        self.host_addressable = registered.describe().host_addressable
        self._storage = Storage()
        self.record = self._make_record(jax_name(self.platform) if platform else DEFAULT)

    @property
    def address(self) -> int:
        """The address of the record."""
        return ctypes.addressof(self.record)

    def device(self, index: int) -> Device:
        """A device by its position in the record."""
        return self.devices[index]

    def _make_record(self, name: str) -> ClientRecord:
        version = current_registry().platform(self.platform).platform.version()
        devices = [self._device_record(name, device) for device in self.devices]
        return ClientRecord(
            self._storage.chars(name),
            self._storage.chars(f"xladev {version}"),
            self.host_addressable,
            len(devices),
            self._storage.structs(devices, DeviceRecord),
        )

    def _device_record(self, name: str, device: Device) -> DeviceRecord:
        chars = self._storage.chars
        attributes: dict[str, str | int] = {
            "platform": device.platform,
            "cores": device.description.cores,
        }
        return DeviceRecord(
            device.ordinal,
            chars(device.description.name),
            chars(f"{device.name} ({device.description.name})"),
            chars(f"{name}:{device.ordinal}"),
            chars("device"),
            self._storage.attributes(attributes),
            len(attributes),
        )
