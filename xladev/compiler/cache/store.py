"""The one on-disk cache: bytes by key, safe under concurrent writers, corruption and a full disk.

On by default, in a folder among the user's caches and of the user's own (mode 0700, checked): what
is there is native code that will be run. An entry is one file: magic, SHA-256 of its key and its
bytes (of the digests of its parts, where it is long), zeros up to a multiple of `BLOB_ALIGNMENT`,
the bytes, which are mapped where they are long. So no byte of it can change unseen, and an entry
under another's name is none. It is written aside and renamed, so a reader sees all of it or
nothing. What is damaged counts as absent and is removed. Nothing that goes wrong here stops a
compilation: it is logged, and the cache does without.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from xladev.compiler.executable import Piece, padding
from xladev.hlo.in_threads import in_threads
from xladev.instrument import counter, logger, pass_interruption

_NAME = b"XLADEVC"
MAGIC = _NAME + b"\4"
"""Name and version of the form of an entry."""

VARIABLE = "XLADEV_CACHE"
OFF = frozenset({"off", "none", "0", "false"})
"""Values of the variable for no cache; an empty one counts too."""
LIMIT_NBYTES = 1 << 30
TRIM_EVERY = 16
"""Writes for one look at the sizes of all entries; or a sixteenth of their number, if more."""
LONG_NBYTES = 1 << 20
"""Entries of more bytes are mapped, and hashed in parts of so many bytes, by several threads."""
_DIGEST_NBYTES = 32
_START = len(MAGIC) + _DIGEST_NBYTES + len(padding(len(MAGIC) + _DIGEST_NBYTES))
_SUFFIX = ".entry"
_log = logger("cache")
_complained: set[tuple[Path, str]] = set()
_unlooked: dict[Path, int] = {}
"""By folder, how often this process will not look at all entries where it otherwise would."""


def entry_key(*parts: bytes | str) -> str:
    """A key that differs wherever any part does."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Store:
    """Entries in a folder. Thread- and process-safe.

    Attributes:
        folder: made when first written to.
        limit_nbytes: the entries that were not used for longest go when all together take more,
            by a few more, or a sixteenth: see `TRIM_EVERY`.
    """

    folder: Path
    limit_nbytes: int = LIMIT_NBYTES

    def read(self, key: str) -> bytes | None:
        """The bytes of an entry; None if there is none that can be trusted."""
        found = self.view(key)
        return None if found is None else bytes(found)

    def view(self, key: str) -> memoryview | None:
        """The bytes of an entry, as `read` finds them, and no copy of them."""
        path = self._path(key)
        try:
            data = _file_view(path) if self._is_ours() else None
            if data is not None:
                self._touch(path)
        except FileNotFoundError:  # the usual one, and soon told from an interruption
            data = None
        except OSError as error:
            pass_interruption(error)
            data = None
        found = None if data is None else _content(key, data)
        if data is not None and found is None:
            if _is_of_another_version(data):
                _log.info("%s is of another version of xladev and goes", path)
            else:
                _log.warning("%s is damaged and goes", path)
            self.remove(key)
        counter("compiler.cache_hits" if found is not None else "compiler.cache_misses")
        return found

    def write(self, key: str, *pieces: Piece) -> bool:
        """Keeps an entry; False, with the reason logged, if that is not possible.

        Args:
            key: of the entry.
            pieces: its bytes, one after another.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                return False
            self._write(self._path(key), (_head(key, pieces), *pieces))
            if entry_key(key)[0] == "0" and _is_due(self.folder):
                self.trim()
        except OSError as error:
            pass_interruption(error)
            self._complain(f"the cache {self.folder} cannot be written: {error}")
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
            self._complain(f"the cache {self.folder} is not used: others may write to it")
        return is_ours

    def _complain(self, what: str) -> None:
        """A warning, once for each thing that is wrong with a folder."""
        if (self.folder, what) not in _complained:
            _complained.add((self.folder, what))
            _log.warning("%s", what)

    def _touch(self, path: Path) -> None:
        """Marks an entry as used now; a folder that cannot be written keeps its times."""
        with suppress(OSError):
            os.utime(path)

    def _write(self, path: Path, pieces: Sequence[Piece]) -> None:
        name = f"{self.folder}/{os.urandom(8).hex()}.tmp"
        try:
            with open(name, "xb", opener=_opened) as file:
                file.writelines(pieces)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def trim(self) -> None:
        """Removes the entries beyond the limit that were not used for longest."""
        entries: list[tuple[float, int, str]] = []
        with os.scandir(self.folder) as listed:  # paths would take four times as long
            for each in listed:
                if each.name.endswith(_SUFFIX):
                    with suppress(OSError):
                        found = each.stat()
                        entries.append((found.st_mtime, found.st_size, each.path))
        _unlooked[self.folder] = len(entries) // TRIM_EVERY**2
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_nbytes:
            return
        for _, size, path in sorted(entries):
            with suppress(OSError):
                os.unlink(path)
            total -= size
            if total <= self.limit_nbytes:
                return


def _is_due(folder: Path) -> bool:
    """True once it has been asked often enough since this process looked at a folder's entries."""
    left = _unlooked.get(folder, 0)
    _unlooked[folder] = left - 1
    return left <= 0


