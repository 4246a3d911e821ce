"""Loads a module from a file or its contents, serialized proto or text, told apart by content."""

from __future__ import annotations

from pathlib import Path

from xladev.errors import FileError
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module
from xladev.hlo.text import parse_module

_SPACE = b"\t\n\v\f\r"
_LOOKED_AT = 4096


def load(source: str | Path | bytes) -> HloModule:
    """A module from a file, or from its contents.

    Args:
        source: a path; or the bytes of a serialized HloModuleProto or of HLO text.

    Raises:
        ProtoError, ParseError: malformed contents.
        FileError: the file cannot be read.
    """
    data = source if isinstance(source, bytes) else read_file(Path(source))
    return parse_module(data.decode()) if is_text(data) else read_module(data)


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
    """
    try:
        return path.read_bytes()
    except OSError as e:
        raise FileError.of("cannot read", path, e) from e
