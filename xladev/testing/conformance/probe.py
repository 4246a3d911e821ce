"""What a check of the contract is given: the backend's name, its devices, and how to complain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from xladev.client import CompiledModule, compile, devices
from xladev.compiler.options import CompileOptions
from xladev.errors import XladevError
from xladev.hlo.ir import HloModule
from xladev.runtime.device import Device
from xladev.runtime.registry import current_registry
from xladev.runtime.stream import Stream
from xladev.testing.conformance.sizes import at_most


class NotOffered(Exception):
    """The backend does not offer what the check is about."""


class CheckFailure(XladevError):
    """The backend does not do what the contract says."""

    code = "CONFORMANCE"


@contextmanager
def ended(*streams: Stream) -> Iterator[tuple[Stream, ...]]:
    """Streams whose work has ended when the block is left, by a failure of the check as well.

    What copies use (arrays, buffers) belongs into variables of the check, which go away later: a
    device may use it until then, whatever the check found.
    """
    try:
        yield streams
    except BaseException:
        for stream in streams:
            with suppress(Exception):
                stream.synchronize()
        raise
    for stream in streams:
        stream.synchronize()


@dataclass(frozen=True, slots=True)
class Probe:
    """A check's way to the backend.

    Attributes:
        backend: platform, kind or device name.
        cuts: what the check did smaller than it would, for want of memory.
    """

    backend: str
    cuts: list[str] = field(default_factory=list[str])

    @property
    def devices(self) -> tuple[Device, ...]:
        """The backend's devices."""
        return devices(self.backend)

    @property
    def device(self) -> Device:
        """The first device."""
        return self.devices[0]

    @property
    def memory_nbytes(self) -> int | None:
        """Bytes of the first device's memory; None if it does not say."""
        return self.device.description.memory_space(0).nbytes

    def some_devices(self, count: int) -> tuple[Device, ...]:
        """That many devices; the check is skipped where there are fewer.

        Raises:
            NotOffered: the backend has fewer.
        """
        platform = current_registry().platform(self.backend)
        if platform.device_count() < count and platform.provide_devices(count) < count:
            raise NotOffered(f"{count} devices; the platform has {platform.device_count()}")
        return tuple(platform.device(ordinal) for ordinal in range(count))

    def at_most(self, nbytes: int) -> int:
        """``nbytes``, or as much of it as the device has room for; the result says what was cut.

        Args:
            nbytes: what the check wants to be alive on the device at the same time.
        """
        found = at_most(nbytes, self.memory_nbytes)
        if found < nbytes:
            why = f"twice as many do not fit the device's {self.memory_nbytes}"
            self.cuts.append(f"{found} bytes at once instead of {nbytes}: {why}")
        return found

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
