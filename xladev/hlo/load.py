"""Loads a module from a file or its contents, serialized proto or text, told apart by content."""

from __future__ import annotations

import os
from pathlib import Path

from xladev.errors import ArgumentError, FileError, FormatError, ParseError, ProtoError
from xladev.hlo.foreign import Foreign, foreign_folder, foreign_format
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module
from xladev.hlo.text import parse_module
from xladev.instrument import pass_interruption

_SPACE = b"\t\n\v\f\r"
_LOOKED_AT = 4096
_WANTED = "a module is loaded from a path or from bytes"


def load(source: str | Path | bytes | bytearray | memoryview) -> HloModule:
    """A module from a file, or from its contents.

    Args:
        source: a path; or the bytes of a serialized HloModuleProto or of HLO text.

    Raises:
        ArgumentError: neither.
        ProtoError, ParseError: malformed contents.
        FormatError: contents of another format, which the error names.
        FileError: the file cannot be read.
    """
    data = _contents(source)
    try:
        return parse_module(data.decode()) if is_text(data) else read_module(data)
    except (ParseError, ProtoError) as error:
        found = foreign_format(data)
        if found is None:
            raise
        name = "the data" if isinstance(source, (bytes, bytearray, memoryview)) else str(source)
        raise foreign_error(name, found) from error


def foreign_error(name: str, found: Foreign) -> FormatError:
    """The error for a file that is no HLO."""
    why = "a program is HLO, as text or as a serialized HloModuleProto (HloProto, HloSnapshot)"
    return FormatError(f"{name} is {found.what}", where=name, why=why, hint=found.hint)


def _contents(source: object) -> bytes:
    """The bytes that a user means by a path or by bytes."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if isinstance(source, str) and "\n" in source:
        raise ArgumentError(
            "a text of several lines is no path",
            why=_WANTED,
            hint="xladev.parse(text), or xladev.load(text.encode())",
        )
    if isinstance(source, (str, os.PathLike)):
        return read_file(Path(source))
    raise ArgumentError(
        f"{type(source).__name__} cannot be loaded",
        why=_WANTED,
        hint="xladev.load(path), or xladev.load(file.read())",
    )


def is_text(data: bytes) -> bool:
    """True if contents are HLO text: a proto has control characters at its beginning."""
    head = data[:_LOOKED_AT]
    if any(byte < 0x20 and byte not in _SPACE for byte in head):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_file(path: Path) -> bytes:
    """The contents of a file.

    Raises:
        FileError: it cannot be read.
        FormatError: it is a folder.
    """
    try:
        if path.is_dir():
            raise foreign_error(str(path), foreign_folder(path))
        return path.read_bytes()
    except OSError as e:
        pass_interruption(e)
        raise FileError.of("cannot read", path, e) from e
    except ValueError as e:
        raise FileError(f"cannot read {path!r}", why=str(e)) from e
