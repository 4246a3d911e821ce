"""What clients are shown of programs."""

import pytest

from xladev.errors import UnsupportedError, XladevError
from xladev.frontends.jax.conversion import HLO_WITH_CONFIG, read_program
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.proto.wire import read_uint64
from xladev.hlo.text import parse_module

TEXT = "HloModule m  ENTRY e { x = f32[4,2] parameter(0)  ROOT r = f32[4,2] negate(x) }"


def _only_field(data: bytes, number: int) -> tuple[bytes, bytes]:
    """The message in the first field, and what follows it."""
    tag, at = read_uint64(data, 0)
    size, at = read_uint64(data, at)
    assert tag == number << 3 | 2 and at + size <= len(data)
    return data[at : at + size], data[at + size :]


def test_hlo_is_shown_with_its_interface() -> None:
    module = parse_module(TEXT)
    shown = read_program(write_module(module), "hlo").shown
    assert shown.form == HLO_WITH_CONFIG
    code, rest = _only_field(shown.code, 1)
    assert read_module(code) == module
    config, rest = _only_field(rest, 2)
    interface, end = _only_field(config, 1)
    assert not rest and not end and b"x" in interface


def test_what_is_no_program() -> None:
    with pytest.raises(UnsupportedError, match="spirv"):
        read_program(b"", "spirv")
    with pytest.raises(XladevError):
        read_program(b"no module", "hlo")
