"""Functions that LLVM calls where a processor lacks an instruction, as LLVM assembly."""

from __future__ import annotations

from xladev.platforms.cpu.targets import CpuTarget


def builtin_text(symbol: str, target: CpuTarget) -> str | None:
    """A module that defines the function; None if there is none of that name."""
    return None
