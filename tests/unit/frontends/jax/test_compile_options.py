"""Compile options of PJRT clients: read, refused when damaged."""

import struct

import pytest

from xladev.compiler.options import CompileOptions
from xladev.errors import OptionError, ProtoError
from xladev.frontends.jax.compile_options import (
    JaxOptions,
    read_options,
    write_device_assignment,
)
from xladev.frontends.jax.option_overrides import overridden


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


@pytest.mark.parametrize("packed", [True, False])
def test_whose_sharding_may_be_chosen(packed: bool) -> None:
    """Fields 12 (results) and 18 (parameters) of the build options."""
    results = _message(12, b"\x01\x00") if packed else b"\x60\x01\x60\x00"
    build = results + b"\x92\x01\x01\x01"
    found = read_options(_message(3, build))
    assert found.propagate_to_output == (True, False)
    assert found.propagate_to_parameters == (True,)


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


def _entry(name: str, value: bytes) -> bytes:
    return _message(7, _message(1, name.encode()) + _message(2, value))


def test_overrides_are_of_four_types() -> None:
    message = b"".join(
        (
            _entry("dump_filter", _message(1, b"a.*")),
            _entry("fusion", b"\x10\x00"),
            _entry("rng_seed", b"\x18\x07"),
            _entry("low", b"\x18" + b"\xff" * 9 + b"\x01"),
            _entry("npu.rate", b"\x21" + struct.pack("<d", 0.5)),
        )
    )
    read = read_options(message + _options(((2,),)))
    assert read.devices == ((2,),)
    assert read.overrides == (
        ("dump_filter", "a.*"), ("fusion", False), ("rng_seed", 7), ("low", -1), ("npu.rate", 0.5)
    )  # fmt: skip


def test_damaged_overrides_are_errors() -> None:
    for damaged in (b"\x38\x01", _entry("a", _message(1, b"\xff")), _message(7, b"\x12\x05")):
        with pytest.raises(ProtoError, match="damaged"):
            read_options(damaged)


def test_overrides_change_options() -> None:
    asked = (("fusion", False), ("rng_seed", 7), ("npu.rate", 0.5), ("xla_dump_to", "folder"))
    changed = overridden(CompileOptions(strict=True), asked)
    assert changed == CompileOptions(
        strict=True, fusion=False, rng_seed=7, extras={"npu.rate": 0.5}
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("fusoin", True, "No such compile option: 'fusoin'"),
        ("num_replicas", 2, "No such compile option"),
        ("extras", "a", "No such compile option"),
        ("threads", 0.5, "threads"),
        ("fusion", "perhaps", "fusion"),
    ],
)
def test_other_overrides_are_refused(name: str, value: str | bool | float, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        overridden(CompileOptions(), [(name, value)])
