"""The machines that the CPU's compiler knows: triples as people write them, and processor levels.

A target is written ``TRIPLE`` or ``TRIPLE:LEVEL``: ``aarch64-linux-gnu``,
``x86_64-linux-gnu:x86-64-v3``. Without a level it is the least processor of the triple, whatever
the machine is that compiles.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import MappingProxyType

from xladev.codegen.llvm import TargetTraits
from xladev.codegen.llvm.portable import ROUNDINGS
from xladev.errors import OptionError


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A machine to generate code for.

    Attributes:
        name: one spelling for all aliases: the LLVM triple, and the level unless it is the least.
        cpu: processor, as LLVM spells it.
        features: likewise.
        traits: what the emitters must know.
        relocation: how code finds its data, as LLVM spells it.
        abi: which calling convention, where LLVM does not know it by the triple.
        is_host: true for the processor that this process runs on.
    """

    name: str
    cpu: str
    features: str
    traits: TargetTraits
    relocation: str = "pic"
    abi: str = ""
    is_host: bool = False

    @property
    def triple(self) -> str:
        """The LLVM triple."""
        return self.traits.triple

    @property
    def architecture(self) -> str:
        """The first word of the triple."""
        return self.triple.partition("-")[0]


@dataclass(frozen=True, slots=True)
class ProcessorLevel:
    """One processor level: what LLVM is told, and the traits that follow; see `TargetTraits`.

    Four bytes for a vector say that there are none.
    """

    cpu: str = "generic"
    features: str = ""
    vector_nbytes: int = 16
    missing: frozenset[str] = frozenset()
    has_half: bool = False
    has_scaling: bool = False


@dataclass(frozen=True, slots=True)
class Architecture:
    """Processors of one instruction set.

    Attributes:
        levels: by name, the least one first.
        systems: rest of the LLVM triple by what people write after the architecture.
        pointer_nbytes: bytes of an address.
        relocation: see `CpuTarget`.
        abi: see `CpuTarget`.
    """

    levels: Mapping[str, ProcessorLevel]
    systems: Mapping[str, str]
    pointer_nbytes: int = 8
    relocation: str = "pic"
    abi: str = ""


_LINUX: Mapping[str, str] = MappingProxyType(
    {"linux": "unknown-linux-gnu", "linux-gnu": "unknown-linux-gnu",
     "linux-musl": "unknown-linux-musl"}
)  # fmt: skip
_ANDROID: Mapping[str, str] = MappingProxyType({"linux-android": "unknown-linux-android"})
_HARD_FLOAT: Mapping[str, str] = MappingProxyType(
    {"linux-gnueabihf": "unknown-linux-gnueabihf", "linux-musleabihf": "unknown-linux-musleabihf"}
)
_BROWSER: Mapping[str, str] = MappingProxyType(
    {"": "unknown-unknown", "unknown": "unknown-unknown", "wasi": "wasi", "wasip1": "wasi"}
)

_FMA = frozenset({"fma"})
_NUMBERS = frozenset({"maxnum", "minnum"})
_EXTREMES = frozenset({"maximum", "minimum", "vector.reduce.fmaximum", "vector.reduce.fminimum"})
_ARM = ROUNDINGS | _NUMBERS | _EXTREMES
_WASM = _FMA | _NUMBERS | {"round"}

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "x86_64": Architecture(
            {
                "x86-64": ProcessorLevel("x86-64", missing=_FMA | ROUNDINGS),
                "x86-64-v2": ProcessorLevel("x86-64-v2", missing=_FMA),
                "x86-64-v3": ProcessorLevel("x86-64-v3", "", 32, has_half=True),
                "x86-64-v4": ProcessorLevel("x86-64-v4", "", 64, has_half=True, has_scaling=True),
            },
            {**_LINUX, **_ANDROID},
        ),
        "aarch64": Architecture({"armv8-a": ProcessorLevel(has_half=True)}, {**_LINUX, **_ANDROID}),
        # No NEON: on 32-bit ARM it takes denormals for zero, and much here depends on them.
        "armv7": Architecture(
            {
                "vfpv3-d16": ProcessorLevel("generic", "+vfp3d16,-neon,-d32", 4, _FMA | _ARM),
                "vfpv4": ProcessorLevel("generic", "+vfp4,-neon", 4, _ARM, has_half=True),
            },
            _HARD_FLOAT,
            pointer_nbytes=4,
        ),
        "riscv64": Architecture(
            {"rv64gc": ProcessorLevel("generic-rv64", "+m,+a,+f,+d,+c", 4)},
            _LINUX,
            abi="lp64d",
        ),
        "wasm32": Architecture(
            {
                "generic": ProcessorLevel("generic", "", 4, _WASM),
                "simd128": ProcessorLevel("generic", "+simd128", 16, _WASM),
            },
            _BROWSER,
            pointer_nbytes=4,
            relocation="static",
        ),
    }
)
"""By the first word of the triple."""

