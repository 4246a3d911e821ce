"""The on-disk cache: what goes wrong around it never gives wrong bytes, and never an error."""

import mmap
import os
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xladev
from xladev.client import CompiledModule
from xladev.compiler.cache import program_cache
from xladev.compiler.cache.program_cache import is_cacheable, program_key
from xladev.compiler.cache.store import (
    LONG_NBYTES,
    MAGIC,
    TRIM_EVERY,
    Store,
    entry_key,
    store_of_environment,
)
from xladev.compiler.executable import BLOB_ALIGNMENT
from xladev.compiler.program import program_file
from xladev.errors import DeviceError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.custom_calls import registry
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.payload import CpuPayload

TEXT = "ENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] add(p, p) }"


def _store(tmp_path: Path, **limits: int) -> Store:
    return Store(tmp_path / "cache", **limits)


def _file(store: Store) -> Path:
    (path,) = store.folder.glob("*.entry")
    return path


def test_keys_keep_parts_apart() -> None:
    assert entry_key("ab", "c") != entry_key("a", "bc") != entry_key("a", b"bc", "")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.read("k") is None
    assert store.write("k", b"data") and store.read("k") == b"data"
    assert store.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [b"", MAGIC, b"XX", None])
def test_damage_counts_as_absent(tmp_path: Path, damage: bytes | None) -> None:
    store = _store(tmp_path)
    store.write("k", b"data")
    path = _file(store)
    path.write_bytes(path.read_bytes()[:-1] + b"!" if damage is None else damage)
    assert store.read("k") is None
    assert not path.exists()
    assert store.write("k", b"again") and store.read("k") == b"again"


