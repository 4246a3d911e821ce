"""Trace files: written whole or not at all, compressed if their name ends in ``.gz``."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xladev.compiler.cache.whole_file import write_whole
from xladev.errors import FileError, FormatError
from xladev.instrument import pass_interruption

_FAST = 1


def check_writable(path: Path) -> None:
    """Refuses a path that no file can be written to, before there is anything to write.

    Raises:
        FileError: its folder does not exist or cannot be written, or the path is a folder.
    """
    try:
        if path.is_dir():
            raise FileError(f"cannot write {path}", where=str(path), why="it is a folder")
        if path.exists() and not path.is_file():
            return
        with tempfile.TemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except OSError as error:
        raise FileError.of("cannot write", path, error) from error


def write_trace(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a trace.

    Raises:
        FileError: it cannot be written; what was there before is left.
    """
    data = json.dumps(document, separators=(",", ":"), default=str).encode()
    write_whole(path, gzip.compress(data, _FAST) if path.suffix == ".gz" else data)


def read_trace(path: Path) -> dict[str, Any]:
    """The document of a trace file, of xladev or of another program.

    Raises:
        FileError: it cannot be read.
        FormatError: it is no Chrome trace.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        pass_interruption(error)
        raise FileError.of("cannot read", path, error) from error
    try:
        plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        document = json.loads(plain)
    except (ValueError, RecursionError, EOFError, OSError, zlib.error) as error:
        pass_interruption(error)
        raise _no_trace(path, str(error)) from error
    if isinstance(document, list):  # the format's short form
        document = {"traceEvents": document}
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        raise _no_trace(path, "it has no list of traceEvents")
    return document


def of_process(path: Path) -> Path:
    """The path of a further process, with its number: ``trace.json`` is ``trace.123.json``."""
    ends = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return path.with_name(f"{path.name.removesuffix(ends)}.{os.getpid()}{ends}")


def _no_trace(path: Path, why: str) -> FormatError:
    return FormatError(
        f"{path} is no trace",
        where=str(path),
        why=why,
        hint="xladev.profile, XLADEV_TRACE and `xladev run --trace` write such files",
    )
