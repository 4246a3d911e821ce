"""Rows shorter than a vector, many at once."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.buffers.in_place import in_place_pairs
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.short_rows import MOST_COLUMNS, dimensions_of
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits

DTYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "s8": np.int8,
    "c64": np.complex64,
}  # fmt: skip


def stacked(columns: int, rows: str = "301", dtype: str = "f32") -> str:
    """Columns that are computed, beside one another."""
    axis = rows.count(",") + 1
    lines = [f"x{n} = {dtype}[{rows}] parameter({n})" for n in range(columns)]
    lines += [f"y{n} = {dtype}[{rows}] add(x{n}, x0)" for n in range(columns)]
    lines += [f"c{n} = {dtype}[{rows},1] reshape(y{n})" for n in range(columns)]
    names = ", ".join(f"c{n}" for n in range(columns))
    whole = f"ROOT r = {dtype}[{rows},{columns}] concatenate({names}), dimensions={{{axis}}}"
    return "HloModule m\nENTRY e {\n" + "\n".join([*lines, whole]) + "\n}"


def is_in_vectors(text: str) -> bool:
    module = ModuleBuilder("m", target_traits())
    emit_kernel(module, KernelSpec("kernel", parse_module(text).entry))
    return "shufflevector" in str(module)


def check(text: str, seed: int, nbytes: int = 64) -> None:
    module, rng = parse_module(text), np.random.default_rng(seed)
    arguments = [
        rng.integers(-50, 50, p.shape.dims).astype(DTYPES[p.shape.element_type.name])
        for p in module.entry.parameters
    ]
    wanted = HloEvaluator().run(module, *arguments)
    (got,) = run_kernel(module, *arguments, nbytes=nbytes)
    np.testing.assert_array_equal(got, wanted)
    for threads in (1, 3):
        made = xladev.compile(module, "cpu", CompileOptions(threads=threads))(*arguments)
        np.testing.assert_array_equal(np.asarray(made), wanted)


@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize("columns", range(2, MOST_COLUMNS + 2))
def test_columns_side_by_side(columns: int, nbytes: int, seed: int) -> None:
    check(stacked(columns), seed, nbytes)
    check(stacked(columns, "3,50"), seed, nbytes)


def test_they_are_vectors() -> None:
    for columns in (2, 3, MOST_COLUMNS):
        assert is_in_vectors(stacked(columns))
        assert not is_in_vectors(stacked(columns, "2"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_types(dtype: str, seed: int) -> None:
    check(stacked(3, dtype=dtype), seed)


def test_columns_of_short_rows_change_places(seed: int) -> None:
    check(
        """HloModule m
        ENTRY e { x = f32[500,3] parameter(0)  y = f32[500,3] parameter(1)
          a = f32[500,2] slice(x), slice={[0:500],[1:3]}
          b = f32[500,1] slice(x), slice={[0:500],[0:1]}
          c = f32[500,3] concatenate(a, b), dimensions={1}
          ROOT r = f32[500,3] multiply(c, y) }""",
        seed,
    )


def test_rows_are_cut_where_conditions_change(seed: int) -> None:
    check(
        """HloModule m
        ENTRY e { x = f32[70,3] parameter(0)  y = f32[90,3] parameter(1)  v = f32[] constant(2)
          p = f32[90,3] pad(x, v), padding=7_13x0_0  ROOT r = f32[90,3] multiply(p, y) }""",
        seed,
    )


def test_many_rows_are_shared(seed: int) -> None:
    check(stacked(3, "50000"), seed)


def test_which_rows_are_short() -> None:
    f32 = parse_module("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }").entry.root.shape
    dims = {(50, 3): (0, 1), (50, 3, 1): (0, 1), (50, 5): None, (3,): None, (1, 3): None}
    for sizes, wanted in dims.items():
        assert dimensions_of(array(f32.element_type, sizes)) == wanted


def test_a_result_in_place_of_what_another_reads(seed: int) -> None:
    """Each is computed before any is stored."""
    entry = parse_module("""HloModule m
        ENTRY e { x = f32[300,3] parameter(0)  y = f32[300,3] parameter(1)
          z = f32[300] parameter(2)
          s = f32[300,3] broadcast(z), dimensions={0}
          a = f32[300,3] add(x, s)  b = f32[300,3] subtract(y, s)
          ROOT r = (f32[300,3], f32[300,3]) tuple(a, b) }""").entry
    pairs = in_place_pairs(entry)
    assert (0, 1) in pairs
    builder = ModuleBuilder("m", target_traits())
    emit_kernel(builder, KernelSpec("kernel", entry, pairs))
    assert "shufflevector" in str(builder)
    code = LoadedObject("m", compile_text("m", str(builder), 2), ("kernel",))
    rng = np.random.default_rng(seed)
    x, y, z = (rng.standard_normal(p.shape.dims).astype("f4") for p in entry.parameters)
    wanted = x + z[:, None], y - z[:, None]
    found = np.empty_like(x)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
    kind(code.address("kernel"))(*(a.ctypes.data for a in (x, y, z, y, found)))
    np.testing.assert_array_equal(y, wanted[0])
    np.testing.assert_array_equal(found, wanted[1])
