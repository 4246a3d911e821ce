"""The tiers of the vendor contract as data: which functions each adds; which tier a backend has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from xladev.compiler.contract import Compiler
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
    """

    number: int
    name: str
    gives: str
    functions: tuple[str, ...]
    instead: tuple[str, ...] = ()


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
    ),
    Tier(
        5,
        "Integrated",
        "memory is shared with other libraries without copies, and accounted for",
        ("Executor.to_dlpack", "Executor.from_dlpack", "Executor.memory_stats"),
    ),
    Tier(
        6,
        "Collective",
        "devices exchange data directly, not through the host",
        ("Platform.create_communicator",),
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


def tier_of(classes: Sequence[type[Any]]) -> Tier:
    """The highest tier any of whose functions is overridden, as far as classes show it.

    Args:
        classes: of the platform, an executor and the compiler.
    """
    written = written_functions(classes)
    reached = [t for t in TIERS[1:] if written.intersection(t.functions + t.instead)]
    return reached[-1] if reached else TIERS[0]
