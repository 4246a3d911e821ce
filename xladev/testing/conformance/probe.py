"""What a check of the contract is given: the backend's name, its devices, and how to complain."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any, NoReturn

from xladev.client import CompiledModule, compile, devices
from xladev.compiler.options import CompileOptions
from xladev.errors import XladevError
from xladev.hlo.ir import HloModule
from xladev.runtime.device import Device
from xladev.runtime.registry import current_registry


class NotOffered(Exception):
    """The backend does not offer what the check is about."""


class CheckFailure(XladevError):
    """The backend does not do what the contract says."""

    code = "CONFORMANCE"


@dataclass(frozen=True, slots=True)
class Probe:
    """A check's way to the backend.

    Attributes:
        backend: platform, kind or device name.
    """

    backend: str

    @property
    def devices(self) -> tuple[Device, ...]:
        """The backend's devices."""
        return devices(self.backend)

    @property
    def device(self) -> Device:
        """The first device."""
        return self.devices[0]

    def some_devices(self, count: int) -> tuple[Device, ...]:
        """That many devices; the check is skipped where there are fewer.

        Raises:
            NotOffered: the backend has fewer.
        """
        platform = current_registry().platform(self.backend)
        if platform.device_count() < count and platform.provide_devices(count) < count:
            raise NotOffered(f"{count} devices; the platform has {platform.device_count()}")
        return tuple(platform.device(ordinal) for ordinal in range(count))

    def live_nbytes(self, *devices: Device) -> int:
        """Bytes allocated on some devices, when garbage is gone and nothing is pending on any."""
        gc.collect()
        for device in self.devices:
            device.synchronize()
        return sum(device.memory_stats().nbytes_in_use for device in devices)

    def compile(self, module: HloModule | str, **options: Any) -> CompiledModule:
        """A module, or HLO text, compiled for the backend."""
        source = module.encode() if isinstance(module, str) else module
        return compile(source, self.backend, CompileOptions(**options))

    def require(self, holds: bool, what: str, why: str = "") -> None:
        """Fails the check unless something holds.

        Raises:
            CheckFailure: it does not.
        """
        if not holds:
            self.fail(what, why)

    def fail(self, what: str, why: str = "") -> NoReturn:
        """Fails the check.

        Raises:
            CheckFailure: always.
        """
        raise CheckFailure(what, why=why or None)
