"""Microkernels are compiled and linked once, and executables bring them where they are missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.codegen.llvm import (
    I64,
    PTR,
    VOID,
    FunctionBuilder,
    ModuleBuilder,
    Parameter,
    TargetTraits,
    Value,
)
from xladev.compiler.options import CompileOptions
from xladev.errors import FormatError
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler, engine, loaded_code, object_cache
from xladev.platforms.cpu import library as library_module
from xladev.platforms.cpu.library import Library
from xladev.platforms.cpu.payload import CpuPayload, MicrokernelCode


@pytest.fixture(autouse=True)
def nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is beside the sources."""
    monkeypatch.setattr(library_module, "shipped_microkernels", lambda *_: {})


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """An empty one in place of the process's."""
    library = Library()
    monkeypatch.setattr(compiler, "LIBRARY", library)
    monkeypatch.setattr(loaded_code, "LIBRARY", library)
    return library


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Symbols of the microkernels that LLVM compiled."""
    names: list[str] = []

    def compile_text(name: str, text: str, level: int) -> bytes:
        names.append(name)
        return engine.compile_text(name, text, level)

    monkeypatch.setattr(object_cache, "compile_text", compile_text)
    return names


MICROKERNELS = 3
"""Of a product: one for its table of rows, two for blocks of whole tiles and of what is left."""
COLUMNS = 41
"""No multiple of a tile's, however wide the machine's vectors are."""


def product(rows: int) -> str:
    return f"""HloModule m
ENTRY e {{ a = f32[{rows},24] parameter(0)  b = f32[24,{COLUMNS}] parameter(1)
  ROOT r = f32[{rows},{COLUMNS}] dot(a, b), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{0}} }}"""


def check(rows: int, options: CompileOptions | None = None) -> bytes:
    """Compiles and runs a product; its payload."""
    a = np.arange(rows * 24, dtype=np.float32).reshape(rows, 24) % 7
    b = np.arange(24 * COLUMNS, dtype=np.float32).reshape(24, COLUMNS) % 5
    made = compile_for(parse_module(product(rows)), "cpu", options)
    np.testing.assert_array_equal(np.asarray(made(a, b)), a @ b)
    return made.program.executables[0].payload


def test_products_of_all_sizes_share_one(library: Library, compiled: list[str]) -> None:
    first = CpuPayload.from_bytes(check(48)).microkernels
    for rows in (50, 64, 33):
        assert CpuPayload.from_bytes(check(rows)).microkernels == first
    microkernels = [name for name in compiled if name != "bytecode"]
    assert microkernels == [p.symbol for p in first] and len(first) == MICROKERNELS


def test_levels_of_optimization_have_their_own(library: Library, compiled: list[str]) -> None:
    check(48)
    check(48, CompileOptions(optimization_level=0))
    assert len(compiled) == 2 * MICROKERNELS


def test_the_next_process_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    for rows in (48, 49):  # each in a library of its own, as in processes of their own
        fresh = Library()
        monkeypatch.setattr(compiler, "LIBRARY", fresh)
        monkeypatch.setattr(loaded_code, "LIBRARY", fresh)
        check(rows)
    assert len(compiled) == MICROKERNELS


def test_what_a_cached_program_loaded_stays_where_it_is(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    microkernels = CpuPayload.from_bytes(check(48)).microkernels
    fresh = Library()
    monkeypatch.setattr(compiler, "LIBRARY", fresh)
    monkeypatch.setattr(loaded_code, "LIBRARY", fresh)
    before = fresh.addresses(microkernels)  # as loading a program from the cache does
    check(50)  # compiles what the library has loaded and never compiled
    assert fresh.addresses(microkernels) == before


def test_an_entry_that_is_damaged_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "cache"))
    for rows in (48, 49):
        fresh = Library()
        monkeypatch.setattr(compiler, "LIBRARY", fresh)
        monkeypatch.setattr(loaded_code, "LIBRARY", fresh)
        check(rows)
        for path in (tmp_path / "cache").glob("*.entry"):
            path.write_bytes(path.read_bytes()[:-3] + b"bad")
    assert len(compiled) == 2 * MICROKERNELS


def test_a_full_disk_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Library
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path / "file" / "below"))
    check(48)


def test_dumps_show_microkernels_each_time(library: Library, tmp_path: Path) -> None:
    for number in range(2):
        check(48, CompileOptions(dump_to=str(tmp_path / str(number))))
        texts = [p.read_text() for p in (tmp_path / str(number)).glob("*.ll")]
        assert any("define internal void @xladev.block" in text for text in texts)


def test_payloads_are_read_as_written() -> None:
    payload = CpuPayload((b"code", b"more"), True, (MicrokernelCode("p.q", b"\0x"),))
    data = payload.to_bytes()
    assert CpuPayload.from_bytes(data) == payload
    for bad in (data[:12], data.replace(b"p.q", b"\xff\xff\xff")):
        with pytest.raises(FormatError):
            CpuPayload.from_bytes(bad)


def _store(b: FunctionBuilder, values: tuple[Value, ...]) -> None:
    b.store(b.const(I64, 1), values[0])


def test_modules_declare_what_they_are_given() -> None:
    for provided in ((), ("xladev.one",)):
        module = ModuleBuilder("m", provided=provided)
        b = module.function("f", VOID, [Parameter(PTR, "p")])
        b.call_microkernel("one", b.arguments, _store)
        b.ret()
        assert module.microkernels() == ("xladev.one",)
        assert "declare void @xladev.one(ptr)" in module.part(["f"])
        assert ("define internal void @xladev.one(ptr" in str(module)) == (not provided)
    alone = ModuleBuilder("m").function("g", VOID, [Parameter(PTR, "p")])
    alone.call_microkernel("one", alone.arguments, _store)
    alone.ret()
    text = alone.module.microkernel("xladev.one")
    assert "define void @xladev.one(ptr" in text and "@g" not in text


def _outer(b: FunctionBuilder, values: tuple[Value, ...]) -> None:
    b.call_microkernel("one", values, _store)


@pytest.mark.parametrize("calls", [("outer",), ("one", "outer"), ("outer", "one")])
def test_a_microkernel_defines_what_it_calls_though_it_be_given(calls: tuple[str, ...]) -> None:
    """Its code is linked alone, and another program may have brought the one that it calls."""
    library = Library()
    _compile_calls(library, ("one",))
    _compile_calls(library, calls)


def _compile_calls(library: Library, calls: tuple[str, ...]) -> None:
    known = library.known(TargetTraits(), 2)
    module = ModuleBuilder("m", provided=known)
    b = module.function("f", VOID, [Parameter(PTR, "p")])
    for name in calls:
        b.call_microkernel(name, b.arguments, {"one": _store, "outer": _outer}[name])
    b.ret()
    engine.compile_text("m", module.part(["f"]), 2)
    found = library.microkernels_of(module, 2)
    assert sorted(p.symbol for p in found) == sorted(f"xladev.{name}" for name in calls)
    assert library.addresses(found).keys() == {f"xladev.{name}" for name in calls}
