"""Static libraries: the ar format of System V, with the symbol index that linkers look into.

Layout: `ar(5)` and the "Archive" chapter of the System V ABI: a magic, then members of 60 bytes of
header each. Member ``/`` is the index: a count, offsets of members (big endian), names of symbols.
Member ``//`` holds file names longer than 15 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

MAGIC = b"!<arch>\n"
_HEADER_NBYTES = 60
_LONGEST_NAME = 15


@dataclass(frozen=True, slots=True)
class Member:
    """One object file of a library.

    Attributes:
        name: of the file.
        data: its bytes.
        symbols: what it defines for others.
    """

    name: str
    data: bytes = field(repr=False)
    symbols: tuple[str, ...] = ()


def archive(members: Sequence[Member]) -> bytes:
    """A static library; the same bytes for the same members."""
    names, places = _long_names(members)
    index_nbytes = len(_index(members, [0] * len(members)))
    at = len(MAGIC) + index_nbytes + len(names)
    offsets: list[int] = []
    bodies: list[bytes] = []
    for member, place in zip(members, places, strict=True):
        offsets.append(at)
        bodies.append(_member(place, member.data, mode=0o100644))
        at += len(bodies[-1])
    return b"".join([MAGIC, _index(members, offsets), names, *bodies])


def _index(members: Sequence[Member], offsets: Sequence[int]) -> bytes:
    pairs = [
        (offset, symbol)
        for member, offset in zip(members, offsets, strict=True)
        for symbol in member.symbols
    ]
    numbers = struct.pack(f">{len(pairs) + 1}I", len(pairs), *(offset for offset, _ in pairs))
    return _member("/", numbers + b"".join(s.encode() + b"\0" for _, s in pairs))


def _long_names(members: Sequence[Member]) -> tuple[bytes, list[str]]:
    """Member ``//``, or nothing, and what each member's header says of its name."""
    table = b""
    places: list[str] = []
    for member in members:
        if len(member.name.encode()) <= _LONGEST_NAME:
            places.append(f"{member.name}/")
            continue
        places.append(f"/{len(table)}")
        table += f"{member.name}/\n".encode()
    return (_member("//", table) if table else b"", places)


def _member(name: str, data: bytes, mode: int = 0) -> bytes:
    """Header and body, filled up to an even length; no time, user or group."""
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{mode:<8o}{len(data):<10}`\n".encode()
    assert len(header) == _HEADER_NBYTES
    return header + data + b"\n" * (len(data) % 2)
