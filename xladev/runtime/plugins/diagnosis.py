"""What `xladev doctor` says, as data: every plugin, its platforms, their devices, what failed."""

from __future__ import annotations

import platform as host
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from xladev.errors import XladevError
from xladev.runtime.hookspecs import CONTRACT_VERSION
from xladev.runtime.plugins.loading import LoadedPlugin
from xladev.runtime.plugins.registered_platform import RegisteredPlatform
from xladev.runtime.plugins.tiers import tier_of
from xladev.runtime.registry import Registry
from xladev.runtime.stream import Stream

_PACKAGES = ("xladev", "numpy", "ml_dtypes", "llvmlite", "pluggy", "xladev-calls", "torch")


@dataclass(frozen=True, slots=True)
class DeviceDiagnosis:
    """One device.

    Attributes:
        name: such as ``npu:0``.
        description: what it calls itself; empty if it could not be opened.
        target: what is compiled for it.
        error: why it could not be opened; empty if it could.
    """

    name: str
    description: str = ""
    target: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class FailureDiagnosis:
    """A function of a plugin that failed.

    Attributes:
        function: which one.
        error: the message.
        traceback: where.
    """

    function: str
    error: str
    traceback: str


@dataclass(frozen=True, slots=True)
class PlatformDiagnosis:
    """One platform.

    Attributes:
        name: of the platform.
        kind: of its devices.
        plugin: that brought it.
        priority: see `PlatformSpec.priority`.
        api: contract version that it was written for.
        driver: version of its driver.
        tier: name of the contract tier that its classes show; empty if no device opens.
        host_addressable: True if the host addresses its memory.
        devices: visible devices.
        failures: what failed so far.
        is_default: True if programs run on it when no platform is named.
        libraries: that programs may call, with versions, or why there is none.
    """

    name: str
    kind: str
    plugin: str
    priority: int
    api: tuple[int, int]
    driver: str
    tier: str
    host_addressable: bool
    devices: tuple[DeviceDiagnosis, ...]
    failures: tuple[FailureDiagnosis, ...]
    is_default: bool
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginDiagnosis:
    """One installed plugin.

    Attributes:
        name: of the entry point.
        target: what it points at.
        distribution: that brought it, with version.
        state: ``loaded``, ``failed`` or ``left out``.
        platforms: names of the platforms it offers.
        error: why it failed; empty if it did not.
        traceback: where it failed.
    """

    name: str
    target: str
    distribution: str
    state: str
    platforms: tuple[str, ...]
    error: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole report.

    Attributes:
        contract: contract version of this xladev.
        versions: Python, machine and packages.
        plugins: every installed plugin, by name.
        platforms: every platform, highest priority first.
        clashes: plugins that claim one platform name.
    """

    contract: tuple[int, int]
    versions: Mapping[str, str]
    plugins: tuple[PluginDiagnosis, ...]
    platforms: tuple[PlatformDiagnosis, ...]
    clashes: Mapping[str, tuple[str, ...]]

    @property
    def is_healthy(self) -> bool:
        """True if nothing failed and some platform has a device."""
        usable = any(p.is_default for p in self.platforms)
        failed = any(p.state == "failed" for p in self.plugins)
        return (
            usable
            and not failed
            and not self.clashes
            and not any(p.failures for p in self.platforms)
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `xladev doctor --json`."""
        return asdict(self)


def diagnose(registry: Registry) -> Diagnosis:
    """Opens everything that can be opened, and reports; raises nothing for what a plugin does."""
    platforms = registry.platforms()
    default = _default_name(registry)
    return Diagnosis(
        CONTRACT_VERSION,
        _versions(),
        tuple(_plugin(p) for p in registry.plugins()),
        tuple(_platform(p, is_default=p.name == default) for p in platforms),
        registry.clashes(),
    )


def _default_name(registry: Registry) -> str:
    try:
        return registry.platform().name
    except XladevError:
        return ""


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0], "machine": f"{host.system()} {host.machine()}"}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _plugin(plugin: LoadedPlugin) -> PluginDiagnosis:
    state = "left out" if plugin.left_out else "failed" if plugin.error else "loaded"
    return PluginDiagnosis(
        plugin.name,
        plugin.target,
        f"{plugin.distribution} {plugin.version}".strip(),
        state,
        tuple(spec.name for spec in plugin.specs),
        str(plugin.error or ""),
        plugin.traceback,
    )


def _platform(registered: RegisteredPlatform, *, is_default: bool) -> PlatformDiagnosis:
    devices = tuple(_device(registered, i) for i in range(registered.visible_count()))
    return PlatformDiagnosis(
        registered.name,
        registered.kind,
        registered.source,
        registered.spec.priority,
        registered.spec.api,
        _driver(registered),
        _tier(registered),
        _host_addressable(registered),
        devices,
        tuple(FailureDiagnosis(f.function, str(f.error), f.traceback) for f in registered.failures),
        is_default,
        _libraries(registered),
    )


def _device(registered: RegisteredPlatform, ordinal: int) -> DeviceDiagnosis:
    name = f"{registered.name}:{ordinal}"
    try:
        device = registered.device(ordinal)
        registered.ask("Executor.create_stream", lambda: device.stream, Stream)
    except XladevError as e:
        return DeviceDiagnosis(name, error=str(e))
    return DeviceDiagnosis(name, device.description.name, device.description.target)


def _driver(registered: RegisteredPlatform) -> str:
    try:
        platform = registered.platform
        return registered.ask("Platform.version", lambda: str(platform.version()), str)
    except XladevError as e:
        return f"unknown ({e.what})"


def _libraries(registered: RegisteredPlatform) -> tuple[str, ...]:
    try:
        platform = registered.platform
        return registered.ask("Platform.libraries", lambda: tuple(platform.libraries()), tuple)
    except XladevError as e:
        return (f"unknown ({e.what})",)


def _tier(registered: RegisteredPlatform) -> str:
    """The tier's name; empty where no device can be opened, whose classes show it."""
    try:
        if not registered.visible_count():
            return ""
        device = registered.device(0)
        classes = [type(registered.platform), type(registered.compiler)]
        classes += [type(device.executor), type(device.stream)]
    except XladevError:
        return ""
    return tier_of(classes, device.description).name


def _host_addressable(registered: RegisteredPlatform) -> bool:
    try:
        return registered.describe().host_addressable
    except XladevError:
        return False
