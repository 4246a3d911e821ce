"""Varints and fixed-width numbers of the protobuf wire format, one value at a time.

Source: protobuf encoding guide. Reading past the end of a buffer raises IndexError or struct.error,
which `decode.py` turns into a ProtoError with its place.
"""

from __future__ import annotations

import struct
from typing import Final

from xladev.errors import ProtoError

MAX_VARINT_BYTES: Final = 10
_BITS64: Final = (1 << 64) - 1
_SIGN64: Final = 1 << 63
_BITS32: Final = (1 << 32) - 1
_SIGN32: Final = 1 << 31
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_ONE_BYTE: Final = tuple(bytes((i,)) for i in range(128))


def read_uint64(data: bytes, pos: int) -> tuple[int, int]:
    """The varint at ``pos`` as an unsigned number, and the position after it.

    Raises:
        IndexError: the buffer ends within the varint.
        ProtoError: more than ten bytes, or more than 64 bits.
    """
    byte = data[pos]
    if byte < 128:
        return byte, pos + 1
    value, shift = byte & 127, 7
    for at in range(pos + 1, pos + MAX_VARINT_BYTES):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            if value > _BITS64:
                raise ProtoError("a varint has more than 64 bits")
            return value, at + 1
        shift += 7
    raise ProtoError("a varint has more than ten bytes")


def read_int64(data: bytes, pos: int) -> tuple[int, int]:
    """The varint at ``pos`` as a signed 64-bit number, and the position after it."""
    value, pos = read_uint64(data, pos)
    return (value - (1 << 64) if value & _SIGN64 else value), pos


def read_uint32(data: bytes, pos: int) -> tuple[int, int]:
    """The varint at ``pos``, cut to its low 32 bits as the format says, and the position after."""
    value, pos = read_uint64(data, pos)
    return value & _BITS32, pos


def read_int32(data: bytes, pos: int) -> tuple[int, int]:
    """The varint at ``pos`` as a signed 32-bit number, and the position after it."""
    value, pos = read_uint64(data, pos)
    value &= _BITS32
    return (value - (1 << 32) if value & _SIGN32 else value), pos


def read_bool(data: bytes, pos: int) -> tuple[bool, int]:
    """The varint at ``pos`` as a truth value, and the position after it."""
    value, pos = read_uint64(data, pos)
    return value != 0, pos


def read_float(data: bytes, pos: int) -> tuple[float, int]:
    """The 32-bit float at ``pos``, and the position after it; struct.error if cut short."""
    return _FLOAT.unpack_from(data, pos)[0], pos + 4


def read_double(data: bytes, pos: int) -> tuple[float, int]:
    """The 64-bit float at ``pos``, and the position after it; struct.error if cut short."""
    return _DOUBLE.unpack_from(data, pos)[0], pos + 8


def varint(value: int) -> bytes:
    """A number of at most 64 bits as a varint; negative ones in two's complement."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if not -_SIGN64 <= value <= _BITS64:
        raise ProtoError(f"{value} does not fit 64 bits")
    value &= _BITS64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def float_bytes(value: float) -> bytes:
    """A 32-bit float; values beyond its range become infinite, as a C cast makes them."""
    try:
        return _FLOAT.pack(value)
    except OverflowError:
        return _FLOAT.pack(float("inf") if value > 0 else float("-inf"))


def double_bytes(value: float) -> bytes:
    """A 64-bit float."""
    return _DOUBLE.pack(value)
