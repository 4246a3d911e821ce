"""What is certified: the platform, who brought it, versions, and that nothing bends the outcome."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution

from xladev.errors import DeviceError, UsageError, XladevError
from xladev.runtime.plugins.diagnosis import Diagnosis, PlatformDiagnosis, diagnose
from xladev.runtime.plugins.tiers import TIERS
from xladev.runtime.registry import Registry, current_registry
from xladev.testing.certificate.plugin_files import plugin_files
from xladev.testing.worker import Status, Worker

OPENING_S = 120.0
"""Seconds that opening all devices may take."""

_BENDING = ("XLADEV_FLAGS", "XLADEV_FALLBACK", "XLADEV_STRICT", "PYTEST_ADDOPTS")
"""Variables that change how programs are compiled or which cases run."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What is certified.

    Attributes:
        platform: name.
        kind: of its devices.
        tier: number of the contract's tier that its classes show.
        contract: version of the contract that it was written for, ``major.minor``.
        plugin: entry point.
        distribution: name and version of what brought it.
        editable: True if that is installed from a working tree, which may change at any time.
        files: how many files of what `files_sha256` is over; empty if none were found.
        files_sha256: over the plugin's files, see `plugin_files`.
        driver: version of its driver; empty if it says none.
        device: what its first device calls itself.
        target: what is compiled for it.
        device_count: visible devices.
        versions: Python, machine, and packages, xladev among them.
    """

    platform: str
    kind: str
    tier: int
    contract: str
    plugin: str
    distribution: str
    editable: bool
    files: str
    files_sha256: str
    driver: str
    device: str
    target: str
    device_count: int
    versions: Mapping[str, str]


def inspect_backend(registry: Registry, name: str) -> Backend:
    """The backend that a name means, as it is installed.

    Raises:
        DeviceError: no such platform, no device, or one that does not open.
    """
    chosen = registry.platform(name)
    found = diagnose(registry)
    platform = next(p for p in found.platforms if p.name == chosen.name)
    _check_devices(platform)
    first = platform.devices[0]
    brought = _distribution(found, platform.plugin)
    files = plugin_files(platform.plugin)
    return Backend(
        platform=platform.name,
        kind=platform.kind,
        tier=next((t.number for t in TIERS if t.name == platform.tier), 1),
        contract=".".join(map(str, platform.api)),
        plugin=platform.plugin,
        distribution=brought,
        editable=_is_editable(brought.partition(" ")[0]),
        files=files.of,
        files_sha256=files.sha256,
        driver=platform.driver,
        device=first.description,
        target=first.target,
        device_count=len(platform.devices),
        versions=dict(found.versions),
    )


def inspect_apart(name: str, timeout_s: float = OPENING_S) -> Backend:
    """As `inspect_backend`, in a process of its own: a driver may crash or hang when opened.

    Raises:
        DeviceError: no such platform, no device, or one that does not open.
    """
    with Worker(f"{__name__}:describe", timeout_s) as worker:
        outcome = worker.call(name.encode())
    if outcome.status is Status.OK:
        said = json.loads(outcome.value)
        if "error" in said:
            raise DeviceError(**said["error"])
        return Backend(**said["backend"])
    raise DeviceError(
        f"the devices of {name!r} cannot be opened",
        why=f"{outcome.status.value} after {outcome.seconds:.0f} s\n{outcome.detail}".rstrip(),
        hint="`xladev doctor` shows where, unless it ends in the same way",
    )


def describe(name: bytes) -> bytes:
    """The backend of a name, or why there is none, as JSON; runs in the child."""
    try:
        found = inspect_backend(current_registry(), name.decode())
    except XladevError as e:
        parts = ("what", "where", "why", "hint", "code")
        return json.dumps({"error": {part: getattr(e, part) for part in parts}}).encode()
    return json.dumps({"backend": asdict(found)}).encode()


def refuse_bent(environment: Mapping[str, str] = os.environ) -> None:
    """Refuses variables under which a certificate would say something else.

    Raises:
        UsageError: one is set.
    """
    found = [name for name in _BENDING if environment.get(name)]
    if found:
        raise UsageError(
            f"{', '.join(found)} set: no certificate",
            why="it changes how programs are compiled or which cases run",
            hint=f"env {' '.join(f'-u {name}' for name in found)} xladev certify ...",
        )


def _check_devices(platform: PlatformDiagnosis) -> None:
    problems = [d.error for d in platform.devices if d.error]
    problems += [f"{f.function}: {f.error}" for f in platform.failures]
    if problems or not platform.devices:
        raise DeviceError(
            f"{platform.name} has no device that works",
            why=problems[0] if problems else "no device is visible",
            hint="`xladev doctor` shows where it failed",
        )


def _distribution(found: Diagnosis, plugin: str) -> str:
    return next((p.distribution for p in found.plugins if p.name == plugin), "")


def _is_editable(name: str) -> bool:
    try:
        origin = distribution(name).read_text("direct_url.json") if name else None
    except PackageNotFoundError:
        return False
    return bool(origin and json.loads(origin).get("dir_info", {}).get("editable"))
