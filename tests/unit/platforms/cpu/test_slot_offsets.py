"""Slots are looked for: what is no slot is noticed before native code reads it."""

import pytest

from xladev.platforms.cpu import slot_offsets as module
from xladev.platforms.cpu.slot_offsets import UnknownLayout, slot_offsets
from xladev.runtime.array import DeviceArray


def test_slots_are_found():
    offsets = slot_offsets()
    slots = [offset for name, offset in offsets.items() if name.startswith("array_")]
    assert len(set(slots)) == len(slots) == 7
    assert max(slots) < DeviceArray.__basicsize__
    assert len(offsets) == 12


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
        module._offsets(Indirect, ("given",))
