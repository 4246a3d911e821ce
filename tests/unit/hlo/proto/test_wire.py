"""Varints and fixed-width numbers, one at a time and packed."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xladev.errors import ProtoError
from xladev.hlo.proto import wire
from xladev.hlo.proto.packed import pack_varints, unpack_varints

INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    "value, data",
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (150, "9601"),
        (2**32, "8080808010"),
        (-1, "ffffffffffffffffff01"),
        (-(2**63), "80808080808080808001"),
        (2**64 - 1, "ffffffffffffffffff01"),
    ],
)
def test_known_varints(value: int, data: str) -> None:
    assert wire.varint(value).hex() == data


@given(INT64)
def test_signed_varints(value: int) -> None:
    data = wire.varint(value)
    assert wire.read_int64(data, 0) == (value, len(data))


@given(UINT64)
def test_unsigned_varints(value: int) -> None:
    data = b"x" + wire.varint(value)
    assert wire.read_uint64(data, 1) == (value, len(data))


@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_32_bit_varints(value: int) -> None:
    assert wire.read_int32(wire.varint(value), 0)[0] == value
    assert wire.read_uint32(wire.varint(value), 0)[0] == value % 2**32


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_what_64_bits_cannot_hold(value: int) -> None:
    with pytest.raises(ProtoError, match="64 bits"):
        wire.varint(value)


@pytest.mark.parametrize("data", ["80" * 10 + "00", "ff" * 9 + "02", "ff" * 11])
def test_varints_that_are_too_long(data: str) -> None:
    with pytest.raises(ProtoError, match="a varint has more"):
        wire.read_uint64(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["", "80", "ffff"])
def test_varints_cut_short(data: str) -> None:
    with pytest.raises(IndexError):
        wire.read_uint64(bytes.fromhex(data), 0)


@given(st.floats(width=32))
def test_floats(value: float) -> None:
    again = wire.read_float(wire.float_bytes(value), 0)[0]
    assert struct.pack("<f", again) == struct.pack("<f", value)


@given(st.floats())
def test_doubles(value: float) -> None:
    assert struct.pack("<d", wire.read_double(wire.double_bytes(value), 0)[0]) == struct.pack(
        "<d", value
    )


def test_a_float_beyond_its_range_is_infinite() -> None:
    assert wire.float_bytes(1e300) == struct.pack("<f", float("inf"))
    assert wire.float_bytes(-1e300) == struct.pack("<f", float("-inf"))


@given(st.lists(UINT64))
def test_packed_varints_agree_with_single_ones(values: list[int]) -> None:
    array = np.array(values, np.uint64)
    data = b"".join(map(wire.varint, values))
    assert pack_varints(array) == data
    assert np.array_equal(unpack_varints(data), array)


@given(st.lists(INT64))
def test_packed_negative_numbers(values: list[int]) -> None:
    array = np.array(values, np.int64)
    data = pack_varints(array)
    assert data == b"".join(map(wire.varint, values))
    assert np.array_equal(unpack_varints(data).view(np.int64), array)


def test_packed_varints_across_chunks() -> None:
    array = np.arange(2**20, dtype=np.uint64) * np.uint64(2**43 + 1)
    assert np.array_equal(unpack_varints(pack_varints(array)), array)


@pytest.mark.parametrize(
    "data, what",
    [
        (b"\x80", "cut short"),
        (b"\x01\xff\xff", "cut short"),
        (b"\xff" * 10 + b"\x01", "64 bits"),
        (b"\xff" * 9 + b"\x02", "64 bits"),
        (b"\xff" * 2**21 + b"\x00", "ten|10|64 bits"),
    ],
)
def test_malformed_packed_varints(data: bytes, what: str) -> None:
    with pytest.raises(ProtoError, match=what):
        unpack_varints(data)
