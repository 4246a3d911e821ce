"""What goes over a connection between processes: chunks of messages, with checked headers."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import lru_cache

from xladev.errors import ProcessError

HEADER = struct.Struct("<IB24s8sQQI")
"""Magic, kind, tag, digest of the agreement; bytes of the message; offset, bytes of the chunk."""

MAGIC = 0x4D564458
DATA, FAILED, GOODBYE, ASK, WAITS = range(5)
"""Kinds. ASK: whom do you wait for? WAITS: for these."""
RUN_NBYTES = 8
MOST_NBYTES = 1 << 36
"""Of one message."""
CHUNK_NBYTES = 1 << 20
MOST_REASON = 4096
_REMEMBERED = 1024
"""Names and agreements of exchanges whose digests are kept."""


@dataclass(frozen=True, slots=True)
class Header:
    """One chunk of a message; one of another kind than `DATA` is whole."""

    kind: int
    tag: bytes
    check: bytes
    total: int
    offset: int
    nbytes: int

    def pack(self) -> bytes:
        """Its bytes."""
        return HEADER.pack(
            MAGIC, self.kind, self.tag, self.check, self.total, self.offset, self.nbytes
        )


def read_header(data: bytes | bytearray, most_nbytes: int = CHUNK_NBYTES) -> Header:
    """A header from its bytes.

    Args:
        data: the bytes.
        most_nbytes: of a chunk.

    Raises:
        ProcessError: these bytes are no header, or a number in it is out of bounds.
    """
    if len(data) != HEADER.size:
        raise ProcessError("bytes arrived that are no message of xladev", why=data.hex())
    magic, *fields = HEADER.unpack(data)
    header = Header(*fields)
    most = most_nbytes if header.kind == DATA else MOST_REASON
    is_bounded = header.nbytes <= most and header.total <= MOST_NBYTES
    if magic != MAGIC or header.kind > WAITS or not is_bounded:
        raise ProcessError("bytes arrived that are no message of xladev", why=data[:16].hex())
    if header.offset + header.nbytes > header.total:
        raise ProcessError("a message is longer than it says")
    return header


def run_tag(name: bytes, run: int) -> bytes:
    """The name of the ``run``-th execution of what ``name`` names."""
    return hashlib.blake2b(
        name + run.to_bytes(8, "little"), digest_size=RUN_NBYTES, person=b"xladev run"
    ).digest()


def base_tag(key: bytes, run: bytes, name: str) -> bytes:
    """The common part of the tags of one exchange; a step's number makes it whole."""
    return run + _named(key, name)


@lru_cache(_REMEMBERED)
def _named(key: bytes, name: str) -> bytes:
    """The same in each run; hashing takes longer than sending four bytes."""
    return hashlib.blake2b(key + b"\0" + name.encode(), digest_size=12).digest()


def step_tag(base: bytes, step: int) -> bytes:
    """The tag of one step of an exchange."""
    return base + step.to_bytes(4, "little")


@lru_cache(_REMEMBERED)
def agreement_check(agreement: bytes) -> bytes:
    """What is compared of an agreement."""
    return hashlib.blake2b(agreement, digest_size=8).digest()
