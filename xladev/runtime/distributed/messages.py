"""What goes over a connection between processes: chunks of messages, with checked headers."""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import NamedTuple

from xladev.errors import ProcessError
from xladev.runtime.distributed.transport import Data

HEADER = struct.Struct("<IB3x24s8sQQQ")
"""Magic, kind, tag, digest of the agreement; bytes of the message; offset, bytes of the chunk.

64 bytes, so that data that follow it in memory are aligned as it is.
"""

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
_STRIDE, _MOST_NUMBER = 0x9E3779B97F4A7C15, (1 << 64) - 1
"""Runs of one name have numbers that are so far apart: odd, so that all differ."""


class Header(NamedTuple):
    """One chunk of a message; one of another kind than `DATA` is whole.

    A tuple, which is made in a third of the time of a frozen dataclass.
    """

    kind: int
    tag: bytes
    check: bytes
    total: int
    offset: int
    nbytes: int

    def pack(self) -> bytes:
        """Its bytes."""
        return HEADER.pack(MAGIC, *self)


def read_header(data: Data, most_nbytes: int = CHUNK_NBYTES) -> Header:
    """A header from its bytes.

    Args:
        data: the bytes.
        most_nbytes: of a chunk.

    Raises:
        ProcessError: these bytes are no header, or a number in it is out of bounds.
    """
    if len(data) != HEADER.size:
        raise _no_message(data)
    magic, *fields = HEADER.unpack(data)
    header = Header._make(fields)
    most = most_nbytes if header.kind == DATA else MOST_REASON
    is_bounded = header.nbytes <= most and header.total <= MOST_NBYTES
    if magic != MAGIC or header.kind > WAITS or not is_bounded:
        raise _no_message(data)
    if header.offset + header.nbytes > header.total:
        raise ProcessError("a message is longer than it says")
    return header


def _no_message(data: Data) -> ProcessError:
    return ProcessError("bytes arrived that are no message of xladev", why=bytes(data[:16]).hex())


def run_tag(name: bytes, run: int) -> bytes:
    """The name of the ``run``-th execution of what ``name`` names."""
    return (_number(name) + run * _STRIDE & _MOST_NUMBER).to_bytes(RUN_NBYTES, "little")


@lru_cache(_REMEMBERED)
def _number(name: bytes) -> int:
    digest = hashlib.blake2b(name, digest_size=RUN_NBYTES, person=b"xladev run").digest()
    return int.from_bytes(digest, "little")


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
