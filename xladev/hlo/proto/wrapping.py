"""Finds the ``HloModuleProto`` inside messages that wrap one in their first field."""

from __future__ import annotations

import struct
from typing import Final

from xladev.errors import ProtoError
from xladev.hlo.proto import wire
from xladev.hlo.proto.schema import WireType

_FIRST: Final = 1 << 3 | WireType.LENGTH.value
_COMPUTATIONS: Final = 3 << 3 | WireType.LENGTH.value
_MOST_LAYERS: Final = 2
"""``HloSnapshot`` wraps an ``HloProto``, which wraps a module; nothing wraps deeper."""

_FIXED_SIZES: Final = {WireType.FIXED32.value: 4, WireType.FIXED64.value: 8}


def unwrap(data: bytes) -> bytes:
    """The bytes of the module in ``data``, which may be one or wrap one.

    A module's first field is its name and its third its computations; a wrapper's first field is a
    message that has those.
    """
    for _ in range(_MOST_LAYERS):
        if not _wraps(data):
            break
        data = _first_field(data)
    return data


def _wraps(data: bytes) -> bool:
    inner = _first_field(data)
    return bool(inner) and not _is_module(data) and (_is_module(inner) or _wraps_module(inner))


def _wraps_module(data: bytes) -> bool:
    return _is_module(_first_field(data))


def _is_module(data: bytes) -> bool:
    """True if top-level fields look like a module's: a name in text, then computations."""
    try:
        tags = _tags(data)
    except (IndexError, struct.error, ProtoError):
        return False
    name = _first_field(data)
    return _COMPUTATIONS in tags and (2 << 3 | WireType.LENGTH.value) in tags and _is_text(name)


def _is_text(name: bytes) -> bool:
    return not any(byte < 32 for byte in name)


def _tags(data: bytes) -> set[int]:
    """Tags of all top-level fields; an error if they do not fill the data exactly."""
    tags: set[int] = set()
    pos = 0
    while pos < len(data):
        tag, pos = wire.read_uint64(data, pos)
        tags.add(tag)
        pos = _after(data, tag & 7, pos)
    if pos != len(data):
        raise ProtoError("fields do not fill the message")
    return tags


def _after(data: bytes, wire_type: int, pos: int) -> int:
    if wire_type == WireType.VARINT.value:
        return wire.read_uint64(data, pos)[1]
    if wire_type in _FIXED_SIZES:
        return pos + _FIXED_SIZES[wire_type]
    if wire_type != WireType.LENGTH.value:
        raise ProtoError(f"wire type {wire_type} is not used by proto3")
    length, pos = wire.read_uint64(data, pos)
    return pos + length


def _first_field(data: bytes) -> bytes:
    """Value of the first field, if it is field 1 and has a length; empty otherwise."""
    if not data or data[0] != _FIRST:
        return b""
    try:
        length, pos = wire.read_uint64(data, 1)
    except (IndexError, ProtoError):
        return b""
    return data[pos : pos + length]
