"""The reference page of the vendor contract: prose from contract.md.in, functions from the code."""

import re
from collections.abc import Callable
from pathlib import Path

from pieces.docstrings import section

from xladev.runtime import hookspecs
from xladev.runtime.device import MAX_IN_FLIGHT
from xladev.runtime.hookspecs import CONTRACT_VERSION
from xladev.runtime.tiers import CONTRACT, HOOK, TIERS, Tier, cumulative_count

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
        "in_flight": lambda: str(MAX_IN_FLIGHT),
        "tiers": _table,
        "optional": _optional,
    }[word]()


def _table() -> str:
    rows = [f"| {t.number} {t.name} | {t.gives} | {cumulative_count(t)} |" for t in TIERS]
    return "\n".join(["| tier | users get | functions |", "|---|---|--:|", *rows])


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


def _function(name: str) -> str:
    """Heading, signature and docstring of one function."""
    found = _find(name)
    if found is None:
        return f"### `{name}`\n\nOne for each family of kernels; see `KernelCompiler`.\n"
    return section(name, found, "###")


def _find(name: str) -> Callable[..., object] | property | None:
    if name == HOOK:
        return hookspecs.xladev_platforms
    cls, _, function = name.partition(".")
    return getattr(CONTRACT[cls], function) if cls in CONTRACT else None
