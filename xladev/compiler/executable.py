"""An Executable: compiled bytes plus their signature, and the file that holds them.

File, little endian: magic (8 bytes), format version (u32), lengths of signature and payload
(u64 each), SHA-256 of version, lengths, signature and payload (32 bytes), signature (JSON, UTF-8),
payload. Loading one is running native code: the checksum finds damage, not malice.
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
_LENGTHS = struct.Struct("<IQQ")
_NO_DIGEST = bytes(32)
_HEADER_NBYTES = len(MAGIC) + _LENGTHS.size + len(_NO_DIGEST)


@dataclass(frozen=True, slots=True)
class Executable:
    """What a Compiler returns and `Executor.load` takes; immutable, needs no device.

    Attributes:
        signature: shapes, layouts, aliasing, target.
        payload: code, in a form that the platform chooses.
    """

    signature: Signature
    payload: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return b"".join(self.pieces())

    def pieces(self, *, is_checked: bool = False) -> tuple[bytes, ...]:
        """The file's bytes in pieces, one after another: the payload is not copied.

        Args:
            is_checked: true where something larger has a checksum of them; their own is then zeros.
        """
        text = json.dumps(self.signature.to_json(), sort_keys=True, separators=(",", ":"))
        signature = text.encode()
        lengths = _LENGTHS.pack(FORMAT_VERSION, len(signature), len(self.payload))
        digest = _NO_DIGEST if is_checked else content_digest(lengths, signature, self.payload)
        return (MAGIC, lengths, digest, signature, self.payload)

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
    signature_nbytes, payload_nbytes = _read_header(view)
    start = _HEADER_NBYTES + signature_nbytes
    if len(view) != start + payload_nbytes:
        raise FormatError(
            f"executable of {len(view)} bytes is truncated or has a tail",
            why=f"its header announces {start + payload_nbytes} bytes",
        )
    signature, payload = bytes(view[_HEADER_NBYTES:start]), bytes(view[start:])
    lengths = bytes(view[len(MAGIC) : len(MAGIC) + _LENGTHS.size])
    digest = view[_HEADER_NBYTES - 32 : _HEADER_NBYTES]
    if not is_checked and content_digest(lengths, signature, payload) != digest:
        raise FormatError("executable is damaged", why="its checksum does not match")
    return Executable(Signature.from_json(_parse(signature)), payload)


def _read_header(view: memoryview) -> tuple[int, int]:
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise FormatError("this is no xladev executable", why="its first bytes are not the magic")
    if len(view) < _HEADER_NBYTES:
        raise FormatError("executable is truncated", why="its header is incomplete")
    version, signature_nbytes, payload_nbytes = _LENGTHS.unpack_from(view, len(MAGIC))
    if version != FORMAT_VERSION:
        raise _wrong_version(version)
    return signature_nbytes, payload_nbytes


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
