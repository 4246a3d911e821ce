"""What is known of the files in a folder of dumps: a line per file, written by each process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None

HIDDEN = ".index"
"""Folder of records and of the lock, within a folder of dumps."""


@dataclass(frozen=True, slots=True)
class Record:
    """A file.

    Attributes:
        file: its name in the folder.
        name, suffix: what it was dumped as.
        pid, number: process, and compilation within it.
        title: the module that was compiled.
        platform: for what.
        nbytes: its length.
        at: when it was written, in seconds since 1970.
        note: what else there is to say.
    """

    file: str
    name: str
    suffix: str
    pid: int
    number: int
    title: str
    platform: str
    nbytes: int
    at: float
    note: str = ""


_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}
_FIELDS = {f.name: f.type for f in fields(Record)}


def add_record(folder: Path, record: Record) -> None:
    """Adds a line to this process's records; a line is written whole."""
    hidden = folder / HIDDEN
    hidden.mkdir(exist_ok=True)
    line = json.dumps(asdict(record)) + "\n"
    with open(hidden / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
        file.write(line)


def read_records(folder: Path) -> list[Record]:
    """All records of all processes whose files are there, in the order of time."""
    found: list[Record] = []
    for path in sorted((folder / HIDDEN).glob("*.jsonl")):
        for line in path.read_text("utf-8", errors="replace").splitlines():
            record = _read(line)
            if record is not None and (folder / record.file).is_file():
                found.append(record)
    return sorted(found, key=lambda r: (r.at, r.file))


def _read(line: str) -> Record | None:
    """A record; None if the line is damaged, or names a file elsewhere."""
    try:
        data: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(data, dict) or data.keys() != _FIELDS.keys():
        return None
    if not all(isinstance(data[name], _KINDS[str(kind)]) for name, kind in _FIELDS.items()):
        return None
    record = Record(**data)
    return record if Path(record.file).name == record.file else None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from writing the folder's index meanwhile."""
    hidden = folder / HIDDEN
    hidden.mkdir(exist_ok=True)
    with open(hidden / "lock", "a", encoding="utf-8") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def now() -> float:
    """Seconds since 1970."""
    return time.time()
