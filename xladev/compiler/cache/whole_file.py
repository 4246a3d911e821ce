"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from xladev.errors import FileError
from xladev.instrument import is_interruption, pass_interruption

_NEW_MODE = 0o666


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file, or leaves what was there: readers never see a part of it.

    Args:
        path: the file; its folder must exist.
        data: all of its bytes.

    Raises:
        FileError: it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device takes no other file's place
            path.write_bytes(data)
            return
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        pass_interruption(error)
        raise FileError.of("cannot write", path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, _mode_of(path))
        os.replace(name, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if not isinstance(error, OSError) or is_interruption(error):
            raise
        raise FileError.of("cannot write", path, error) from error


def _mode_of(path: Path) -> int:
    """The mode of the file that is replaced, or that of a new one."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return _NEW_MODE & ~mask
