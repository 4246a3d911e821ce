"""RegisteredPlatform: a PlatformSpec with what has been opened of it: driver, devices, compiler."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xladev.compiler.contract import Compiler
from xladev.compiler.description import DeviceDescription
from xladev.compiler.isolation import expect, expect_count, plugin_call
from xladev.compiler.options import PlatformOption
from xladev.compiler.partition.assignment import CompileTarget
from xladev.errors import AbsentDeviceError, OptionError, XladevError
from xladev.instrument import logger
from xladev.runtime.device import Device
from xladev.runtime.executor import Executor
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.host.exit import closed_at_exit
from xladev.runtime.platform import MAX_DEVICES, Platform

_log = logger("plugin")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A function of a platform that failed.

    Attributes:
        function: such as ``Platform.visible_device_count``.
        error: what it led to.
        traceback: where it failed.
    """

    function: str
    error: XladevError
    traceback: str


class RegisteredPlatform:
    """A platform that the registry knows. Opens nothing before it is asked to. Thread-safe.

    Attributes:
        spec: what the plugin says about it.
        source: the plugin that brought it.
        failures: what has failed so far, for `xladev doctor`.
    """

    def __init__(self, spec: PlatformSpec, source: str) -> None:
        self.spec = spec
        self.source = source
        self.failures: list[PluginFailure] = []
        self._lock = threading.RLock()
        self._platform: Platform | None = None
        self._compiler: Compiler | None = None
        self._count: int | XladevError | None = None
        self._devices: dict[int, Device] = {}

    @property
    def name(self) -> str:
        """Name of the platform."""
        return self.spec.name

    @property
    def kind(self) -> str:
        """Kind of its devices."""
        return self.spec.kind

    def __repr__(self) -> str:
        return f"<platform {self.name} of plugin {self.source}, priority {self.spec.priority}>"

    @property
    def platform(self) -> Platform:
        """The opened driver.

        Raises:
            XladevError: it cannot be opened.
        """
        with self._lock:
            if self._platform is None:
                self._platform = self.ask("PlatformSpec.factory", self.spec.factory, Platform)
            return self._platform

    @property
    def compiler(self) -> Compiler:
        """The compiler; needs no driver.

        Raises:
            XladevError: it cannot be made.
        """
        with self._lock:
            if self._compiler is None:
                self._compiler = self.ask(
                    "PlatformSpec.compiler", self.spec.make_compiler, Compiler
                )
            return self._compiler

    def describe(self, target: str | None = None) -> DeviceDescription:
        """The device type, from the compiler, without a driver.

        Raises:
            XladevError: the compiler failed or does not know ``target``.
        """
        compiler = self.compiler
        return self.ask("Compiler.describe", lambda: compiler.describe(target), DeviceDescription)

    def compile_target(self, target: str | None = None) -> CompileTarget:
        """The platform as the compiler sees it; ``target`` as in `describe`."""
        return CompileTarget(self.name, self.compiler, self.describe(target))

    def options(self) -> tuple[PlatformOption, ...] | None:
        """The options of its own, from the compiler, without a driver; None if it does not say.

        Raises:
            XladevError: the compiler failed.
        """
        compiler, function = self.compiler, "Compiler.platform_options"
        found = self.ask(function, compiler.platform_options, object)
        if found is None:
            return None
        rows = tuple(expect(found, Sequence, self.name, function))
        return tuple(expect(row, PlatformOption, self.name, function) for row in rows)

    def device_count(self) -> int:
        """Number of visible devices; asked once.

        Raises:
            XladevError: the platform cannot tell.
        """
        with self._lock:
            if self._count is None:
                self._count = self._count_devices()
            if isinstance(self._count, XladevError):
                raise self._count
            return self._count

    def provide_devices(self, count: int) -> int:
        """Number of visible devices after a program asked for ``count``.

        Raises:
            XladevError: the platform cannot tell.
        """
        platform = self.platform
        function = "Platform.provide_devices"
        found = self.ask(function, lambda: platform.provide_devices(count), object)
        with self._lock:
            given = expect_count(found, self.name, function, MAX_DEVICES)
            self._count = max(self.device_count(), given)
            return self._count

    def visible_count(self) -> int:
        """Number of visible devices; 0, with a warning, if the platform cannot tell."""
        known = self._count
        try:
            return self.device_count()
        except XladevError as e:
            if known is None:
                _log.warning("platform %r is not used: %s", self.name, e)
            return 0

    def device(self, ordinal: int) -> Device:
        """The device of that number, opened at the first call.

        A platform without visible devices is asked for one: emulators show theirs on request only.

        Raises:
            AbsentDeviceError: there is none of that number.
            XladevError: it cannot be opened.
        """
        count = self.device_count() or self.provide_devices(1)
        if not 0 <= ordinal < count:
            raise AbsentDeviceError(
                f"there is no device {self.name}:{ordinal}",
                where=f"platform {self.name!r}",
                why=f"platform {self.name!r} has {count} visible devices",
                hint="`xladev devices` lists what is there; "
                f"XLADEV_{self.name.upper()}_DEVICES fixes the number on host platforms",
            )
        with self._lock:
            if ordinal not in self._devices:
                self._devices[ordinal] = self._open(ordinal)
            return self._devices[ordinal]

    def devices(self) -> tuple[Device, ...]:
        """All its devices, opened; errors and requests as in `device`."""
        count = self.device_count() or self.provide_devices(1)
        return tuple(self.device(i) for i in range(count))

    def close(self) -> None:
        """Closes the devices that are open; they are opened anew when asked for."""
        with self._lock:
            devices = tuple(self._devices.values())
            self._devices.clear()
        for device in devices:
            device.close()

    def ask(self, function: str, call: Callable[[], object], kind: type[T]) -> T:
        """Calls the plugin and checks the type of what it returns; failures are recorded.

        Args:
            function: of the contract, for messages.
            call: calls it.
            kind: the type of what it returns.

        Raises:
            XladevError: it failed. An OptionError is not recorded: it is about what the user asked
                for.
        """
        try:
            with plugin_call(self.name, function):
                value = call()
            return expect(value, kind, self.name, function)
        except OptionError:
            raise
        except XladevError as e:
            trace = "".join(traceback.format_exception(e))
            self.failures.append(PluginFailure(function, e, trace))
            raise

    def _open(self, ordinal: int) -> Device:
        platform = self.platform
        executor = self.ask(
            "Platform.create_executor", lambda: platform.create_executor(ordinal), Executor
        )
        own = self.ask("Executor.describe", executor.describe, object)
        if own is None:
            own = self.describe()
        description = expect(own, DeviceDescription, self.name, "Executor.describe")
        return closed_at_exit(Device(self.name, self.kind, ordinal, executor, description))

    def _count_devices(self) -> int | XladevError:
        function = "Platform.visible_device_count"
        try:
            platform = self.platform

            def count() -> int:
                found = platform.visible_device_count()
                return expect_count(found, self.name, function, MAX_DEVICES)

            return self.ask(function, count, int)
        except XladevError as e:
            return e
