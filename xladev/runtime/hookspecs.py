"""The one pluggy hook, and the PlatformSpec that it returns.

A plugin is a module named by an entry point of group `xladev.platforms`:

    from xladev.runtime.hookspecs import PlatformSpec, hookimpl

    @hookimpl
    def xladev_platforms():
        return PlatformSpec("npu", kind="npu", priority=500, factory=NpuPlatform)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pluggy

from xladev.compiler.contract import Compiler, HostOnlyCompiler
from xladev.errors import PluginError
from xladev.runtime.device_name import is_plain_name
from xladev.runtime.platform import Platform

PROJECT = "xladev"
ENTRY_POINT_GROUP = "xladev.platforms"
CONTRACT_VERSION = (1, 0)
"""The contract that this xladev speaks: (major, minor). Another major is refused."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True)
class PlatformSpec:
    """What a plugin says about one platform; making it touches no driver.

    Attributes:
        name: unique among platforms: letters, digits and underscores, in lower case.
        factory: opens the driver; called once, at the first question about its devices.
        kind: ``cpu``, ``gpu``, ``npu`` or another such word, so that ``npu:0`` finds the NPU of
            highest priority; empty means the name.
        priority: the highest with a visible device is the default. CPU 50, real hardware 100 and
            up (500 is usual), emulators 20.
        api: contract version that the plugin was written for.
        compiler: makes the compiler without driver or device; None for tier 1.
        version: version of the plugin, for `xladev doctor`; empty means its distribution's.
        may_be_host: False if no device of it computes in host memory: what other platforms refuse
            can never run on it, and its compiler need not be asked (nor imported).

    Raises:
        PluginError: a field of wrong type or spelling.
    """

    name: str
    factory: Callable[[], Platform]
    kind: str = ""
    priority: int = 100
    api: tuple[int, int] = CONTRACT_VERSION
    compiler: Callable[[], Compiler] | None = None
    version: str = ""
    may_be_host: bool = True

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise PluginError(
                f"bad PlatformSpec {self.name!r}", why=problem, hint="see PlatformSpec's fields"
            )
        if not self.kind:
            object.__setattr__(self, "kind", self.name)

    def make_compiler(self) -> Compiler:
        """A compiler of this platform; one that supports nothing at tier 1."""
        return HostOnlyCompiler() if self.compiler is None else self.compiler()


def _problem(spec: Any) -> str | None:
    """What is wrong with the fields of ``spec``; None if nothing is."""
    if not is_plain_name(spec.name) or not (spec.kind == "" or is_plain_name(spec.kind)):
        return "name and kind are lower-case words of letters, digits and underscores"
    if not callable(spec.factory) or not (spec.compiler is None or callable(spec.compiler)):
        return "factory and compiler are classes or functions without arguments"
    if type(spec.may_be_host) is not bool:
        return f"may_be_host is {spec.may_be_host!r}, neither True nor False"
    if type(spec.priority) is not int:
        return f"priority is {spec.priority!r}, no integer"
    api = spec.api
    if not (isinstance(api, tuple) and len(api) == 2 and all(type(v) is int for v in api)):
        return f"api is {api!r}, not (major, minor)"
    return None


@hookspec
def xladev_platforms() -> PlatformSpec | Sequence[PlatformSpec]:
    """Returns the platform of this plugin, or several; must not open a driver or a device."""
    raise NotImplementedError  # a specification, never called
