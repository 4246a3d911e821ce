"""The one on-disk cache: bytes by key, safe under concurrent writers, corruption and a full disk.

A folder of the user's own (mode 0700, checked): what lies there is native code that will be run.
An entry is one file: magic, SHA-256 of the rest, the bytes. It is written aside and renamed, so a
reader sees all of it or nothing. What is damaged counts as absent and is removed. Nothing that
goes wrong here stops a compilation: it is logged, and the cache does without.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from xladev.instrument import counter, logger

MAGIC = b"XLADEVC\1"
VARIABLE = "XLADEV_CACHE"
LIMIT_NBYTES = 2 << 30
_DIGEST_NBYTES = 32
_SUFFIX = ".entry"
_log = logger("cache")


def entry_key(*parts: bytes | str) -> str:
    """A key that differs wherever any part does."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Store:
    """Entries in a folder. Thread- and process-safe.

    Attributes:
        folder: made when first written to.
        limit_nbytes: the oldest entries go when all together take more.
    """

    folder: Path
    limit_nbytes: int = LIMIT_NBYTES

    def read(self, key: str) -> bytes | None:
        """The bytes of an entry; None if there is none that can be trusted."""
        path = self._path(key)
        try:
            data = path.read_bytes() if self._is_ours() else None
        except OSError:
            data = None
        found = None if data is None else _content(data)
        if data is not None and found is None:
            _log.warning("%s is damaged and goes", path)
            self.remove(key)
        counter("compiler.cache_hits" if found is not None else "compiler.cache_misses")
        return found

    def write(self, key: str, data: bytes) -> bool:
        """Keeps an entry; False, with the reason logged, if that is not possible."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                return False
            self._write(self._path(key), data)
            self._trim()
        except OSError as error:
            _log.warning("the cache %s cannot be written: %s", self.folder, error)
            return False
        return True

    def remove(self, key: str) -> None:
        """Forgets an entry."""
        with suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _is_ours(self) -> bool:
        """True if nobody else could have written to the folder."""
        found = self.folder.stat()
        is_ours = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
        if not is_ours:
            _log.warning("the cache %s is not used: others may write to it", self.folder)
        return is_ours

    def _write(self, path: Path, data: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(data).digest() + data)
            os.replace(name, path)
        except OSError:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _trim(self) -> None:
        """Removes the oldest entries beyond the limit."""
        entries = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with suppress(OSError):
                found = path.stat()
                entries.append((found.st_mtime, found.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit_nbytes:
                return
            with suppress(OSError):
                path.unlink()
            total -= size


def _content(data: bytes) -> bytes | None:
    start = len(MAGIC) + _DIGEST_NBYTES
    if not data.startswith(MAGIC) or len(data) < start:
        return None
    content = data[start:]
    is_whole = hashlib.sha256(content).digest() == data[len(MAGIC) : start]
    return content if is_whole else None


def store_of_environment() -> Store | None:
    """The store in the folder that XLADEV_CACHE names; None where it names none."""
    named = os.environ.get(VARIABLE)
    return Store(Path(named).expanduser()) if named else None
