"""Functions that LLVM calls where a processor lacks an instruction, as LLVM assembly.

A compiler's own library has them; here they become part of the object instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from xladev.platforms.cpu.targets import CpuTarget

_FILES: Mapping[str, str] = MappingProxyType(
    {"armv7": "builtins_arm.ll", "wasm32": "builtins_wasm.ll"}
)
"""By architecture; the others have instructions for all that is emitted."""
_FUNCTION = re.compile(r"^define [^@]*@(\w+)\(.*?^}", re.MULTILINE | re.DOTALL)
_MENTIONED = re.compile(r"@([\w.]+)")
_DECLARATIONS = """
declare i32 @llvm.abs.i32(i32, i1)
declare i64 @llvm.abs.i64(i64, i1)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.fshl.i64(i64, i64, i64)
declare i64 @llvm.fshr.i64(i64, i64, i64)
declare double @llvm.fabs.f64(double)
attributes #0 = { nounwind "no-builtins" }
"""


def builtin_text(symbol: str, target: CpuTarget) -> str | None:
    """A module that defines the function; None if there is none of that name."""
    functions = _functions(target.architecture)
    if symbol not in functions:
        return None
    found, pending = {symbol: None}, [symbol]
    while pending:
        mentioned = _MENTIONED.findall(functions[pending.pop()])
        new = [name for name in mentioned if name in functions and name not in found]
        found |= dict.fromkeys(new)
        pending += new
    return "\n\n".join([functions[name] for name in found]) + _DECLARATIONS


@cache
def _functions(architecture: str) -> Mapping[str, str]:
    """Definitions by name."""
    file = _FILES.get(architecture)
    if file is None:
        return {}
    text = (Path(__file__).parent / file).read_text("utf-8")
    return {m.group(1): m.group(0) for m in _FUNCTION.finditer(text)}
