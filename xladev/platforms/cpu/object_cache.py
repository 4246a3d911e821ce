"""Object code of texts that are the same in every process, from the one on-disk cache."""

from __future__ import annotations

import llvmlite

from xladev.compiler.cache.store import entry_key, store_of_environment
from xladev.errors import FormatError
from xladev.instrument import logger
from xladev.platforms.cpu.engine import LoadedObject, compile_text, host_cpu, target_name
from xladev.platforms.cpu.shipped import shipped_object

_log = logger("cache")


def cached_object(name: str, text: str, optimization_level: int) -> bytes:
    """As `compile_text`, but LLVM works only on a text that nobody compiled before.

    Raises:
        CompileError: LLVM rejects the text.
    """
    shipped = shipped_object(name, text, optimization_level)
    if shipped is not None:
        return shipped
    store = store_of_environment()
    code = None if store is None else store.read(_key(text, optimization_level))
    return _compiled(name, text, optimization_level) if code is None else code


def load_cached(
    name: str, text: str, optimization_level: int, symbols: tuple[str, ...]
) -> tuple[LoadedObject, bytes]:
    """The code of a text in this process, and its object file.

    Code that was kept but cannot be linked is compiled again, and kept in its place.

    Raises:
        CompileError: LLVM rejects the text.
    """
    code = cached_object(name, text, optimization_level)
    try:
        return LoadedObject(name, code, symbols), code
    except FormatError as error:
        _log.warning("cached code cannot be loaded, and is compiled again: %s", error)
    code = _compiled(name, text, optimization_level)
    return LoadedObject(name, code, symbols), code


def _compiled(name: str, text: str, optimization_level: int) -> bytes:
    """Object code of a text, which is kept."""
    code = compile_text(name, text, optimization_level)
    store = store_of_environment()
    if store is not None:
        store.write(_key(text, optimization_level), code)
    return code


def _key(text: str, optimization_level: int) -> str:
    return entry_key(
        "object",
        f"{llvmlite.__version__} {target_name()} {optimization_level}",
        ":".join(host_cpu()),
        text,
    )
