"""The tiers of the vendor contract as data: which functions each adds; which tier a backend has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from xladev.compiler.contract import Compiler
from xladev.compiler.description import DeviceDescription
from xladev.runtime.event import Event
from xladev.runtime.executor import Executor
from xladev.runtime.loaded_executable import LoadedExecutable
from xladev.runtime.platform import Platform
from xladev.runtime.stream import Stream

HOOK = "xladev_platforms"
_SDK = ("xladev.runtime.", "xladev.compiler.")


@dataclass(frozen=True, slots=True)
class Tier:
    """One step of the contract.

    Attributes:
        number: 1 to 6.
        name: what a backend is called that has it.
        gives: what its users get.
        functions: what a vendor writes more than for the tier before; `Class.function`.
        instead: another route to the same: written instead of all but the first function.
        enough: of `functions`, the sets of which one is required; none: all functions are.
        beside: functions that belong to the tier and are never required; they are not counted.
        covered_by: a function with which nothing of the tier is required: it does its work.
        wants_dlpack_type: True if the device's description must have a DLPack device type, too.
    """

    number: int
    name: str
    gives: str
    functions: tuple[str, ...]
    instead: tuple[str, ...] = ()
    enough: tuple[tuple[str, ...], ...] = ()
    beside: tuple[str, ...] = ()
    covered_by: str = ""
    wants_dlpack_type: bool = False

    @property
    def ways(self) -> tuple[tuple[str, ...], ...]:
        """Sets of functions: whoever has written one of them in full has the tier."""
        other = ((self.functions[0], *self.instead),) if self.instead else ()
        return self.enough or (self.functions, *other)

    @property
    def optional(self) -> tuple[str, ...]:
        """Functions of the tier that it may leave to their defaults."""
        required = {f for way in self.ways for f in way}
        return (*(f for f in self.functions if f not in required), *self.beside)


TIERS: tuple[Tier, ...] = (
    Tier(
        1,
        "Memory",
        "arrays live on the device; every instruction runs on the host, and says so",
        (
            HOOK,
            "Platform.visible_device_count",
            "Platform.create_executor",
            "Executor.allocate",
            "Executor.deallocate",
            "Executor.copy_to_device",
            "Executor.copy_to_host",
        ),
    ),
    Tier(
        2,
        "Compiled",
        "what the compiler supports runs on the device",
        ("Compiler.supports", "Compiler.compile", "Executor.load", "LoadedExecutable.launch"),
        ("KernelCompiler.lower_<family>", "Executor.load_kernel", "Executor.launch_kernel"),
    ),
    Tier(
        3,
        "Fused",
        "the backend's own passes, and several instructions in one kernel",
        ("Compiler.pipeline", "Compiler.can_fuse"),
        enough=(("Compiler.pipeline",), ("Compiler.can_fuse",)),
        beside=("Compiler.can_share_kernel",),
        covered_by="Compiler.compile",
    ),
    Tier(
        4,
        "Asynchronous",
        "the host goes on while the device computes and copies",
        (
            "Executor.create_stream",
            "Stream.copy",
            "Stream.record",
            "Stream.wait",
            "Stream.synchronize",
            "Event.is_ready",
            "Event.wait",
            "Event.error",
        ),
        beside=("Stream.branches", "Stream.mark", "Stream.stamp"),
    ),
    Tier(
        5,
        "Integrated",
        "memory is shared with other libraries without copies, and accounted for",
        ("Executor.to_dlpack", "Executor.from_dlpack", "Executor.memory_stats"),
        enough=(("Executor.to_dlpack", "Executor.from_dlpack"),),
        beside=("Executor.device_pointer",),
        wants_dlpack_type=True,
    ),
    Tier(
        6,
        "Collective",
        "devices exchange data directly, not through the host",
        ("Platform.create_communicator",),
        beside=("Platform.create_process_communicator",),
    ),
)
"""All tiers, lowest first; each includes those before it."""

CONTRACT = MappingProxyType(
    {c.__name__: c for c in (Platform, Executor, Stream, Event, Compiler, LoadedExecutable)}
)
"""The classes of the contract by name."""


def cumulative_count(tier: Tier) -> int:
    """Functions that a backend of this tier has written in all."""
    return sum(len(t.functions) for t in TIERS if t.number <= tier.number)


def written_functions(classes: Sequence[type[Any]]) -> frozenset[str]:
    """The `Class.function` names of the contract that a vendor wrote in these classes."""
    return frozenset(
        f"{name}.{function}"
        for cls in classes
        for name, base in CONTRACT.items()
        if issubclass(cls, base)
        for function in vars(base)
        if not function.startswith("_") and not _is_sdks(cls, function)
    )


def _is_sdks(cls: type[Any], function: str) -> bool:
    """True if the class inherits the function from the SDK."""
    definer = next(c for c in cls.__mro__ if function in vars(c))
    return definer.__module__.startswith(_SDK)


def tier_of(classes: Sequence[type[Any]], description: DeviceDescription | None = None) -> Tier:
    """The highest tier that is there with all below it, as far as classes show it.

    A tier is there if one of its `ways` is written in full. One that another function covers may be
    missing below others, but is not named itself. Functions of classes that are not among the given
    ones (events, loaded executables) are abstract, and taken to be written.

    Args:
        classes: of the platform, an executor, the compiler, a stream.
        description: of the device; without it, it is taken to say what a tier wants of it.
    """
    written = written_functions(classes)
    unseen = {n for n in _MADE_LATER if not any(issubclass(c, CONTRACT[n]) for c in classes)}
    named = TIERS[0]
    for tier in TIERS[1:]:
        if _is_there(tier, written, unseen, description):
            named = tier
        elif tier.covered_by not in written:
            break
    return named


_MADE_LATER = ("Stream", "Event", "LoadedExecutable")
"""Classes whose objects an executor makes."""


def _is_there(
    tier: Tier, written: frozenset[str], unseen: set[str], description: DeviceDescription | None
) -> bool:
    if tier.wants_dlpack_type and description and description.dlpack_device_type is None:
        return False
    return any(all(_is_written(f, written, unseen) for f in way) for way in tier.ways)


def _is_written(function: str, written: frozenset[str], unseen: set[str]) -> bool:
    """True if it is, or if no class that could have it is there to ask."""
    cls = function.partition(".")[0]
    return function in written or cls in unseen or cls not in CONTRACT
