"""The code of an executable in this process: machine code that was linked, or bytecode."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from xladev.compiler.executable import Executable, Piece
from xladev.platforms.cpu.aligned import address_of, in_place
from xladev.platforms.cpu.bytecode import KERNELS, Bytecode, is_bytecode
from xladev.platforms.cpu.bytecode_runner import LoadedScript
from xladev.platforms.cpu.engine import ENTRY, LoadedObject
from xladev.platforms.cpu.exchange import exchange_symbols
from xladev.platforms.cpu.fork import fork_symbols
from xladev.platforms.cpu.interruption import poll_symbols
from xladev.platforms.cpu.lapack.threads import library_symbols
from xladev.platforms.cpu.library import LIBRARY
from xladev.platforms.cpu.linker import CONSTANTS
from xladev.platforms.cpu.payload import CpuPayload
from xladev.platforms.cpu.pool import pool_symbols
from xladev.platforms.cpu.recorder import RECORDER
from xladev.platforms.cpu.trace_points import TRACE


class LoadedCode(Protocol):
    """What can be called for as long as it lives."""

    @property
    def entry(self) -> int:
        """Address of the entry; see `engine.ENTRY` for its signature."""
        ...

    @property
    def address(self) -> int:
        """An address that no other program has: marks come from there."""
        ...


def load_code(payload: CpuPayload, constants: Sequence[Piece], name: str) -> LoadedCode:
    """Links or loads the code of a program.

    Args:
        payload: the code.
        constants: bytes of the arrays that it reads; used in place where they are aligned.
        name: of the program.

    Raises:
        FormatError: a damaged bytecode.
        CompileError: it calls functions of a library that this process lacks.
    """
    library = _library(payload, name)
    if is_bytecode(payload.codes[0]):
        return _Interpreted(payload, constants, library)
    return _Linked(payload, constants, library)


class _Linked:
    """Object files, and the constants that they find by a table."""

    def __init__(
        self, payload: CpuPayload, constants: Sequence[Piece], library: Mapping[str, int]
    ) -> None:
        imports = {**_imports(payload), **library}
        imports[TRACE] = RECORDER.word_address
        code, *more = payload.codes
        self._object = LoadedObject("program", code, (ENTRY, CONSTANTS), imports, more)
        self._constants = [in_place(c) for c in constants]
        if self._constants:
            self._object.write_pointers(CONSTANTS, [address_of(c) for c in self._constants])
        self.entry = self._object.address(ENTRY)
        self.address = self._object.address(CONSTANTS)


class _Interpreted:
    """Bytecode, and the kernels that it calls."""

    def __init__(
        self, payload: CpuPayload, constants: Sequence[Piece], library: Mapping[str, int]
    ) -> None:
        bytecode = Bytecode.from_bytes(payload.codes[0])
        microkernels = LIBRARY.addresses(payload.microkernels)
        kernels: tuple[int, ...] = ()
        if len(payload.codes) > 1:
            _, code, *more = payload.codes
            imports = {**_imports(payload), **library}
            self._object = LoadedObject("program", code, (KERNELS,), imports, more)
            kernels = _words_at(self._object.address(KERNELS), bytecode.kernels)
        self._bytecode = LoadedScript(
            bytecode,
            tuple(microkernels.values()),
            constants,
            kernels,
            tuple(library.values()),
        )
        self.entry, self.address = self._bytecode.entry, self._bytecode.address


_shared: WeakValueDictionary[bytes, _Linked] = WeakValueDictionary()
"""The code of programs of several devices, by digest, for as long as a device has it."""
_shared_lock = threading.Lock()


def load_shared(payload: CpuPayload, executable: Executable, name: str) -> LoadedCode:
    """Links the code of a program of several devices, once for all of them.

    Args:
        payload: with an exchange.
        executable: what holds it.
        name: of the program.

    Raises:
        CompileError: see `load_code`.
    """
    key = executable.digest()
    with _shared_lock:
        code = _shared.get(key)
        if code is None:
            code = _Linked(payload, executable.blobs, _library(payload, name))
            _shared[key] = code
        return code


def _library(payload: CpuPayload, name: str) -> Mapping[str, int]:
    return library_symbols(payload.library, f"executable {name!r}") if payload.library else {}


def _imports(payload: CpuPayload) -> dict[str, int]:
    imports: dict[str, int] = LIBRARY.addresses(payload.microkernels)
    if payload.is_parallel:
        imports |= pool_symbols()
    if payload.has_loops:
        imports |= poll_symbols()
    if payload.has_forks:
        imports |= fork_symbols()
    if payload.exchange is not None:
        imports |= exchange_symbols()
    return imports


def _words_at(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_size_t * count).from_address(address))
