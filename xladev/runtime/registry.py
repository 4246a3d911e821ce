"""The registry: which platforms exist, which one a name means, which one is the default."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

from xladev.errors import AbsentDeviceError, PluginError, XladevError
from xladev.instrument import logger
from xladev.runtime.device import Device
from xladev.runtime.device_name import parse_device_name
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.plugins.loading import (
    SHIPPED,
    Finder,
    LoadedPlugin,
    check_version,
    installed_plugins,
    load_plugins,
)
from xladev.runtime.plugins.registered_platform import RegisteredPlatform

_log = logger("plugin")
_OF = " of distribution "


class Registry:
    """Platforms by name. Loads the plugins at the first question about devices. Thread-safe.

    Args:
        find: gives the entry points; tests pass their own.
        environment: where `XLADEV_PLUGINS` is read from; None means the process's.
    """

    def __init__(
        self, find: Finder = installed_plugins, environment: Mapping[str, str] | None = None
    ) -> None:
        self._find = find
        self._environment = environment
        self._lock = threading.RLock()
        self._plugins: tuple[LoadedPlugin, ...] | None = None
        self._platforms: dict[str, RegisteredPlatform] = {}
        self._clashes: dict[str, list[str]] = {}
        self._brought: dict[str, str] = {}  # by plugins: the label of each, by platform name

    # Registration

    def register(self, spec: PlatformSpec, source: str = "this process") -> RegisteredPlatform:
        """Adds a platform without a plugin, as tests and notebooks do.

        Raises:
            PluginError: the name is taken, or the contract version is another.
        """
        with self._lock:
            self.plugins()  # or a name that one of them claims would seem to be free
            check_version(source, spec)
            taken = self._platforms.get(spec.name)
            if taken is not None:
                raise _duplicate(spec.name, [taken.source, source])
            self._platforms[spec.name] = made = RegisteredPlatform(spec, source)
            return made

    def close(self) -> None:
        """Closes all open devices: pending work is waited for, arrays are gone.

        At the end of the process, devices that are still open are closed without being asked.
        """
        with self._lock:
            platforms = tuple(self._platforms.values())
        for platform in platforms:
            platform.close()

    def unregister(self, name: str) -> None:
        """Removes a platform; its devices stay usable for those who hold them."""
        with self._lock:
            self._platforms.pop(name, None)

    def plugins(self) -> tuple[LoadedPlugin, ...]:
        """What became of every installed plugin; loads them at the first call."""
        with self._lock:
            if self._plugins is None:
                self._plugins = self._load()
            return self._plugins

    def _load(self) -> tuple[LoadedPlugin, ...]:
        """Loads all plugins. Those that ask for devices meanwhile see what is there so far."""
        self._plugins = ()
        try:
            plugins = load_plugins(self._find, self._environment)
        except BaseException:  # Ctrl-C within an import: the next question loads them anew
            self._plugins = None
            raise
        for plugin in plugins:
            self._add(plugin)
        return plugins

    def _add(self, plugin: LoadedPlugin) -> None:
        """Adds a plugin's platforms; a name that two plugins use belongs to neither.

        With a name that ships with xladev, only its own plugin gets here (`check_name`): it has the
        name whatever else happened, and a second entry point of that plugin changes nothing.
        """
        for spec in plugin.specs:
            taken = self._platforms.get(spec.name)
            ships, label = spec.name in SHIPPED, _label(plugin)
            if spec.name in self._clashes:
                self._clashes[spec.name].append(label)
            elif taken is None or (ships and spec.name not in self._brought):
                self._platforms[spec.name] = RegisteredPlatform(spec, plugin.name)
                self._brought[spec.name] = label
            elif not ships:
                del self._platforms[spec.name]
                first = self._brought.get(spec.name, taken.source)
                self._clashes[spec.name] = [first, label]
                _log.warning("%s", _duplicate(spec.name, self._clashes[spec.name]))

    # Questions

    def clashes(self) -> Mapping[str, tuple[str, ...]]:
        """The plugins that claim one name, by name."""
        self.plugins()
        return {name: tuple(sources) for name, sources in self._clashes.items()}

    def platforms(self) -> tuple[RegisteredPlatform, ...]:
        """All platforms, highest priority first, ties by name; opens no driver."""
        self.plugins()
        with self._lock:
            return tuple(sorted(self._platforms.values(), key=lambda p: (-p.spec.priority, p.name)))

    def platform(self, name: str | None = None) -> RegisteredPlatform:
        """The platform that a platform or device name, or a kind, means.

        Args:
            name: None means the default: highest priority with a visible device.

        Raises:
            AbsentDeviceError: no such name, or no platform with a device.
            PluginError: two plugins claim the name.
        """
        if name is None:
            return self._default()
        word = parse_device_name(name).name
        ordered = self.platforms()
        if word in self._clashes:
            raise _duplicate(word, self._clashes[word])
        exact = self._platforms.get(word)
        if exact is not None:
            return exact
        of_kind = [p for p in ordered if p.kind == word]
        if not of_kind:
            raise _unknown_device(word, tuple(p.name for p in ordered), [p.kind for p in ordered])
        return next((p for p in of_kind if p.visible_count()), of_kind[0])

    def device(self, name: str | None = None) -> Device:
        """The device that a name means; device 0 where it has no number.

        Raises:
            AbsentDeviceError: no such device.
            XladevError: it cannot be opened.
        """
        ordinal = None if name is None else parse_device_name(name).ordinal
        return self.platform(name).device(ordinal or 0)

    def devices(self, name: str | None = None) -> tuple[Device, ...]:
        """All devices of one platform, or the one that has the number that is named.

        Without a name, those of all platforms that work.

        Raises:
            XladevError: only if a name is given.
        """
        if name is not None:
            numbered = parse_device_name(name).ordinal is not None
            return (self.device(name),) if numbered else self.platform(name).devices()
        return tuple(d for p in self.platforms() for d in _devices_or_none(p))

    def host_platform(self, exclude: str = "") -> RegisteredPlatform | None:
        """The best platform, other than ``exclude``, that compiles and computes in host memory.

        Host partitions run on it; None means that they run on the evaluator.
        """
        for platform in self.platforms():
            spec = platform.spec
            if platform.name == exclude or not spec.may_be_host or spec.compiler is None:
                continue
            if _is_host(platform):
                return platform
        return None

    def _default(self) -> RegisteredPlatform:
        for platform in self.platforms():
            if platform.visible_count():
                return platform
        raise AbsentDeviceError(
            "no platform has a visible device",
            where="the search for a default platform",
            why=f"{len(self.plugins())} plugins are installed",
            hint="`xladev doctor` shows what became of each",
        )


def _label(plugin: LoadedPlugin) -> str:
    """A plugin by its entry point and distribution: two may have one entry point's name."""
    return f"{plugin.name}{_OF}{plugin.distribution}" if plugin.distribution else plugin.name


