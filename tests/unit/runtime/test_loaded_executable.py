"""What backends that were written with former names of the contract still get."""

from __future__ import annotations

from typing import Any, cast

from xladev.runtime import door, fast_call
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.stream import Stream


class Plain(LoadedExecutable):
    """Has no fast call."""

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        """Does nothing."""


class Former(Plain):
    """Overrides the method under its former name."""

    def open_door(self, spec: door.Doorway) -> door.Door | None:
        return cast("Any", lambda *arrays: (spec, arrays))


def test_a_fast_call_under_its_former_name_is_asked_for():
    assert Plain().make_fast_call(cast("Any", "spec")) is None
    made = Former().make_fast_call(cast("Any", "spec"))
    assert made is not None
    assert made(1, 2) == ("spec", (1, 2))


def test_former_names_are_the_same_types():
    assert door.Doorway is fast_call.FastCallSpec
    assert door.Allocation is fast_call.TemporaryAllocation
