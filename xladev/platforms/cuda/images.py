"""Machine code of PTX, kept in the one on-disk cache, where there is an assembler."""

from __future__ import annotations

from xladev.compiler.cache.store import entry_key, store_of_environment
from xladev.errors import CompileError
from xladev.instrument import counter, logger
from xladev.platforms.cuda.toolkit import assemble, ptxas_path

_log = logger("compiler")


def machine_code(ptx: bytes, target: str) -> bytes:
    """The cubin of PTX for a target such as ``sm_90a``; the PTX itself without `ptxas`.

    What is kept was assembled from the very same text. The driver compiles PTX, and keeps what
    comes out in a cache of its own.
    """
    if ptx.startswith(b"\x7fELF"):
        return ptx
    store, key = store_of_environment(), entry_key("cubin", target, ptx)
    known = store.read(key) if store else None
    if known is not None:
        return known
    assembler = ptxas_path()
    if assembler is None:
        return ptx
    try:
        made = assemble(ptx.decode(), target, assembler).cubin
    except CompileError as e:
        _log.warning("ptxas: %s; the driver compiles the kernel", e)
        return ptx
    counter("cuda.assembled")
    if store is not None:
        store.write(key, made)
    return made
