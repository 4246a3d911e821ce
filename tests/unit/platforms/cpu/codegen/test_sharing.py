"""Programs on several threads: the bits of one thread, whatever the kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen import sharing
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.sharing import Part
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.payload import CpuPayload
from xladev.platforms.cpu.pool import THREADS_VARIABLE

SUM = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
"""
PROGRAMS = {
    "a wide convolution": """
ENTRY e { p = f32[2,20,22,24] parameter(0)  q = f32[3,3,24,70] parameter(1)
  ROOT r = f32[2,20,22,70] convolution(p, q), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f }""",
    "a convolution of each channel": """
ENTRY e { p = f32[2,40,50,40] parameter(0)  q = f32[3,3,1,40] parameter(1)
  ROOT r = f32[2,40,50,40] convolution(p, q), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f, feature_group_count=40 }""",
    "a matrix times a vector": """
ENTRY e { p = f32[1700,900] parameter(0)  q = f32[900] parameter(1)
  v = f32[900,1] reshape(q)
  ROOT r = f32[1700,1] dot(p, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "a few rows times a matrix": """
ENTRY e { p = f32[7,900] parameter(0)  q = f32[900,2048] parameter(1)
  ROOT r = f32[7,2048] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "a few rows times columns along memory": """
ENTRY e { p = f32[7,300] parameter(0)  q = f32[700,300] parameter(1)
  ROOT r = f32[7,700] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={1} }""",
    "a few rows times a matrix that is near": """
ENTRY e { p = f32[8,256] parameter(0)  q = f32[256,1030] parameter(1)
  ROOT r = f32[8,1030] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "a loop over positions": """
ENTRY e { p = f32[20011] parameter(0)  q = f32[20011] parameter(1)
  x = f32[20011] exponential(p)  ROOT r = f32[20011] add(x, q) }""",
    "a loop over rows": """
ENTRY e { p = f32[70,90] parameter(0)  q = f32[90] parameter(1)
  b = f32[70,90] broadcast(q), dimensions={1}  ROOT r = f32[70,90] multiply(p, b) }""",
    "a transpose in tiles": """
ENTRY e { p = f32[700,1030] parameter(0)  ROOT r = f32[1030,700] transpose(p),
    dimensions={1,0} }""",
    "single elements": """
ENTRY e { p = f32[3,50,70] parameter(0)
  ROOT r = f32[3,70,50] transpose(p), dimensions={0,2,1} }""",
    "sums of rows": SUM
    + """
ENTRY e { p = f32[90,777] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[90] reduce(p, z), dimensions={1}, to_apply=add }""",
    "rows that are reduced and written": SUM
    + """
ENTRY e { p = f32[90,700] parameter(0)  z = f32[] constant(0)
  x = f32[90,700] exponential(p)
  s = f32[90] reduce(x, z), dimensions={1}, to_apply=add
  b = f32[90,700] broadcast(s), dimensions={0}  ROOT r = f32[90,700] divide(x, b) }""",
    "rows in order": """
before { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GT, type=TOTALORDER }
ENTRY e { p = f32[90,500] parameter(0)
  ROOT r = f32[90,500] sort(p), dimensions={1}, to_apply=before }""",
    "columns in order": """
before { a = f32[] parameter(0)  b = f32[] parameter(1)
  c = s32[] parameter(2)  d = s32[] parameter(3)
  ROOT f = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e { p = f32[400,90] parameter(0)  i = s32[400,90] iota(), iota_dimension=0
  t = (f32[400,90], s32[400,90]) sort(p, i), dimensions={0}, to_apply=before
  ROOT r = s32[400,90] get-tuple-element(t), index=1 }""",
    "sums of columns": SUM
    + """
ENTRY e { p = f32[777,2100] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[2100] reduce(p, z), dimensions={0}, to_apply=add }""",
    "sums of both": SUM
    + """
ENTRY e { p = f32[40,50,60] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[50] reduce(p, z), dimensions={0,2}, to_apply=add }""",
    "one sum": SUM
    + """
ENTRY e { p = f32[300007] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add }""",
    "one sum of many rows": SUM
    + """
ENTRY e { p = f32[900,1003] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[] reduce(p, z), dimensions={0,1}, to_apply=add }""",
    "sums of few columns": SUM
    + """
ENTRY e { p = f32[5000,64] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[64] reduce(p, z), dimensions={0}, to_apply=add }""",
    "sums of rows that are stored": SUM
    + """
ENTRY e { p = f32[3,200100] parameter(0)  z = f32[] constant(0)
  x = f32[3,200100] exponential(p)
  s = f32[3] reduce(x, z), dimensions={1}, to_apply=add
  m = f32[3] reduce(p, z), dimensions={1}, to_apply=add
  ROOT r = (f32[3], f32[3], f32[3,200100]) tuple(s, m, x) }""",
    "sums in rows": SUM
    + """
ENTRY e { p = f32[30,900] parameter(0)  z = f32[] constant(-0)
  ROOT r = f32[30,900] reduce-window(p, z), window={size=1x900 pad=0_0x899_0}, to_apply=add }""",
    "windows": SUM
    + """
ENTRY e { p = f32[4,30,30,20] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[4,28,28,20] reduce-window(p, z), window={size=1x3x3x1}, to_apply=add }""",
    "a product": """
ENTRY e { p = f32[130,70] parameter(0)  q = f32[70,210] parameter(1)
  ROOT r = f32[130,210] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "products": """
ENTRY e { p = f32[5,40,70] parameter(0)  q = f32[5,70,33] parameter(1)
  ROOT r = f32[5,40,33] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={1} }""",
    "a product of packed rows": """
ENTRY e { p = f32[70,600] parameter(0)  q = f32[70,45] parameter(1)
  ROOT r = f32[600,45] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0} }""",
    "a row times a matrix of few columns": """
ENTRY e { p = f32[1,900] parameter(0)  q = f32[900,1300] parameter(1)
  ROOT r = f32[1,1300] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "a product of one row": """
ENTRY e { p = f32[1,70] parameter(0)  q = f32[70,8200] parameter(1)
  ROOT r = f32[1,8200] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "a product of one row and columns": """
ENTRY e { p = f32[1,700] parameter(0)  q = f32[330,700] parameter(1)
  ROOT r = f32[1,330] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={1} }""",
    "a product of bf16": """
ENTRY e { p = f32[130,70] parameter(0)  q = f32[70,60] parameter(1)
  a = bf16[130,70] convert(p)  b = bf16[70,60] convert(q)
  ROOT r = bf16[130,60] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "a convolution": """
ENTRY e { p = f32[2,20,20,12] parameter(0)  q = f32[3,3,12,24] parameter(1)
  ROOT r = f32[2,20,20,24] convolution(p, q), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f }""",
    "a convolution in groups": """
ENTRY e { p = f32[2,20,20,12] parameter(0)  q = f32[3,3,4,24] parameter(1)
  ROOT r = f32[2,18,18,24] convolution(p, q), window={size=3x3},
    dim_labels=b01f_01io->b01f, feature_group_count=3 }""",
    "a depthwise convolution": """
ENTRY e { p = f32[2,20,20,12] parameter(0)  q = f32[3,3,1,12] parameter(1)
  ROOT r = f32[2,18,18,12] convolution(p, q), window={size=3x3},
    dim_labels=b01f_01io->b01f, feature_group_count=12 }""",
    "a sort of rows": """
less { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { p = f32[33,300] parameter(0)
  ROOT r = f32[33,300] sort(p), dimensions={1}, to_apply=less }""",
    "a gather": """
ENTRY e { p = f32[100,48] parameter(0)  q = f32[300] parameter(1)  n = f32[] constant(100)
  b = f32[300] broadcast(n), dimensions={}  m = f32[300] multiply(q, b)
  i = s32[300] convert(m)
  ROOT r = f32[300,48] gather(p, i), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,48} }""",
    "sums of columns with a rest": SUM
    + """
ENTRY e { p = f32[9000,64] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[64] reduce(p, z), dimensions={0}, to_apply=add }""",
    "sums of columns of pixels": SUM
    + """
ENTRY e { p = f32[40,900,70] parameter(0)  z = f32[] constant(0)
  ROOT r = f32[70] reduce(p, z), dimensions={0,1}, to_apply=add }""",
    "a scatter of rows": SUM
    + """
ENTRY e { p = f32[100,300] parameter(0)  q = f32[300] parameter(1)
  u = f32[300,300] parameter(2)
  n = f32[] constant(110)  b = f32[300] broadcast(n), dimensions={}
  m = f32[300] multiply(q, b)  i = s32[300] convert(m)
  ROOT r = f32[100,300] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "a scatter of parts of windows": SUM
    + """
ENTRY e { p = f32[100,300] parameter(0)  q = f32[90] parameter(1)
  u = f32[90,2,300] parameter(2)
  n = f32[] constant(110)  b = f32[90] broadcast(n), dimensions={}
  m = f32[90] multiply(q, b)  i = s32[90] convert(m)
  ROOT r = f32[100,300] scatter(p, i, u), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "a scatter of windows that overlap": SUM
    + """
ENTRY e { p = f32[500] parameter(0)  q = f32[300] parameter(1)  u = f32[300,9] parameter(2)
  n = f32[] constant(500)  b = f32[300] broadcast(n), dimensions={}
  m = f32[300] multiply(q, b)  i = s32[300] convert(m)
  ROOT r = f32[500] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "an update in place of a slice": """
ENTRY e { p = f32[100,48] parameter(0)  u = f32[60,48] parameter(1)  i = s32[] constant(7)
  j = s32[] constant(0)  d = f32[100,48] negate(p)
  ROOT r = f32[100,48] dynamic-update-slice(d, u, i, j) }""",
    "windows that select": SUM
    + """
ge { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE }
ENTRY e { p = f32[6,32,32,24] parameter(0)  s = f32[6,16,16,24] parameter(1)
  z = f32[] constant(0)
  ROOT r = f32[6,32,32,24] select-and-scatter(p, s, z), window={size=1x2x2x1 stride=1x2x2x1},
    select=ge, scatter=add }""",
    "a softmax": SUM
    + """
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
ENTRY e { p = f32[70,300] parameter(0)  l = f32[] constant(-inf)  z = f32[] constant(0)
  m = f32[70] reduce(p, l), dimensions={1}, to_apply=max
  n = f32[70,300] broadcast(m), dimensions={0}  d = f32[70,300] subtract(p, n)
  x = f32[70,300] exponential(d)  s = f32[70] reduce(x, z), dimensions={1}, to_apply=add
  t = f32[70,300] broadcast(s), dimensions={0}  ROOT r = f32[70,300] divide(x, t) }""",
}


def arguments(module: HloModule) -> list[np.ndarray]:
    draw = np.random.default_rng(11)
    return [draw.random(p.shape.dims, np.float32) for p in module.entry.parameters]


def run(name: str, threads: int | None) -> np.ndarray:
    module = parse_module(f"HloModule m\n{PROGRAMS[name]}")
    program = compile_for(module, "cpu", CompileOptions(threads=threads))
    results = program(*arguments(module))
    arrays = results if isinstance(results, tuple) else (results,)
    views = [np.asarray(a).reshape(-1) for a in arrays]
    bits = np.concatenate([view.view(np.uint8) for view in views])
    for view in views:  # the next program may get this memory, and must not find results in it
        ctypes.memset(view.ctypes.data, 0xAA, view.nbytes)
    return bits


@pytest.fixture
def everything_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LEAST_NS", 0.0)
    monkeypatch.setattr(sharing, "LEAST_PART_NS", 0.0)


@pytest.mark.usefixtures("everything_shared")
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    alone = run(name, 1)
    for threads in (2, 3, 7, None):
        np.testing.assert_array_equal(run(name, threads), alone)


def _without_last_unit(
    right: Callable[..., None], self: KernelBuild, count: int, part: Part, **how: Any
) -> None:
    right(self, count - 1 if self.is_shared else count, part, **how)


@pytest.mark.usefixtures("everything_shared")
def test_a_part_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = KernelBuild.split
    monkeypatch.setattr(
        KernelBuild, "split", lambda self, *a, **how: _without_last_unit(right, self, *a, **how)
    )
    with pytest.raises(AssertionError):
        test_any_number_of_threads_gives_the_same_bits("sums of rows")


def test_code_for_one_thread_has_no_parts(
    monkeypatch: pytest.MonkeyPatch, everything_shared: None
) -> None:
    module = parse_module(f"HloModule m\n{PROGRAMS['a loop over rows']}")

    def is_parallel(threads: int | None) -> bool:
        program = compile_for(module, "cpu", CompileOptions(threads=threads)).program
        return CpuPayload.from_bytes(program.executables[0].payload).is_parallel

    monkeypatch.setenv(THREADS_VARIABLE, "2")
    assert [is_parallel(threads) for threads in (None, 1, 2)] == [True, False, True]
    shared_version = CpuCompiler().version()
    monkeypatch.setenv(THREADS_VARIABLE, "1")
    assert [is_parallel(threads) for threads in (None, 1, 2)] == [False, False, True]
    assert CpuCompiler().version() != shared_version
