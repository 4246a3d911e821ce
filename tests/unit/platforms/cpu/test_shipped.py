"""Microkernels that came compiled are used where they fit processor and code, and only there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo import dtype as dt
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler, library, loaded_code, object_cache, shipped
from xladev.platforms.cpu import ship as shipping
from xladev.platforms.cpu.codegen.products import catalogue
from xladev.platforms.cpu.engine import LoadedObject, target_traits
from xladev.platforms.cpu.library import Library
from xladev.platforms.cpu.payload import CpuPayload
from xladev.platforms.cpu.pool import POOL_LEVEL, pool_text
from xladev.platforms.cpu.ship import ship
from xladev.platforms.cpu.shipped import LEVELS, OPTIMIZATION_LEVEL, shipped_microkernels

PRODUCT = """HloModule m
ENTRY e { a = f32[48,24] parameter(0)  b = f32[24,40] parameter(1)
  ROOT r = f32[48,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of this machine's level, with products of f32 alone."""
    level = next((each for each in LEVELS if shipped._fits(each, target_traits())), None)
    if level is None:
        pytest.skip("nothing is shipped for this processor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipping, "LEVELS", (level,))
        patch.setattr(shipping, "programs", lambda: iter(()))
        patch.setattr(catalogue, "TYPES", ((dt.F32,) * 3,))
        patch.setattr(catalogue, "MOST_AXES", 0)
        folder = tmp_path_factory.mktemp("shipped")
        (path,) = ship(folder)
    assert path.name == f"{level.name}.objects"
    return folder


@pytest.mark.long
def test_what_was_shipped_is_not_compiled(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    found = shipped_microkernels(target_traits(), OPTIMIZATION_LEVEL, folder)
    fresh = Library()
    monkeypatch.setattr(library, "shipped_microkernels", lambda *_: dict(found))
    monkeypatch.setattr(shipped, "FOLDER", folder)
    monkeypatch.setattr(object_cache, "compile_text", None)  # a call would be an error
    for where in (compiler, loaded_code):
        monkeypatch.setattr(where, "LIBRARY", fresh)
    a = np.arange(48 * 24, dtype=np.float32).reshape(48, 24) % 7
    b = np.arange(24 * 40, dtype=np.float32).reshape(24, 40) % 5
    made = compile_for(parse_module(PRODUCT), "cpu")
    np.testing.assert_array_equal(np.asarray(made(a, b)), a @ b)


@pytest.mark.long
def test_threads_come_compiled(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (path,) = folder.iterdir()
    monkeypatch.setattr(shipped, "FOLDER", folder)
    monkeypatch.setattr(object_cache, "compile_text", None)  # a call would be an error
    text = pool_text(target_traits().triple)
    code = object_cache.cached_object("pool", text, POOL_LEVEL)
    assert code in path.read_bytes()
    assert LoadedObject("pool", code, ("xladev_parallel",)).address("xladev_parallel")
    assert shipped.shipped_object("pool", f"{text};", POOL_LEVEL) is None
    assert shipped.shipped_object("pool", text, POOL_LEVEL + 1) is None


def test_nothing_is_shipped_for_other_levels_or_processors(folder: Path) -> None:
    traits = target_traits()
    assert shipped_microkernels(traits, OPTIMIZATION_LEVEL, folder)
    assert not shipped_microkernels(traits, OPTIMIZATION_LEVEL + 1, folder)
    assert not shipped_microkernels(replace(traits, vector_nbytes=8), OPTIMIZATION_LEVEL, folder)
    assert not shipped_microkernels(traits, OPTIMIZATION_LEVEL, folder / "absent")


@pytest.mark.parametrize("key", ["version", "stamp"])
def test_what_other_code_shipped_is_not_used(key: str, folder: Path, tmp_path: Path) -> None:
    (path,) = folder.iterdir()
    data = path.read_bytes()[shipped.DIGEST_NBYTES :]
    (length,) = shipped._LENGTH.unpack_from(data)
    facts = json.loads(data[8 : 8 + length])
    facts[key] = "other"
    text = json.dumps(facts).encode()
    changed = shipped._LENGTH.pack(len(text)) + text + data[8 + length :]
    (tmp_path / path.name).write_bytes(shipped.sealed(changed))
    assert not shipped_microkernels(target_traits(), OPTIMIZATION_LEVEL, tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 40, -1])
def test_a_damaged_file_counts_as_absent(kept: int, folder: Path, tmp_path: Path) -> None:
    (path,) = folder.iterdir()
    (tmp_path / path.name).write_bytes(path.read_bytes()[:kept])
    assert not shipped_microkernels(target_traits(), OPTIMIZATION_LEVEL, tmp_path)


def test_a_file_of_another_level_counts_as_absent(folder: Path, tmp_path: Path) -> None:
    (path,) = folder.iterdir()
    other = next(level.name for level in LEVELS if level.name != path.stem)
    data = shipped.packed({"f": b"code"}, other)
    assert shipped._unpacked(data, other)
    (tmp_path / path.name).write_bytes(data)
    assert not shipped_microkernels(target_traits(), OPTIMIZATION_LEVEL, tmp_path)


def test_features_of_each_level_are_those_of_what_it_is_compiled_for() -> None:
    for level in LEVELS:
        target = level.compiled_for()
        assert set(level.more) <= level.features
        assert target.traits.has_byte_products == ("+avx512vnni" in level.features)
        assert (target.traits.vector_nbytes == 64) == ("+avx512f" in level.features)


PROGRAMS = [
    ("f32[64,64]", "f32[64,64]", "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("bf16[64,64]", "bf16[64,64]", "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
    ("f64[64,64]", "f64[64,64]", "dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    (
        "f32[1,64,64,64]",
        "f32[1,66,66,8]",
        "convolution(b, c), window={size=3x3}, dim_labels=b01f_01io->b01f",
    ),
    (
        "f32[1,66,66,64]",
        "f32[1,66,66,8]",
        "convolution(b, c), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    ),
    (
        "f32[1,14,14,64]",
        "f32[1,14,14,8]",
        "convolution(b, c), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    ),
]


@pytest.mark.parametrize(("result", "operand", "text"), PROGRAMS)
def test_the_catalogue_has_what_programs_want(result: str, operand: str, text: str) -> None:
    module = ModuleBuilder("all", target_traits())
    catalogue.call_all_products(module)
    program = parse_module(f"""HloModule m
ENTRY e {{ a = {operand} parameter(0)  b = {operand} parameter(1)
  c = f32[3,3,8,64] parameter(2)  ROOT r = {result} {text} }}""")
    payload = compile_for(program, "cpu").program.executables[0].payload
    wanted = {p.symbol for p in CpuPayload.from_bytes(payload).microkernels}
    assert wanted
    assert wanted <= set(module.microkernels())


JAX_SORTS = [
    ("f32", 1000, "x", ""),
    ("f32", 50, "x, i", "sort.6 = s32[] parameter(2)\n sort.7 = s32[] parameter(3)\n"),
]


@pytest.mark.parametrize(("dtype", "size", "operands", "more"), JAX_SORTS)
def test_sorts_of_jax_are_among_the_programs(
    dtype: str, size: int, operands: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = f"{dtype}[{size}]" if operands == "x" else f"({dtype}[{size}], s32[{size}])"
    program = parse_module(f"""HloModule m
region_0.1 {{
  {more}sort.4 = {dtype}[] parameter(0)
  ne.2 = pred[] compare(sort.4, sort.4), direction=NE
  constant.2 = {dtype}[] constant(nan)
  constant.3 = {dtype}[] constant(0)
  eq.2 = pred[] compare(sort.4, constant.3), direction=EQ
  select_n.4 = {dtype}[] select(eq.2, constant.3, sort.4)
  select_n.5 = {dtype}[] select(ne.2, constant.2, select_n.4)
  sort.5 = {dtype}[] parameter(1)
  ne.3 = pred[] compare(sort.5, sort.5), direction=NE
  eq.3 = pred[] compare(sort.5, constant.3), direction=EQ
  select_n.6 = {dtype}[] select(eq.3, constant.3, sort.5)
  select_n.7 = {dtype}[] select(ne.3, constant.2, select_n.6)
  ROOT lt_to.1 = pred[] compare(select_n.5, select_n.7), direction=LT, type=TOTALORDER
}}
ENTRY e {{ x = {dtype}[{size}] parameter(0)  i = s32[{size}] iota(), iota_dimension=0
  ROOT s = {results} sort({operands}), dimensions={{0}}, is_stable=true, to_apply=region_0.1 }}""")
    payload = compile_for(program, "cpu").program.executables[0].payload
    wanted = {p.symbol for p in CpuPayload.from_bytes(payload).microkernels}
    kept = [text for text in shipping.programs() if f"{dtype}[" in text and "sort" in text]
    monkeypatch.setattr(shipping, "programs", lambda: iter(kept))
    modules = shipping._modules(LEVELS[0].compiled_for())
    assert wanted <= {symbol for module in modules for symbol in module.microkernels()}