def test_pieces_are_one_entry(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.write("k", b"one", memoryview(b"two")) and store.read("k") == b"onetwo"


LONG = bytes(range(256)) * (LONG_NBYTES // 256)


def test_long_entries_are_mapped_and_short_ones_read(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.write("long", LONG, memoryview(LONG[:100])) and store.write("short", b"s")
    found, short = store.view("long"), store.view("short")
    assert found is not None and isinstance(found.obj, mmap.mmap)
    assert found == LONG + LONG[:100]
    assert np.frombuffer(found, np.uint8).ctypes.data % BLOB_ALIGNMENT == 0
    assert short is not None and isinstance(short.obj, bytes)
    store.remove("long")
    assert found == LONG + LONG[:100]


@pytest.mark.parametrize("place", [0, 45, 64, 70 + LONG_NBYTES, 60 + 2 * LONG_NBYTES, -1])
def test_damage_in_any_part_of_a_long_entry_is_noticed(tmp_path: Path, place: int) -> None:
    store = _store(tmp_path)
    store.write("k", LONG[3:], LONG, b"end")
    path = _file(store)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert store.view("k") is None and not path.exists()


def test_parts_in_another_order_are_noticed(tmp_path: Path) -> None:
    store = _store(tmp_path)
    one, two = LONG, LONG[::-1]
    store.write("k", one, two)
    path = _file(store)
    path.write_bytes(path.read_bytes()[:64] + two + one)
    assert store.view("k") is None


def test_an_entry_under_the_name_of_another_is_none(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write("one", b"1")
    store.write("two", b"2")
    one, two = store.folder / "one.entry", store.folder / "two.entry"
    kept = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(kept)
    assert store.read("one") is None and store.read("two") is None
    assert not list(store.folder.iterdir())


@pytest.mark.parametrize(
    ("data", "warnings"), [(b"XLADEVC\2 as it was written once", 0), (b"something else", 1)]
)
def test_an_entry_of_another_version_goes_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, warnings: int
) -> None:
    store = _store(tmp_path)
    store.write("one", b"1")
    (store.folder / "one.entry").write_bytes(data)
    assert store.read("one") is None
    assert not list(store.folder.iterdir())
    assert len([r for r in caplog.records if "damaged" in r.getMessage()]) == warnings


@pytest.mark.parametrize("place", [7, 20, 300, -1])
def test_damaged_program_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    x = np.arange(4, dtype=np.float32)
    module = parse_module(TEXT)
    xladev.compile(module, "interpreter")
    path = _file(_store(tmp_path))
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert np.array_equal(xladev.compile(module, "interpreter")(x).numpy(), x + x)
    assert path.read_bytes() != bytes(data)


def _entries(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.glob("*.entry")}


def test_swapped_programs_are_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    x, double = np.ones(4, np.float32), parse_module(TEXT)
    zero = parse_module(TEXT.replace("add", "subtract"))
    for module in (double, zero):
        xladev.compile(module, "interpreter")
    (first, one), (second, two) = _entries(tmp_path / "cache").items()
    first.write_bytes(two)
    second.write_bytes(one)
    assert xladev.compile(double, "interpreter")(x).numpy().tolist() == [2.0] * 4
    assert xladev.compile(zero, "interpreter")(x).numpy().tolist() == [0.0] * 4
    assert _entries(tmp_path / "cache") == {first: one, second: two}


@pytest.mark.parametrize("content", [b"", b"no program", bytes(200)])
def test_a_program_that_cannot_be_read_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    x, module = np.ones(4, np.float32), parse_module(TEXT)
    xladev.compile(module, "interpreter")
    store = _store(tmp_path)
    path, good = _file(store), _file(store).read_bytes()
    assert store.write(path.stem, content)
    assert xladev.compile(module, "interpreter")(x).numpy().tolist() == [2.0] * 4
    assert path.read_bytes() == good


def test_a_program_that_cannot_be_loaded_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry is whole, but the platform refuses the code in it."""
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    x, module = np.ones(4, np.float32), parse_module(TEXT.replace("add(p, p)", "sine(p)"))
    made = xladev.compile(module, "cpu")
    kept = {path: path.read_bytes() for path in (tmp_path / "cache").glob("*.entry")}
    (path,) = (p for p, data in kept.items() if program_file.MAGIC in data)
    (executable,) = made.program.executables
    payload = CpuPayload((b"no object file",)).to_bytes()
    broken = replace(made.program, executables=(replace(executable, payload=payload),))
    pieces = program_file.program_pieces(broken, is_checked=True)
    assert Store(path.parent).write(path.stem, *pieces)
    np.testing.assert_array_equal(xladev.compile(module, "cpu")(x).numpy(), made(x).numpy())
    assert path.read_bytes() == kept[path]


def test_the_bytes_of_an_entry_are_gone_before_its_program_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large constants would be in memory once more: in the file, the program and on the device."""
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    module = parse_module(TEXT)
    xladev.compile(module, "interpreter")
    entries: list[weakref.ref[memoryview]] = []
    view, alive = Store.view, list[bool]()

    def viewed(store: Store, key: str) -> memoryview | None:
        if (found := view(store, key)) is not None:
            entries.append(weakref.ref(found))
        return found

    def loaded(*arguments: Any) -> CompiledModule:
        alive.extend(entry() is not None for entry in entries)
        return CompiledModule(*arguments)

    monkeypatch.setattr(Store, "view", viewed)
    monkeypatch.setattr("xladev.client.CompiledModule", loaded)
    xladev.compile(module, "interpreter")
    assert alive == [False]


def test_a_lack_of_devices_is_not_the_entrys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    xladev.compile(parse_module(TEXT), "interpreter")
    kept = _entries(tmp_path / "cache")
    monkeypatch.setenv("XLADEV_INTERPRETER_DEVICES", "1")
    with pytest.raises(DeviceError):
        xladev.compile(parse_module(TEXT), "interpreter:7")
    assert _entries(tmp_path / "cache") == kept


def test_keys_tell_long_constants_apart() -> None:
    def key(value: float) -> str:
        values = np.zeros(40000, np.float32)
        values[12345] = value
        b = HloBuilder("e")
        module = HloModule("m", b.build(b.constant(values)))
        return program_key(module, (), xladev.CompileOptions())

    assert key(1.0) == key(1.0)
    assert len({key(0.0), key(1.0), key(-0.0)}) == 3


def test_folder_of_others_is_not_used(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write("k", b"data")
    store.folder.chmod(0o770)
    assert store.read("k") is None
    assert not store.write("k", b"more")


def test_disk_that_refuses_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = _store(tmp_path)
    monkeypatch.setattr(os, "replace", refuse)
    assert not store.write("k", b"data")
    assert list(store.folder.iterdir()) == []
    (tmp_path / "file").touch()
    assert not Store(tmp_path / "file" / "below").write("k", b"data")


def test_oldest_entries_go(tmp_path: Path) -> None:
    store = _store(tmp_path, limit_nbytes=400)
    for number in range(8):
        store.write(str(number), bytes(60))
        os.utime(store.folder / f"{number}.entry", (number, number))
    store.trim()
    assert store.read("0") is None
    assert store.read("7") == bytes(60)
    assert sum(p.stat().st_size for p in store.folder.iterdir()) <= 400


def test_entries_that_are_used_stay(tmp_path: Path) -> None:
    store = _store(tmp_path, limit_nbytes=250)
    for key in ("old", "older"):
        store.write(key, bytes(60))
        os.utime(store.folder / f"{key}.entry", (1, 1))
    assert store.read("old") is not None
    store.write("new", bytes(60))
    store.trim()
    assert store.read("older") is None
    assert store.read("old") is not None


def test_many_writes_keep_to_the_limit(tmp_path: Path) -> None:
    store = _store(tmp_path, limit_nbytes=2000)
    for number in range(300):
        store.write(str(number), bytes(60))
    assert sum(p.stat().st_size for p in store.folder.iterdir()) < 2000 + 3 * TRIM_EVERY * 101


def test_many_entries_are_looked_at_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, looks = _store(tmp_path), list[str]()
    for number in range(4000):
        store.write(f"old {number}", b"")
    usual = os.scandir

    def counted(folder: str) -> object:
        looks.append(folder)
        return usual(folder)

    monkeypatch.setattr(os, "scandir", counted)
    for number in range(500):
        store.write(f"new {number}", b"")
    assert 1 <= len(looks) <= 4  # of 31 that one of sixteen writes would be


def test_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write("k", b"data")
    store.folder.chmod(0o500)
    try:
        assert store.read("k") == b"data"
    finally:
        store.folder.chmod(0o700)


def test_what_is_wrong_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    for _ in range(3):
        assert not Store(tmp_path / "file" / "below").write("k", b"data")
    assert len(caplog.records) == 1


@pytest.mark.parametrize("value", ["off", "", "0", "None"])
def test_the_cache_can_be_turned_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLADEV_CACHE", value)
    assert store_of_environment() is None


def test_the_cache_is_in_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLADEV_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, folder in (("", ".cache"), ("relative", ".cache"), (str(tmp_path / "c"), "c")):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert store_of_environment() == Store(tmp_path / folder / "xladev")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    assert store_of_environment() is None
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "mine"))
    assert store_of_environment() == Store(tmp_path / "mine")


def test_a_user_whom_nobody_knows_is_a_name_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLADEV_CACHE", "~no-such-user/cache")
    assert store_of_environment() == Store(Path("~no-such-user/cache"))


def test_a_home_of_somebody_else_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XLADEV_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store_of_environment() is not None
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert store_of_environment() is None


def test_concurrent_writers_leave_whole_entries(tmp_path: Path) -> None:
    store = _store(tmp_path)
    wrong: list[bytes] = []

    def work(letter: bytes) -> None:
        for _ in range(50):
            store.write("k", letter * 5000)
            found = store.read("k")
            if found is None or len(set(found)) != 1 or len(found) != 5000:
                wrong.append(found or b"")

    threads = [threading.Thread(target=work, args=(c,)) for c in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_program_comes_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    module = xladev.parse(TEXT)
    first = xladev.compile(module, platform)
    monkeypatch.setattr("xladev.client.compile_module", None)
    again = xladev.compile(module, platform)
    assert again.program == first.program
    value = np.arange(4, dtype=np.float32)
    assert again(value).numpy().tolist() == [0, 2, 4, 6]
    for path in (tmp_path / "cache").glob("*.entry"):  # beside it, what runs programs on a CPU
        path.write_bytes(b"damaged")
    with pytest.raises(TypeError):  # compiled again, which is not possible any more
        xladev.compile(module, platform)


def test_whoever_watches_gets_a_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    module = xladev.parse(TEXT)
    xladev.compile(module, "interpreter")
    xladev.compile(module, "interpreter", xladev.CompileOptions(dump_to=str(tmp_path / "dump")))
    assert list((tmp_path / "dump").iterdir())


def test_another_version_of_the_code_has_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    module, options = xladev.parse(TEXT), xladev.CompileOptions()
    keys = {program_key(module, (), options)}
    monkeypatch.setattr(program_cache, "code_stamp", lambda _: "edited")
    keys.add(program_key(module, (), options))
    monkeypatch.setattr(program_cache, "__version__", "99")
    keys.add(program_key(module, (), options))
    assert len(keys) == 3


def test_options_and_modules_have_keys_of_their_own() -> None:
    options = xladev.CompileOptions()
    module = xladev.parse(TEXT)
    keys = {
        program_key(module, (), options),
        program_key(module, (), xladev.CompileOptions(optimization_level=0)),
        program_key(xladev.parse(TEXT.replace("add", "multiply")), (), options),
    }
    assert len(keys) == 3
    same = program_key(xladev.parse(TEXT), (), xladev.CompileOptions(dump_filter="x"))
    assert same in keys


@pytest.mark.parametrize(
    "said",
    [
        "replica_count=2",
        "replica_count=4",
        "num_partitions=4",
        "alias_passthrough_params=true",
        "allow_spmd_sharding_propagation_to_parameters={true}",
        "allow_spmd_sharding_propagation_to_output={true}",
    ],
)
def test_headers_have_keys_of_their_own(said: str) -> None:
    options = xladev.CompileOptions()
    plain, other = (xladev.parse(f"HloModule m{more}\n{TEXT}") for more in ("", f", {said}"))
    assert program_key(plain, (), options) != program_key(other, (), options)


def test_what_only_this_process_knows_is_not_kept() -> None:
    text = TEXT.replace("add(p, p)", 'custom-call(p), custom_call_target="mine"')
    assert is_cacheable(xladev.parse(text))
    registry.register(CustomCall("mine", "Mine.", lambda _, __, values: values[0]))
    try:
        assert not is_cacheable(xladev.parse(text))
    finally:
        registry.unregister("mine")
