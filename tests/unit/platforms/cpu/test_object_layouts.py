"""Layouts are looked at: what is laid out otherwise is noticed, and then no fast call is made."""

from __future__ import annotations

import sys
import sysconfig

import numpy as np
import pytest

from tests.unit.platforms.cpu.fast_call.samples import ADD, X, Y, opened, went_through
from xladev.platforms.cpu import native_fast_call, object_layouts
from xladev.platforms.cpu.object_layouts import UnknownLayout, field_offsets
from xladev.runtime.array import DeviceArray


def test_this_python_and_this_numpy_are_known():
    offsets = field_offsets()
    assert offsets["ndarray_data"] == 16
    slots = [offset for name, offset in offsets.items() if name.startswith("array_")]
    assert len(set(slots)) == len(slots) == 7
    assert max(slots) < DeviceArray.__basicsize__


@pytest.mark.parametrize("field", ["data", "rank", "dims", "dtype", "flags"])
def test_a_field_of_numpy_arrays_elsewhere_is_noticed(field, monkeypatch):
    moved = {"data": 48, "rank": 28, "dims": 40, "dtype": 48, "flags": 68}
    fields = {**object_layouts._NDARRAY, field: moved[field]}
    monkeypatch.setattr(object_layouts, "_NDARRAY", fields)
    with pytest.raises(UnknownLayout, match="NumPy's"):
        field_offsets()


@pytest.mark.parametrize("field", ["order", "number"])
def test_a_field_of_dtypes_elsewhere_is_noticed(field, monkeypatch):
    fields = {**object_layouts._DTYPE, field: 24}
    monkeypatch.setattr(object_layouts, "_DTYPE", fields)
    with pytest.raises(UnknownLayout, match="NumPy's"):
        field_offsets()


def test_slots_that_are_none_are_noticed():
    class Indirect:
        __slots__ = ("_kept",)

        @property
        def given(self) -> object:
            return [self._kept]

        @given.setter
        def given(self, value: object) -> None:
            self._kept = [value]

    with pytest.raises(UnknownLayout, match=r"Indirect\.given"):
        object_layouts._slot_offsets(Indirect, ("given",))


OTHERS = {
    "a later Python": (sys, "version_info", (3, 99, 0)),
    "another system": (sys, "platform", "plan9"),
    "another NumPy": (np, "__version__", "3.0.0"),
    "no lock": (sysconfig, "get_config_var", lambda name: 1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_interpreters_open_no_fast_call(name, monkeypatch):
    monkeypatch.setattr(*OTHERS[name])
    with pytest.raises(UnknownLayout):
        field_offsets()


def test_calls_go_on_through_python_and_the_log_says_why(monkeypatch, caplog):
    def unknown() -> dict[str, int]:
        raise UnknownLayout("NumPy 9")

    monkeypatch.setattr(native_fast_call, "field_offsets", unknown)
    monkeypatch.setattr(native_fast_call, "_make", native_fast_call._make.__wrapped__)
    with caplog.at_level("INFO", "xladev.runtime"):
        result = opened(ADD, X, Y)(X, Y)
    assert not went_through(result)
    np.testing.assert_array_equal(result.numpy(), X + Y)
    assert "NumPy 9 is unknown" in caplog.text
