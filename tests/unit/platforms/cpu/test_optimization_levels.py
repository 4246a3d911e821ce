"""All of LLVM's passes run on kernels with long scalar loops, and results are the same."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler
from xladev.platforms.cpu import optimization_levels as effort
from xladev.platforms.cpu.optimization_levels import kernels_worth_passes, light_kernels
from xladev.platforms.cpu.payload import CpuPayload

GATHER = """HloModule m
ENTRY e { p = f32[64,3] parameter(0)  i = s32[40,1] parameter(1)
  g = f32[40,3] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,3}
  q = f32[40,8] parameter(2)  t = f32[40,8] tanh(q)
  ROOT r = (f32[40,3], f32[40,8]) tuple(g, t) }"""
INPUTS = (
    np.arange(192, dtype=np.float32).reshape(64, 3),
    np.arange(40, dtype=np.int32)[::-1].reshape(40, 1).copy(),
    np.linspace(-3, 3, 320, dtype=np.float32).reshape(40, 8),
)
LOOP = """HloModule m
c { s = (s32[], f32[6,1]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT t = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[6,1]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(1)  j = s32[] add(i, k)  v = f32[6,1] get-tuple-element(s), index=1
  w = f32[6,1] reverse(v), dimensions={0}
  ROOT r = (s32[], f32[6,1]) tuple(j, w) }
ENTRY e { v = f32[6,1] parameter(0)  z = s32[] constant(0)
  t = (s32[], f32[6,1]) tuple(z, v)
  l = (s32[], f32[6,1]) while(t), condition=c, body=b
  ROOT r = f32[6,1] get-tuple-element(l), index=1 }"""


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that were optimised."""
    names: list[str] = []

    def choose(*arguments: object) -> list[str]:
        found = kernels_worth_passes(*arguments)  # type: ignore[arg-type]
        names.extend(found)
        return found

    monkeypatch.setattr(compiler, "kernels_worth_passes", choose)
    return names


def test_only_kernels_with_long_scalar_loops_get_all_passes(chosen: list[str]) -> None:
    module = parse_module(GATHER)
    got = compile_for(module, "cpu")(*INPUTS)
    want = compile_for(module, "interpreter")(*INPUTS)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-6)
    assert len(chosen) == 1
    assert "gather" in chosen[0] or ".g" in chosen[0]


def test_results_are_the_same_whichever_kernels_are_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = parse_module(GATHER)
    results = []
    for few in (0, 1 << 60):
        monkeypatch.setattr(effort, "FEW_TRIPS", few)
        results.append([np.asarray(r) for r in compile_for(module, "cpu")(*INPUTS)])
    for first, second in zip(*results, strict=True):
        assert first.tobytes() == second.tobytes()


def test_kernels_in_loops_get_them_sooner(chosen: list[str]) -> None:
    value = np.arange(6, dtype=np.float32).reshape(6, 1)
    got = compile_for(parse_module(LOOP), "cpu")(value)
    np.testing.assert_array_equal(np.asarray(got), value[::-1])
    assert len(chosen) == 1
    chosen.clear()
    v = "v = f32[6,1] parameter(0)"
    once = f"ENTRY e {{ {v}  ROOT r = f32[6,1] reverse(v), dimensions={{0}} }}"
    compile_for(parse_module(once), "cpu")
    assert chosen == []


PRODUCTS = """HloModule m
ENTRY e { a = f32[64,32] parameter(0)  b = f32[32,48] parameter(1)  z = f32[] constant(0)
  d = f32[64,48] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,48] sqrt(d)  i = f32[1,64,48,1] reshape(d)  k = f32[3,3,1,32] parameter(2)
  c = f32[1,64,48,32] convolution(i, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT r = (f32[64,48], f32[1,64,48,32]) tuple(s, c) }"""


def test_kernels_that_leave_their_work_to_microkernels_are_light(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []

    def choose(*arguments: object) -> list[str]:
        names.extend(light_kernels(*arguments))  # type: ignore[arg-type]
        return names

    module = parse_module(PRODUCTS)
    inputs = [np.ones(p.shape.dims, np.float32) for p in module.entry.parameters]
    want = compile_for(module, "interpreter")(*inputs)
    for light, files in ((choose, 2), (lambda *_: [], 1)):
        monkeypatch.setattr(compiler, "light_kernels", light)
        monkeypatch.setattr(compiler, "has_loops", lambda _, number=files: number == 1)
        made = compile_for(module, "cpu")
        payload = CpuPayload.from_bytes(made.program.executables[0].payload)
        assert len(payload.codes) == files
        for g, w in zip(made(*inputs), want, strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-6)
    assert len(names) == 1 and "d" in names[0]
