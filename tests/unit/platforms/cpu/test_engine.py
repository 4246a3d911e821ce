"""Compiling and loading object code leaves nothing behind."""

import ctypes
import gc
from pathlib import Path

import pytest

from xladev.platforms.cpu import engine
from xladev.platforms.cpu.engine import LoadedObject, compile_text

PAGE_NBYTES = 4096


def answer(number: int) -> LoadedObject:
    text = f"define i32 @answer(ptr %p) {{\n  ret i32 {number}\n}}\n"
    return LoadedObject("test", compile_text("test", text, 2), ("answer",))


def call(loaded: LoadedObject) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(loaded.address("answer"))
    return int(function(None))


def resident_nbytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_NBYTES


def test_objects_stay_loaded_while_engines_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_engines", engine._Engines(share=2))
    kept = [answer(number) for number in range(7)]
    assert [call(loaded) for loaded in kept] == list(range(7))
    del kept[1::2]
    gc.collect()
    assert [call(loaded) for loaded in kept] == [0, 2, 4, 6]


def test_an_object_in_a_cycle_is_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_engines", engine._Engines(share=1))
    loaded = answer(1)
    loaded.itself = loaded  # type: ignore[attr-defined]
    del loaded
    gc.collect()
    assert call(answer(2)) == 2


@pytest.mark.serial
def test_memory_does_not_grow_with_what_was_compiled_and_dropped() -> None:
    for number in range(200):
        answer(number)
    before = resident_nbytes()
    for number in range(400):
        answer(number)
    assert (resident_nbytes() - before) / 400 < 8_000, "bytes per object"
