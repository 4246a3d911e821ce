"""Microkernels that came compiled with xladev: for processor levels, in files beside this module.

A process on a processor of that level has them without compiling anything. `ship.py` makes the
files; without them, microkernels are compiled where they are wanted first.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from xladev import __version__, instrument
from xladev.codegen.llvm import ModuleBuilder, TargetTraits
from xladev.compiler.cache.code_stamp import code_stamp
from xladev.compiler.json_values import DAMAGE, parse_json, shown
from xladev.instrument import logger
from xladev.platforms.cpu.engine import host_cpu, target_traits
from xladev.platforms.cpu.payload import MicrokernelCode
from xladev.platforms.cpu.targets import CpuTarget, target_of

FOLDER = Path(__file__).parent / "microkernels"
OPTIMIZATION_LEVEL = 2
"""What is shipped is for this level, which is the default."""

DIGEST_NBYTES = 32
_LENGTH = struct.Struct("<Q")
_V3 = frozenset(["+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe"])
_V4 = _V3 | frozenset(["+avx512f", "+avx512bw", "+avx512cd", "+avx512dq", "+avx512vl"])
_log = logger("cpu")


@dataclass(frozen=True, slots=True)
class ShippedLevel:
    """Processors that code is shipped for.

    Attributes:
        name: of the file.
        target: triple and level, as `target_of` reads them.
        features: that a processor must have, as LLVM spells them.
        more: features that the code uses besides those of the level.
    """

    name: str
    target: str
    features: frozenset[str]
    more: tuple[str, ...] = ()

    def compiled_for(self) -> CpuTarget:
        """What its code is compiled for."""
        target = target_of(self.target)
        traits = replace(
            target.traits,
            has_byte_products="+avx512vnni" in self.more,
            has_bfloat_products="+avx512bf16" in self.more,
        )
        return replace(target, features=",".join(self.more), traits=traits)


_V4_TARGET = "x86_64-linux-gnu:x86-64-v4"
_VNNI, _BF16 = "+avx512vnni", "+avx512bf16"

LEVELS = (
    ShippedLevel("x86_64-linux.v4-bf16", _V4_TARGET, _V4 | {_VNNI, _BF16}, (_VNNI, _BF16)),
    ShippedLevel("x86_64-linux.v4-vnni", _V4_TARGET, _V4 | {_VNNI}, (_VNNI,)),
    ShippedLevel("x86_64-linux.v4", _V4_TARGET, _V4),
    ShippedLevel("x86_64-linux.v3", "x86_64-linux-gnu:x86-64-v3", _V3),
    ShippedLevel("aarch64-linux.v8", "aarch64-linux-gnu:armv8-a", frozenset({"+neon"})),
)
"""The best ones first."""


def shipped_microkernels(
    target: TargetTraits, optimization_level: int, folder: Path | None = None
) -> dict[str, MicrokernelCode]:
    """Those for this machine, by symbol; none if nothing is shipped for it, or for other code."""
    level = next((each for each in LEVELS if _fits(each, target)), None)
    if level is None or optimization_level != OPTIMIZATION_LEVEL:
        return {}
    return dict(_read((folder or FOLDER) / f"{level.name}.objects", level.name))


def shipped_object(name: str, text: str, optimization_level: int) -> bytes | None:
    """The object code of a text that is the same in every process, if it came compiled."""
    found = shipped_microkernels(target_traits(), OPTIMIZATION_LEVEL).get(
        text_symbol(name, text, optimization_level)
    )
    return None if found is None else found.code


def text_symbol(name: str, text: str, optimization_level: int) -> str:
    """What the object code of a text is called in a file."""
    return f"{name}.{optimization_level}.{sha256(text.encode()).hexdigest()}"


@cache
def _read(path: Path, level: str) -> Mapping[str, MicrokernelCode]:
    """What a level's file has; nothing if it is absent, damaged or of other code."""
    try:
        with instrument.trace_scope("shipped microkernels", "codegen"):
            return _unpacked(path.read_bytes(), level)
    except FileNotFoundError:
        return {}
    except (OSError, struct.error, *DAMAGE) as e:
        instrument.pass_interruption(e)
        _log.warning("%s is damaged, so microkernels are compiled: %s", path, shown(e))
        return {}


def _fits(level: ShippedLevel, target: TargetTraits) -> bool:
    """True if its code runs here and is what would be emitted here."""
    if target != target_traits() or not level.features <= set(host_cpu()[1].split(",")):
        return False
    return level.compiled_for().traits == target


# The file: SHA-256 of all that follows, length of the facts, facts (JSON), object files


def packed(microkernels: Mapping[str, bytes], level: str) -> bytes:
    """A level's file of object code by symbol."""
    facts = {
        "version": __version__,
        "stamp": code_stamp(ModuleBuilder.__module__),
        "level": level,
        "sizes": {symbol: len(code) for symbol, code in microkernels.items()},
    }
    text = json.dumps(facts).encode()
    return sealed(b"".join([_LENGTH.pack(len(text)), text, *microkernels.values()]))


def sealed(content: bytes) -> bytes:
    """A file's bytes, with the checksum before them."""
    return sha256(content).digest() + content


def _unpacked(data: bytes, level: str) -> dict[str, MicrokernelCode]:
    content = memoryview(data)[DIGEST_NBYTES:]
    if sha256(content).digest() != data[:DIGEST_NBYTES]:
        raise ValueError("its checksum does not match")
    (length,) = _LENGTH.unpack_from(content)
    at = _LENGTH.size + length
    facts = parse_json(bytes(content[_LENGTH.size : at]))
    if facts["level"] != level:
        raise ValueError(f"it is for {shown(facts['level'])}")
    if not _is_of_this_code(facts):
        return {}
    found: dict[str, MicrokernelCode] = {}
    for symbol, nbytes in facts["sizes"].items():
        found[symbol] = MicrokernelCode(symbol, bytes(content[at : at + nbytes]))
        at += nbytes
    if at != len(content):
        raise ValueError(f"{len(content)} bytes, not {at}")
    return found


def _is_of_this_code(facts: Mapping[str, str]) -> bool:
    """True if the code that would compile the same microkernels is the code that did.

    Of installed packages the version says so, of code that is worked on the stamp.
    """
    if facts["version"] != __version__:
        return False
    is_installed = {"site-packages", "dist-packages"} & set(Path(__file__).parts)
    return bool(is_installed) or facts["stamp"] == code_stamp(ModuleBuilder.__module__)