def _file_view(path: Path) -> memoryview:
    """The bytes of a file, which is never changed; mapped if they are many."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= LONG_NBYTES:
            return memoryview(file.read())
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _head(key: str, pieces: Sequence[Piece]) -> bytes:
    """What comes before the bytes of an entry."""
    return (MAGIC + _digest(key, pieces)).ljust(_START, b"\0")


def _digest(key: str, pieces: Sequence[Piece]) -> bytes:
    """Of both: right bytes under another's name would be a wrong program."""
    digest = hashlib.sha256(key.encode() + b"\0")
    parts = list(_parts(pieces))
    if len(parts) == 1:
        for piece in parts[0]:
            digest.update(piece)
        return digest.digest()
    found = [b""] * len(parts)

    def hashed(number: int) -> None:
        own = hashlib.sha256()
        for piece in parts[number]:
            own.update(piece)
        found[number] = own.digest()

    in_threads(hashed, range(len(parts)))
    for each in found:
        digest.update(each)
    return digest.digest()


def _parts(pieces: Sequence[Piece]) -> Iterator[list[memoryview]]:
    """The bytes of pieces, one after another, cut after every `LONG_NBYTES`."""
    part: list[memoryview] = []
    room = LONG_NBYTES
    for each in pieces:
        piece, at = memoryview(each), 0
        while at < len(piece):
            if not room:
                yield part
                part, room = [], LONG_NBYTES
            part.append(piece[at : at + room])
            at += len(part[-1])
            room -= len(part[-1])
    yield part


def _content(key: str, data: memoryview) -> memoryview | None:
    if len(data) < _START:
        return None
    content = data[_START:]
    return content if _head(key, (content,)) == data[:_START] else None


def _opened(path: str, flags: int) -> int:
    """Opens a file that nobody else may read."""
    return os.open(path, flags, 0o600)


def store_of_environment() -> Store | None:
    """The store in the folder that XLADEV_CACHE names, or in that of the user's caches.

    None where the variable is empty or ``off``, and for a user without a home of their own.
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        is_off = not named.strip() or named.strip().lower() in OFF
        return None if is_off else Store(Path(os.path.expanduser(named)))
    folder = _user_caches()
    return None if folder is None else Store(folder / "xladev")


def _user_caches() -> Path | None:
    """Where programs of this user keep what they can make again (XDG base directories)."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return Path(given)
    home = os.path.expanduser("~")
    try:
        is_own = os.path.isabs(home) and os.stat(home).st_uid == os.getuid()
    except OSError:
        return None
    return Path(home, ".cache") if is_own else None


def _is_of_another_version(data: memoryview) -> bool:
    head = bytes(data[: len(MAGIC)])
    return head.startswith(_NAME) and head != MAGIC
