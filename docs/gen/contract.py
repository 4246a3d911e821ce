"""The reference page of the vendor contract: prose from contract.md.in, functions from the code."""

import re
from collections.abc import Callable
from pathlib import Path

from pieces.docstrings import section

from xladev.compiler.plan.memory_plan import MOST_GROWTH
from xladev.compiler.streams.stream_choice import LEAST_GAIN, LEAST_GAIN_S
from xladev.runtime import hookspecs
from xladev.runtime.device import MAX_IN_FLIGHT
from xladev.runtime.hookspecs import CONTRACT_VERSION
from xladev.runtime.memory import DeviceMemory, MemoryStats
from xladev.runtime.platform import MAX_DEVICES
from xladev.runtime.plugins.loading import SHIPPED
from xladev.runtime.plugins.tiers import CONTRACT, HOOK, TIERS, Tier, cumulative_count

PAGE = "reference/contract.md"

TEMPLATE = Path(__file__).with_name("contract.md.in")
MARKER = re.compile(r"@@(\w+)(?: (\d))?@@")


def render() -> str:
    """The template with its markers replaced."""
    return MARKER.sub(_replacement, TEMPLATE.read_text("utf-8"))


def _replacement(marker: re.Match[str]) -> str:
    word, number = marker.groups()
    if number is not None:
        tier = TIERS[int(number) - 1]
        return _title(tier) if word == "title" else _functions(tier)
    return {
        "version": lambda: ".".join(map(str, CONTRACT_VERSION)),
        "major": lambda: str(CONTRACT_VERSION[0]),
        "shipped": lambda: ", ".join(f"`{name}`" for name in SHIPPED),
        "devices": lambda: str(MAX_DEVICES),
        "in_flight": lambda: str(MAX_IN_FLIGHT),
        "gain_us": lambda: f"{LEAST_GAIN_S * 1e6:.0f}",
        "gain_percent": lambda: f"{LEAST_GAIN:.0%}".rstrip("%"),
        "growth_percent": lambda: f"{MOST_GROWTH - 1:.0%}".rstrip("%"),
        "values": _values,
        "tiers": _table,
        "required": _required,
        "optional": _optional,
    }[word]()


def _table() -> str:
    rows = [f"| {t.number} {t.name} | {t.gives} | {cumulative_count(t)} |" for t in TIERS]
    return "\n".join(["| tier | users get | functions |", "|---|---|--:|", *rows])


def _required() -> str:
    """What makes each tier, function by function."""
    rows = [f"| {t.number} {t.name} | {_ways(t)} | {_names(t.optional) or 'none'} |" for t in TIERS]
    return "\n".join(["| tier | required | optional |", "|---|---|---|", *rows])


def _ways(tier: Tier) -> str:
    said = "; or ".join(_names(way) for way in tier.ways)
    if tier.wants_dlpack_type:
        said += ", and `DeviceDescription.dlpack_device_type`"
    if tier.covered_by:
        said += f"; or nothing, on the way to higher tiers, beside `{tier.covered_by}`"
    return said


def _names(functions: tuple[str, ...]) -> str:
    return ", ".join(f"`{f}`" for f in functions)


def _title(tier: Tier) -> str:
    return f"Tier {tier.number}: {tier.name} ({cumulative_count(tier)} functions)"


def _functions(tier: Tier) -> str:
    return "\n".join(map(_function, tier.functions + tier.instead)).rstrip()


def _optional() -> str:
    """Functions with defaults that belong to no tier."""
    in_tiers = {f for t in TIERS for f in t.functions + t.instead}
    names = [
        f"{name}.{function}"
        for name, cls in CONTRACT.items()
        for function in vars(cls)
        if not function.startswith("_") and f"{name}.{function}" not in in_tiers
    ]
    return "\n".join(map(_function, names)).rstrip()


def _values() -> str:
    """The classes that functions of the contract pass."""
    shown = (section(c.__name__, c, "###", signature=False) for c in (DeviceMemory, MemoryStats))
    return "\n".join(shown).rstrip()


def _function(name: str) -> str:
    """Heading, signature and docstring of one function."""
    found = _find(name)
    if found is None:
        return (
            f"### `{name}(spec, options)`\n\nCode of one kernel, one function for each family of"
            " kernels: [The per-kernel route](kernel-route.md#families).\n"
        )
    return section(name, found, "###")


def _find(name: str) -> Callable[..., object] | property | None:
    if name == HOOK:
        return hookspecs.xladev_platforms
    cls, _, function = name.partition(".")
    return getattr(CONTRACT[cls], function) if cls in CONTRACT else None