def _is_host(platform: RegisteredPlatform) -> bool:
    try:
        return platform.describe().host_addressable and platform.visible_count() > 0
    except XladevError as e:
        _log.warning("platform %r cannot run host partitions: %s", platform.name, e)
        return False


def _devices_or_none(platform: RegisteredPlatform) -> tuple[Device, ...]:
    if not platform.visible_count():
        return ()
    try:
        return platform.devices()
    except XladevError as e:
        _log.warning("platform %r is not used: %s", platform.name, e)
        return ()


_LONGEST_KIND = 4
"""Letters of names of kinds: gpu, npu and tpu are no misspellings of cpu."""


def _unknown_device(name: str, known: tuple[str, ...], kinds: list[str]) -> AbsentDeviceError:
    """The error for a name that no platform or kind has."""
    others = (*known, *kinds)
    meant_kind = len(name) <= _LONGEST_KIND
    alike = [each for each in others if each[0] == name[0]] if meant_kind else others
    near = get_close_matches(name, alike, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return AbsentDeviceError(
        f"no platform or kind is called {name!r}",
        where=f"device name {name!r}",
        why=f"there are {', '.join(known)}" if known else "no plugin is installed",
        hint=f"{meant}`xladev doctor` shows which plugins were found and which failed",
    )


def _duplicate(name: str, sources: list[str]) -> PluginError:
    entries = {source.partition(_OF)[0] for source in sources if _OF in source}
    alike = len(entries) == 1 and all(_OF in source for source in sources)  # -NAME leaves all out
    return PluginError(
        f"platform name {name!r} is claimed {len(sources)} times",
        where=f"platform {name!r}",
        why=f"by {', '.join(map(repr, sources))}",
        hint="uninstall all but one"
        if alike
        else "leave all but one out with XLADEV_PLUGINS=-NAME, or uninstall them",
    )


_current = Registry()


def current_registry() -> Registry:
    """The registry of this process."""
    return _current


@contextmanager
def using_registry(registry: Registry) -> Iterator[Registry]:
    """Makes ``registry`` the process's until the block ends; for tests."""
    global _current
    before, _current = _current, registry
    try:
        yield registry
    finally:
        _current = before
