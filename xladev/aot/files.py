"""Several files that appear together, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from xladev.errors import FileError
from xladev.instrument import is_interruption, pass_interruption


def write_together(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Writes files into a folder, which is made if it is not there.

    All are written beside their places first, on the same file system, and then renamed; where one
    cannot take its place, those before it are put back as they were.

    Args:
        folder: where to.
        files: contents by file name; the first is the one without which the others are useless.

    Returns:
        The paths, in order.

    Raises:
        FileError: a file cannot be written; nothing is changed then.
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"cannot write to {folder}", where=str(folder), why="it is no folder")
    made = _missing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".xladev-", dir=folder))
    except OSError as error:
        _remove_empty(made)
        raise FileError.of("cannot write to folder", folder, error) from error
    try:
        _write_all(scratch, folder, files)
        _rename_all(scratch, folder, tuple(files))
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        _remove_empty(made)
        raise
    shutil.rmtree(scratch, ignore_errors=True)
    return tuple(folder / name for name in files)


def _missing(folder: Path) -> tuple[Path, ...]:
    """The folders that are made on the way, the innermost first."""
    return tuple(f for f in (folder, *folder.parents) if not f.exists())


def _remove_empty(folders: tuple[Path, ...]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _write_all(scratch: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        try:
            (scratch / name).write_bytes(data)
        except OSError as error:
            pass_interruption(error)
            raise FileError.of("cannot write", folder / name, error) from error


def _rename_all(scratch: Path, folder: Path, names: tuple[str, ...]) -> None:
    """Moves all into place; what was there is kept aside until the last one has moved.

    The first one is taken away first and comes last: who finds it finds all of one generation, even
    if the process was killed on the way.
    """
    before = scratch / "before"
    moved: list[tuple[Path, Path]] = []
    try:
        before.mkdir()
        for name in names:
            place = folder / name
            if place.is_dir():
                raise IsADirectoryError(None, "it is a folder", str(place))
            if place.exists():
                _move(place, before / name, moved)
        for name in reversed(names):
            _move(scratch / name, folder / name, moved)
    except BaseException as error:
        _undo(moved)
        if not isinstance(error, OSError) or is_interruption(error):
            raise
        raise FileError.of("cannot write", error.filename or folder, error) from error


def _move(source: Path, destination: Path, moved: list[tuple[Path, Path]]) -> None:
    os.replace(source, destination)
    moved.append((source, destination))


def _undo(moved: list[tuple[Path, Path]]) -> None:
    for source, destination in reversed(moved):
        with suppress(OSError):
            os.replace(destination, source)
