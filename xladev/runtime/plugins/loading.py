"""Finding and loading plugins, each on its own: one that fails is reported and breaks no other."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from types import MappingProxyType

import pluggy

from xladev.compiler.isolation import plugin_call
from xladev.errors import PluginError, XladevError
from xladev.instrument import is_interruption, logger
from xladev.runtime import hookspecs
from xladev.runtime.hookspecs import CONTRACT_VERSION, ENTRY_POINT_GROUP, PROJECT, PlatformSpec

_log = logger("plugin")

Finder = Callable[[], Iterable[EntryPoint]]

SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "cpu": "xladev.platforms.cpu.plugin",
        "interpreter": "xladev.platforms.interpreter.plugin",
        "template_npu": "xladev.platforms.template_npu.plugin",
        "cuda": "xladev.platforms.cuda.plugin",
        "cuda_emu": "xladev.platforms.cuda.plugin",
    }
)
"""Names of the platforms that ship with xladev, and the one module that may bring each.

They are nobody else's, installed or not: programs and tests name them, and what other backends
refuse runs on them.
"""


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """What became of one entry point.

    Attributes:
        name: of the entry point.
        target: what it points at, ``module:attribute``.
        distribution: name of the distribution that brought it; empty if unknown.
        version: of that distribution.
        specs: the platforms it offers; empty if it failed or was left out.
        error: why it failed; None if it did not.
        traceback: where it failed.
        left_out: True if `XLADEV_PLUGINS` leaves it out.
    """

    name: str
    target: str = ""
    distribution: str = ""
    version: str = ""
    specs: tuple[PlatformSpec, ...] = ()
    error: XladevError | None = None
    traceback: str = ""
    left_out: bool = False


def installed_plugins() -> Iterable[EntryPoint]:
    """The entry points of all installed distributions whose metadata can be read."""
    try:
        return entry_points(group=ENTRY_POINT_GROUP)
    except Exception as e:
        if is_interruption(e):
            raise
        return [e for found in distributions() for e in _entry_points_of(found)]


def _entry_points_of(found: Distribution) -> Sequence[EntryPoint]:
    """The entry points of one distribution; none, with a warning, if they cannot be read."""
    try:
        return tuple(found.entry_points.select(group=ENTRY_POINT_GROUP))
    except Exception as e:
        if is_interruption(e):
            raise
        _log.warning("the entry points of %s cannot be read: %s", _place_of(found), repr(e))
        return ()


def _place_of(found: Distribution) -> str:
    return str(getattr(found, "_path", found))


def load_plugins(
    find: Finder = installed_plugins, environment: Mapping[str, str] | None = None
) -> tuple[LoadedPlugin, ...]:
    """Loads every entry point that `XLADEV_PLUGINS` does not leave out, in order of names.

    `XLADEV_PLUGINS=a,-b` is a list of entry-point names: with a plain name in it, only the plain
    ones are loaded; those with a minus never are.
    """
    found = sorted(find(), key=lambda e: (e.name, e.value))
    setting = (os.environ if environment is None else environment).get("XLADEV_PLUGINS", "")
    wanted = _filter(setting, [e.name for e in found])
    return tuple(_load(e) if wanted(e.name) else _describe(e, left_out=True) for e in found)


def _filter(setting: str, names: Sequence[str]) -> Callable[[str], bool]:
    words = [word.strip().lower() for word in setting.split(",") if word.strip()]
    denied = {word[1:] for word in words if word.startswith("-")}
    allowed = {word for word in words if not word.startswith("-")}
    for unknown in sorted((denied | allowed) - {n.lower() for n in names}):
        _log.warning(
            "XLADEV_PLUGINS names %r, which is not installed (%s are)",
            unknown,
            ", ".join(names) or "none",
        )
    return lambda name: name.lower() not in denied and (not allowed or name.lower() in allowed)


def _describe(entry: EntryPoint, *, left_out: bool = False) -> LoadedPlugin:
    distribution, version = _distribution(entry)
    return LoadedPlugin(entry.name, entry.value, distribution, version, left_out=left_out)


def _distribution(entry: EntryPoint) -> tuple[str, str]:
    """Name and version of what brought an entry point; empty where its metadata is damaged."""
    try:
        return (entry.dist.name or "", entry.dist.version or "") if entry.dist else ("", "")
    except Exception as e:
        if is_interruption(e):
            raise
        return "", ""


def _load(entry: EntryPoint) -> LoadedPlugin:
    plain = _describe(entry)
    try:
        with plugin_call(entry.name, "import"):
            module = entry.load()
        specs = call_hook(entry.name, module)
        for spec in specs:
            check_name(entry, spec)
    except XladevError as e:
        trace = "".join(traceback.format_exception(e))
        _log.warning("plugin %r is left out: %s", entry.name, e)
        return LoadedPlugin(
            plain.name, plain.target, plain.distribution, plain.version, error=e, traceback=trace
        )
    return LoadedPlugin(plain.name, plain.target, plain.distribution, plain.version, specs)


def call_hook(name: str, plugin: object) -> tuple[PlatformSpec, ...]:
    """Calls the hook of one plugin, apart from all others.

    Args:
        name: of the plugin, for messages.
        plugin: module or object that implements `xladev_platforms`.

    Raises:
        PluginError: no such hook, a wrong signature, a raising hook, a wrong result, or a
            contract version that this xladev does not speak.
    """
    function = "xladev_platforms"
    apart = pluggy.PluginManager(PROJECT)
    apart.add_hookspecs(hookspecs)
    with plugin_call(name, f"registration of {function}"):
        apart.register(plugin, name)
        apart.check_pending()
    hook = apart.hook.xladev_platforms
    if not hook.get_hookimpls():
        raise PluginError(
            f"plugin {name!r} implements no hook {function}",
            where=name,
            hint="decorate the function with xladev.runtime.hookspecs.hookimpl",
        )
    with plugin_call(name, function):
        results = hook()
    return tuple(spec for result in results for spec in _as_specs(name, result))


def _as_specs(name: str, result: object) -> tuple[PlatformSpec, ...]:
    with plugin_call(name, "xladev_platforms"):
        specs = tuple(result) if isinstance(result, (list, tuple)) else (result,)
    for spec in specs:
        if not isinstance(spec, PlatformSpec):
            raise PluginError(
                f"plugin {name!r} returned {type(spec).__name__} from xladev_platforms",
                where=name,
                why="the contract says PlatformSpec, or a list of them",
            )
        check_version(name, spec)
    return specs


def check_name(entry: EntryPoint, spec: PlatformSpec) -> None:
    """Refuses the name of a platform that ships with xladev to everybody else.

    Raises:
        PluginError: naming the plugin and the name.
    """
    module = SHIPPED.get(spec.name)
    if module in (None, entry.module):
        return
    raise PluginError(
        f"plugin {entry.name!r} claims platform name {spec.name!r}",
        where=f"{entry.name}: {entry.value}",
        why=f"{spec.name!r} ships with xladev; no other plugin may bring it",
        hint="give the platform a name of its own; PlatformSpec.kind and priority, not the name, "
        "decide which device programs use",
    )


def check_version(name: str, spec: PlatformSpec) -> None:
    """Refuses a platform written for another major version of the contract.

    Raises:
        PluginError: naming both versions.
    """
    if spec.api[0] == CONTRACT_VERSION[0]:
        return
    raise PluginError(
        f"platform {spec.name!r} of plugin {name!r} speaks contract {_dotted(spec.api)}",
        where=name,
        why=f"this xladev speaks contract {_dotted(CONTRACT_VERSION)}; the first numbers differ",
        hint="install a release of the plugin, or of xladev, that matches",
    )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
