"""Packed varints as NumPy arrays: the bulk of integer literals, decoded without a Python loop."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from xladev.errors import ProtoError
from xladev.hlo.proto.wire import MAX_VARINT_BYTES

_U64: Final = np.dtype(np.uint64)
_CHUNK: Final = 1 << 20
"""Bytes decoded at a time, so that working memory stays a small multiple of this."""


def unpack_varints(data: bytes | memoryview) -> npt.NDArray[np.uint64]:
    """The varints in ``data`` as unsigned 64-bit numbers.

    Raises:
        ProtoError: a varint cut short, of more than ten bytes, or of more than 64 bits.
    """
    raw = np.frombuffer(data, np.uint8)
    if raw.size and raw[-1] > 127:
        raise ProtoError("a packed varint is cut short")
    pieces: list[npt.NDArray[np.uint64]] = []
    start = 0
    while start < raw.size:
        stop = _chunk_end(raw, start)
        pieces.append(_unpack_chunk(raw[start:stop]))
        start = stop
    return np.concatenate(pieces) if pieces else np.zeros(0, _U64)


def _chunk_end(raw: npt.NDArray[np.uint8], start: int) -> int:
    """End of the last whole varint within a chunk from ``start``."""
    stop = min(start + _CHUNK, raw.size)
    lasts = np.flatnonzero(raw[max(start, stop - MAX_VARINT_BYTES) : stop] < 128)
    if not lasts.size:
        raise ProtoError(f"a packed varint has more than {MAX_VARINT_BYTES} bytes")
    return max(start, stop - MAX_VARINT_BYTES) + int(lasts[-1]) + 1


def _unpack_chunk(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    if raw.max() < 128:
        return raw.astype(_U64)
    ends = np.flatnonzero(raw < 128)
    starts = np.concatenate((np.zeros(1, ends.dtype), ends[:-1] + 1))
    lengths = ends - starts + 1
    longest = int(lengths.max())
    if longest > MAX_VARINT_BYTES or (raw[ends[lengths == MAX_VARINT_BYTES]] > 1).any():
        raise ProtoError("a packed varint has more than 64 bits")
    values = np.zeros(ends.size, _U64)
    for i in range(longest):
        has = lengths > i
        seven = (raw[starts[has] + i] & np.uint8(127)).astype(_U64)
        values[has] |= seven << np.uint64(7 * i)
    return values


def pack_varints(values: npt.NDArray[Any]) -> bytes:
    """Integers or bools, flat, as packed varints; negative ones sign-extended to 64 bits."""
    wide = values.astype(np.int64) if values.dtype.kind == "i" else values.astype(_U64)
    bits = wide.view(_U64)
    pieces = [_pack_chunk(bits[i : i + _CHUNK]) for i in range(0, bits.size, _CHUNK)]
    return b"".join(pieces)


def _pack_chunk(values: npt.NDArray[np.uint64]) -> bytes:
    limits = [np.uint64(1) << np.uint64(7 * i) for i in range(1, MAX_VARINT_BYTES)]
    lengths = np.ones(values.size, np.int64)
    for limit in limits:
        lengths += values >= limit
    offsets = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    for i in range(int(lengths.max())):
        has = lengths > i
        seven = ((values[has] >> np.uint64(7 * i)) & np.uint64(127)).astype(np.uint8)
        more = np.where(lengths[has] > i + 1, np.uint8(128), np.uint8(0))
        out[offsets[has] + i] = seven | more
    return out.tobytes()
