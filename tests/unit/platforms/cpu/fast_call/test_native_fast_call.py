"""The package of native code: absent, of another release, or told too little."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.platforms.cpu.fast_call.samples import ADD, X, Y, opened, went_through
from xladev.platforms.cpu import native_fast_call
from xladev.platforms.cpu.native_block import NativeBlock
from xladev.platforms.cpu.slot_offsets import UnknownLayout, slot_offsets

_native = pytest.importorskip("xladev_calls._native", reason="needs a C compiler")


def test_calls_go_on_through_python_and_the_log_says_why(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "xladev_calls._native", None)
    monkeypatch.setattr(native_fast_call, "_make", native_fast_call._make.__wrapped__)
    with caplog.at_level("INFO", "xladev.runtime"):
        result = opened(ADD, X, Y)(X, Y)
    assert not went_through(result)
    np.testing.assert_array_equal(result.numpy(), X + Y)
    assert "the package xladev-calls is not installed" in caplog.text


def test_another_release_is_not_used(monkeypatch, caplog):
    other = SimpleNamespace(INTERFACE=native_fast_call.INTERFACE + 1)
    monkeypatch.setattr(native_fast_call, "_module", lambda: other)
    with caplog.at_level("INFO", "xladev.runtime"):
        assert native_fast_call._make.__wrapped__() is None
    assert "xladev-calls has interface" in caplog.text


def test_what_cannot_be_found_is_not_read(monkeypatch):
    def moved() -> dict[str, int]:
        raise UnknownLayout("DeviceArray.event")

    monkeypatch.setattr(native_fast_call, "slot_offsets", moved)
    assert native_fast_call._make.__wrapped__() is None


TOLD = native_fast_call._KNOWN | native_fast_call._words() | slot_offsets()


@pytest.mark.parametrize("name", TOLD)
def test_everything_must_be_told(name):
    lacking = {key: value for key, value in TOLD.items() if key != name}
    with pytest.raises(KeyError, match=f"was not told {name}"):
        _native.connect(NativeBlock, lacking)


def test_told_the_same_again_it_goes_on():
    program = opened(ADD, X, Y)
    program(X, Y)
    _native.connect(NativeBlock, TOLD)
    result = program(X, Y)
    np.testing.assert_array_equal(result.numpy(), X + Y)


@pytest.mark.parametrize("address", [0, -1, "x"])
def test_a_pool_is_an_address(address):
    with pytest.raises((ValueError, OverflowError, TypeError)):
        _native.flush(address if address != -1 else 1 << 200)


def test_blocks_are_made_by_calls_alone():
    program = opened(ADD, X, Y)
    block = program(X, Y)._buffer
    kind = type(block)
    with pytest.raises(TypeError, match="cannot create"):
        kind()
    assert kind.__basicsize__ == 128
    assert ctypes.c_float.from_address(block._address).value == Y[0, 0] + X[0, 0]
