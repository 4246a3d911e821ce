"""An Executable: compiled bytes plus their signature, and the file that holds them.

File, little endian: magic (8 bytes), format version (u32), lengths of signature and payload and
number of blobs (u64 each), SHA-256 of everything after the magic but itself (32 bytes), signature
(JSON, UTF-8), lengths of the blobs (u64 each), payload; then the blobs, each at the next multiple
of `BLOB_ALIGNMENT` bytes from the file's beginning, with zeros before it. Loading one is running
native code: the checksum finds damage, not malice.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field

from xladev.compiler.json_values import DAMAGE, parse_json
from xladev.compiler.signature import FORMAT_VERSION, Signature
from xladev.errors import FormatError

MAGIC = b"XLADEVX\0"
BLOB_ALIGNMENT = 64
"""Blobs begin at multiples of so many bytes in the file, and so in a mapping of it."""
Piece = bytes | memoryview
"""Bytes in memory that nobody writes to."""
_LENGTHS = struct.Struct("<IQQQ")
_NO_DIGEST = bytes(32)
_HEADER_NBYTES = len(MAGIC) + _LENGTHS.size + len(_NO_DIGEST)


@dataclass(frozen=True, slots=True)
class Executable:
    """What a Compiler returns and `Executor.load` takes; immutable, needs no device.

    Attributes:
        signature: shapes, layouts, aliasing, target.
        payload: code, in a form that the platform chooses.
        blobs: large arrays that the code reads, such as weights: they are never copied on the way
            to a file, and from one they may come mapped.
    """

    signature: Signature
    payload: bytes = field(repr=False)
    blobs: tuple[Piece, ...] = field(default=(), repr=False)
    _digest: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def nbytes(self) -> int:
        """Bytes of payload and blobs."""
        return len(self.payload) + sum(map(len, self.blobs))

    def digest(self) -> bytes:
        """SHA-256 of payload and blobs, 32 bytes, computed once."""
        if not self._digest:
            self._digest.append(content_digest(self.payload, *self.blobs))
        return self._digest[0]

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return b"".join(self.pieces())

    def pieces(self, *, is_checked: bool = False) -> tuple[Piece, ...]:
        """The file's bytes in pieces, one after another: neither payload nor blobs are copied.

        Args:
            is_checked: true where something larger has a checksum of them; their own is then zeros.
        """
        text = json.dumps(self.signature.to_json(), sort_keys=True, separators=(",", ":"))
        signature = text.encode()
        counts = len(signature), len(self.payload), len(self.blobs)
        lengths = _LENGTHS.pack(FORMAT_VERSION, *counts)
        body: list[Piece] = [signature, _sizes(self.blobs), self.payload]
        at = _HEADER_NBYTES + sum(map(len, body))
        for blob in self.blobs:
            body += [padding(at), blob]
            at += len(body[-2]) + len(blob)
        digest = _NO_DIGEST if is_checked else content_digest(lengths, *body)
        return (MAGIC, lengths, digest, *body)

    @staticmethod
    def from_bytes(data: bytes | memoryview, *, is_checked: bool = False) -> Executable:
        """The executable that `to_bytes` wrote, checked.

        Args:
            data: the file's bytes.
            is_checked: true where the checksum of something larger was right for them.

        Raises:
            FormatError: no such file, another version, truncated or damaged.
        """
        try:
            return _read(memoryview(data), is_checked)
        except FormatError as error:
            error.at(f"an executable of {len(data)} bytes")
            raise

    def check_target(self, platform: str, target: str) -> None:
        """Checks that a device may load this.

        Args:
            platform: name of the device's platform.
            target: the device's target; empty accepts any.

        Raises:
            FormatError: made by another platform, for another target, or of another version.
        """
        mine = self.signature
        if mine.format_version != FORMAT_VERSION:
            raise _wrong_version(mine.format_version)
        if mine.platform.partition(":")[0] != platform:
            raise FormatError(
                f"executable {mine.name!r} was compiled for platform {mine.platform!r}",
                where=f"executable {mine.name!r}",
                why=f"the device belongs to {platform!r}",
                hint=f"compile with platform={platform!r}",
            )
        if mine.target and target and mine.target != target:
            raise FormatError(
                f"executable {mine.name!r} was compiled for target {mine.target!r}",
                where=f"executable {mine.name!r}",
                why=f"the device is {target!r}",
                hint=f"compile with CompileOptions(target={target!r})",
            )


def _read(view: memoryview, is_checked: bool) -> Executable:
    signature_nbytes, payload_nbytes, count = _read_header(view)
    start = _HEADER_NBYTES + signature_nbytes + 8 * count
    end = start + payload_nbytes
    if len(view) < end:
        raise _wrong_length(view, end)
    spans: list[tuple[int, int]] = []
    for nbytes in struct.unpack_from(f"<{count}Q", view, start - 8 * count):
        begin = end + len(padding(end))
        end = begin + nbytes
        spans.append((begin, end))
    if len(view) != end:
        raise _wrong_length(view, end)
    lengths = bytes(view[len(MAGIC) : len(MAGIC) + _LENGTHS.size])
    digest = view[_HEADER_NBYTES - 32 : _HEADER_NBYTES]
    if not is_checked and content_digest(lengths, view[_HEADER_NBYTES:]) != digest:
        raise FormatError("executable is damaged", why="its checksum does not match")
    signature = bytes(view[_HEADER_NBYTES : _HEADER_NBYTES + signature_nbytes])
    payload = bytes(view[start : start + payload_nbytes])
    blobs = tuple(view[begin:end] for begin, end in spans)
    return Executable(Signature.from_json(_parse(signature)), payload, blobs)


def _wrong_length(view: memoryview, wanted: int) -> FormatError:
    return FormatError(
        f"executable of {len(view)} bytes is truncated or has a tail",
        why=f"its header announces {wanted} bytes",
    )


def _read_header(view: memoryview) -> tuple[int, int, int]:
    """Lengths of signature and payload, number of blobs."""
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise FormatError("this is no xladev executable", why="its first bytes are not the magic")
    if len(view) < _HEADER_NBYTES:
        raise FormatError("executable is truncated", why="its header is incomplete")
    version, *counts = _LENGTHS.unpack_from(view, len(MAGIC))
    if version != FORMAT_VERSION:
        raise _wrong_version(version)
    signature_nbytes, payload_nbytes, count = counts
    return signature_nbytes, payload_nbytes, count


def _sizes(blobs: tuple[Piece, ...]) -> bytes:
    return struct.pack(f"<{len(blobs)}Q", *map(len, blobs))


def padding(at: int) -> bytes:
    """Zeros from a place in a file to the next multiple of `BLOB_ALIGNMENT`."""
    return bytes(-at % BLOB_ALIGNMENT)


def _wrong_version(version: int) -> FormatError:
    return FormatError(
        f"executable of format version {version}",
        why=f"this xladev reads version {FORMAT_VERSION}",
        hint="compile the program again",
    )


def content_digest(*parts: bytes | memoryview) -> bytes:
    """SHA-256 of parts, one after another: 32 bytes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def _parse(signature: bytes) -> object:
    try:
        return parse_json(signature)
    except DAMAGE as e:
        raise FormatError("damaged signature of an executable", why=str(e)) from e
