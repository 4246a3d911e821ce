"""Object code from the cache is what was compiled from that text, or it is compiled again."""

import ctypes
from pathlib import Path

import pytest

from xladev.compiler.cache.store import Store
from xladev.errors import FormatError
from xladev.platforms.cpu import object_cache
from xladev.platforms.cpu.engine import LoadedObject
from xladev.platforms.cpu.object_cache import cached_object, load_cached

ONE, TWO = (f"define i32 @f() {{\n  ret i32 {n}\n}}" for n in (1, 2))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(object_cache, "shipped_object", lambda *_: None)
    return tmp_path / "cache"


def _called(text: str) -> int:
    loaded, _ = load_cached("f", text, 1, ("f",))
    return ctypes.CFUNCTYPE(ctypes.c_int)(loaded.address("f"))()


@pytest.mark.parametrize("at", range(8))
def test_a_flipped_byte_of_the_magic_costs_one_compilation(folder: Path, at: int) -> None:
    code = cached_object("f", ONE, 1)
    (path,) = folder.iterdir()
    good = path.read_bytes()
    for bit in range(8):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
        assert cached_object("f", ONE, 1) == code
        assert path.read_bytes() == good


def test_swapped_objects_are_compiled_again(folder: Path) -> None:
    assert (_called(ONE), _called(TWO)) == (1, 2)
    first, second = folder.iterdir()
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    assert (_called(ONE), _called(TWO)) == (1, 2)
    assert (first.read_bytes(), second.read_bytes()) == (one, two)


@pytest.mark.parametrize("content", [b"", b"no object file", bytes(500)])
def test_what_cannot_be_linked_is_compiled_again(folder: Path, content: bytes) -> None:
    assert _called(ONE) == 1
    (path,) = folder.iterdir()
    good = path.read_bytes()
    Store(folder).write(path.stem, content)
    assert _called(ONE) == 1
    assert path.read_bytes() == good


def test_an_object_without_its_symbol_is_compiled_again(folder: Path) -> None:
    assert _called(ONE) == 1
    (path,) = folder.iterdir()
    other = cached_object("g", ONE.replace("@f", "@g"), 1)
    Store(folder).write(path.stem, other)
    assert _called(ONE) == 1


def test_what_is_no_object_file_is_a_format_error() -> None:
    with pytest.raises(FormatError, match="the code of f cannot be loaded"):
        LoadedObject("f", b"no object file", ("f",))
