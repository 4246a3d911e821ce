"""Which symbols an object file wants from others: read out of ELF and WebAssembly files."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from xladev.errors import FormatError

_ELF, _WASM = b"\x7fELF", b"\0asm"
_SYMBOL_TABLE = 2
_LOCAL = 0
_IMPORTS = 2


def undefined_symbols(data: bytes) -> tuple[str, ...]:
    """Names of the functions and data that an object file refers to and does not hold, sorted.

    What every linker of WebAssembly makes itself is left out.

    Raises:
        FormatError: no object file of a kind that is known.
    """
    readers = {_ELF: _elf_symbols, _WASM: _wasm_imports}
    read = readers.get(data[:4])
    if read is None:
        raise FormatError("this is no object file", why="it is neither ELF nor WebAssembly")
    try:
        return tuple(sorted(set(read(data))))
    except (struct.error, IndexError, UnicodeDecodeError) as e:
        raise FormatError("damaged object file", why=str(e)) from e


def _elf_symbols(data: bytes) -> Iterator[str]:
    is_wide = data[4] == 2
    start, size = _elf_sections(data, is_wide)
    layout = "<IIQQQQIIQQ" if is_wide else "<IIIIIIIIII"
    (count,) = struct.unpack_from("<H", data, 60 if is_wide else 48)
    headers = [struct.unpack_from(layout, data, start + n * size) for n in range(count)]
    for _, kind, _, _, offset, nbytes, names, _, _, each in headers:
        if kind != _SYMBOL_TABLE:
            continue
        for at in range(offset, offset + nbytes, each):
            name, info, section = _elf_symbol(data, at, is_wide)
            if section == 0 and name and info >> 4 != _LOCAL:
                yield _text(data, headers[names][4] + name)


def _elf_sections(data: bytes, is_wide: bool) -> tuple[int, int]:
    """Where the headers of sections begin, and bytes of each."""
    (start,) = struct.unpack_from("<Q" if is_wide else "<I", data, 40 if is_wide else 32)
    (size,) = struct.unpack_from("<H", data, 58 if is_wide else 46)
    return start, size


def _elf_symbol(data: bytes, at: int, is_wide: bool) -> tuple[int, int, int]:
    """Place of its name, its kind, its section."""
    if is_wide:
        name, info, _, section = struct.unpack_from("<IBBH", data, at)
    else:
        name, _, _, info, _, section = struct.unpack_from("<IIIBBH", data, at)
    return name, info, section


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(0, at)].decode()


def _wasm_imports(data: bytes) -> Iterator[str]:
    """Functions that are imported; memory, table and stack pointer come from the linker."""
    at = 8
    while at < len(data):
        section = data[at]
        nbytes, at = _number(data, at + 1)
        if section == _IMPORTS:
            yield from _imported_functions(data, at)
        at += nbytes


def _imported_functions(data: bytes, at: int) -> Iterator[str]:
    count, at = _number(data, at)
    for _ in range(count):
        _, at = _name(data, at)
        name, at = _name(data, at)
        kind = data[at]
        at = _after_import(data, at + 1, kind)
        if kind == 0:
            yield name


def _after_import(data: bytes, at: int, kind: int) -> int:
    """The place after what an import says of itself, by kind: function, table, memory, global."""
    if kind in (0, 4):
        return _number(data, at + (kind == 4))[1]
    if kind == 3:
        return at + 2
    flags, at = _number(data, at + (kind == 1))
    for _ in range(1 + (flags & 1)):
        _, at = _number(data, at)
    return at


def _name(data: bytes, at: int) -> tuple[str, int]:
    length, at = _number(data, at)
    return data[at : at + length].decode(), at + length


def _number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number, and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