_ALIASES: Mapping[str, str] = MappingProxyType(
    {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64", "armv8": "aarch64",
     "arm": "armv7", "armv7a": "armv7", "armv7l": "armv7", "armhf": "armv7",
     "riscv64gc": "riscv64", "wasm": "wasm32"}
)  # fmt: skip
_VENDORS = ("unknown-", "pc-", "none-")
_API_LEVEL = re.compile(r"(android)\d+$")


def target_of(text: str) -> CpuTarget:
    """The target that ``TRIPLE`` or ``TRIPLE:LEVEL`` names.

    Raises:
        OptionError: an unknown architecture, system or level; it names those that there are.
    """
    triple, colon, level = text.strip().partition(":")
    first, _, rest = triple.partition("-")
    if triple.lower().startswith("x86-64"):
        first, rest = "x86_64", triple[len("x86-64") :].lstrip("-")
    name = _ALIASES.get(first.lower(), first.lower())
    found = ARCHITECTURES.get(name)
    if found is None:
        raise _unknown(text, "architecture", first, tuple(ARCHITECTURES))
    system = found.systems.get(_plain_system(rest))
    if system is None:
        raise _unknown(text, "system", rest, tuple(filter(None, found.systems)))
    return _target(text, f"{name}-{system}", found, level.removeprefix("+") if colon else None)


def x86_missing(features: Collection[str]) -> frozenset[str]:
    """The intrinsics that an x86 processor of some features has no instructions for."""
    rounding = frozenset() if "+sse4.1" in features else ROUNDINGS
    return rounding if "+fma" in features else rounding | _FMA


def target_names() -> tuple[str, ...]:
    """Every target by the name that `CpuTarget.name` gives it, one system each."""
    return tuple(
        target_of(f"{name}-{next(iter(each.systems))}".rstrip("-") + f":{level}").name
        for name, each in ARCHITECTURES.items()
        for level in each.levels
    )


def _target(text: str, triple: str, found: Architecture, wanted: str | None) -> CpuTarget:
    least = next(iter(found.levels))
    level = found.levels.get(wanted or least)
    if level is None or wanted == "":
        raise _unknown(text, "processor level", wanted or "", tuple(found.levels))
    traits = TargetTraits(
        triple=triple,
        has_half_conversion=level.has_half,
        has_scaling=level.has_scaling,
        has_lookups=level.has_scaling,
        has_extremes=not triple.startswith("x86"),
        missing=level.missing,
        vector_nbytes=level.vector_nbytes,
        pointer_nbytes=found.pointer_nbytes,
    )
    name = triple if wanted in (None, least) else f"{triple}:{wanted}"
    target = CpuTarget(name, level.cpu, level.features, traits, abi=found.abi)
    return replace(target, relocation=found.relocation)


def _plain_system(rest: str) -> str:
    """Everything after the architecture, without a vendor and the level of Android's API."""
    system = rest.lower()
    for vendor in _VENDORS:
        system = system.removeprefix(vendor)
    return _API_LEVEL.sub(r"\1", system)


def _unknown(text: str, what: str, word: str, known: tuple[str, ...]) -> OptionError:
    close = get_close_matches(word, known, n=1)
    return OptionError(
        f"the CPU platform cannot compile for target {text!r}",
        why=f"unknown {what} {word!r}; there are {', '.join(known)}",
        hint=f"did you mean {close[0]!r}?" if close else "write TRIPLE or TRIPLE:LEVEL",
    )
