"""Compile options of PJRT clients: read, refused when damaged."""

import pytest

from xladev.errors import ProtoError
from xladev.frontends.jax.compile_options import (
    JaxOptions,
    read_options,
    write_device_assignment,
)


def _message(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2, len(content)]) + content


def _options(rows: tuple[tuple[int, ...], ...]) -> bytes:
    build = b"\x20" + bytes([len(rows)]) + b"\x28" + bytes([len(rows[0])])
    return _message(3, build + _message(9, write_device_assignment(rows)))


def test_nothing_said_means_one_device() -> None:
    assert read_options(b"") == JaxOptions()


@pytest.mark.parametrize("rows", [((0,),), ((3,),), ((0, 1), (2, 3)), ((1, 0),), ((5,), (4,))])
def test_assignment_is_by_replica(rows: tuple[tuple[int, ...], ...]) -> None:
    assert read_options(_options(rows)) == JaxOptions(len(rows), len(rows[0]), rows)


def test_unknown_fields_are_skipped() -> None:
    noise = b"\x09" + b"12345678" + b"\x15" + b"1234" + _message(15, b"abc")
    assert read_options(noise + _options(((2,),))).devices == ((2,),)


@pytest.mark.parametrize("cut", range(1, len(_options(((0, 1), (2, 3))))))
def test_damage_is_an_error(cut: int) -> None:
    with pytest.raises(ProtoError, match="damaged compile options"):
        read_options(_options(((0, 1), (2, 3)))[:cut])


def test_group_is_an_error() -> None:
    with pytest.raises(ProtoError, match="damaged"):
        read_options(b"\x0b")
