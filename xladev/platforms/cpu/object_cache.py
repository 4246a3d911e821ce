"""Object code of texts that are the same in every process, from the one on-disk cache."""

from __future__ import annotations

import llvmlite

from xladev.compiler.store import entry_key, store_of_environment
from xladev.platforms.cpu.engine import compile_text, host_cpu, target_name
from xladev.platforms.cpu.shipped import shipped_object


def cached_object(name: str, text: str, optimization_level: int) -> bytes:
    """As `compile_text`, but LLVM works only on a text that nobody compiled before.

    Raises:
        CompileError: LLVM rejects the text.
    """
    shipped = shipped_object(name, text, optimization_level)
    if shipped is not None:
        return shipped
    store = store_of_environment()
    if store is None:
        return compile_text(name, text, optimization_level)
    key = entry_key(
        "object",
        f"{llvmlite.__version__} {target_name()} {optimization_level}",
        ":".join(host_cpu()),
        text,
    )
    code = store.read(key)
    if code is None:
        code = compile_text(name, text, optimization_level)
        store.write(key, code)
    return code
