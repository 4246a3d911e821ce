"""Which weights become numbers in the kernel of their product, as JAX and PyTorch write them."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen import sharing
from xladev.platforms.cpu.weight_fusion import WeightFusion

DOT = """ROOT d = f32[{rows},96] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{0}} }}"""
SCALED = """q = s8[64,96] parameter(1)  s = f32[96] parameter(2)
      f = f32[64,96] convert(q)  t = f32[64,96] broadcast(s), dimensions={1}
      w = f32[64,96] multiply(f, t)"""
TAKEN = {
    "a scale for each column": SCALED,
    "scales come after the product": """q = s8[64,96] parameter(1)
      w = f32[64,96] convert(q)""",
    "16 bits": "q = bf16[64,96] parameter(1)  w = f32[64,96] convert(q)",
    "a slice of the weights of all layers": """q = s8[3,64,96] parameter(1)
      n = s32[] parameter(2)  z = s32[] constant(0)
      c = s8[1,64,96] dynamic-slice(q, n, z, z), dynamic_slice_sizes={1,64,96}
      r = s8[64,96] reshape(c)  w = f32[64,96] convert(r)""",
    "shifts of bytes by an array": """p = u8[64,48] parameter(1)
      e = u8[64,48,2] broadcast(p), dimensions={0,1}  four = u8[2] constant({0, 4})
      b = u8[64,48,2] broadcast(four), dimensions={2}
      h = u8[64,48,2] shift-right-logical(e, b)  m = u8[] constant(15)
      l = u8[64,48,2] broadcast(m), dimensions={}  a = u8[64,48,2] and(h, l)
      r = u8[64,96] reshape(a)  w = f32[64,96] convert(r)""",
}
LEFT = {
    "in memory as it is": "w = f32[64,96] parameter(1)",
    "as many bytes": """v = f32[64,96] parameter(1)  s = f32[96] parameter(2)
      t = f32[64,96] broadcast(s), dimensions={1}  w = f32[64,96] multiply(v, t)""",
}


def module_of(weights: str, rows: int = 2) -> HloModule:
    return parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{rows},64] parameter(0)
      {weights}
      {DOT.format(rows=rows)}""")


def arguments(module: HloModule, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for p in module.entry.parameters:
        dtype, dims = p.shape.element_type, p.shape.dims
        if dtype.is_float:
            found.append(rng.standard_normal(dims).astype(dtype.np))
        else:
            low, high = (1, 2) if not dims else (0, 100)
            found.append(rng.integers(low, high, dims).astype(dtype.np))
    return found


def is_taken(module: HloModule) -> bool:
    return WeightFusion().run(module).entry.root.opcode == "fusion"


@pytest.mark.parametrize("rows", [1, 2, 20])
@pytest.mark.parametrize("name", TAKEN)
def test_weights_become_numbers_in_the_kernel(name: str, rows: int, seed: int) -> None:
    module = module_of(TAKEN[name], rows)
    assert is_taken(module)
    given = arguments(module, seed)
    (got,) = (np.asarray(compile_for(module, "cpu")(*given)),)
    wanted = np.asarray(HloEvaluator().run(module, *given))
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5 * float(np.max(abs(wanted))))


@pytest.mark.parametrize("swaps", [False, True])
def test_masks_and_shifts_are_a_bitcast_in_the_kernel(swaps: bool) -> None:
    """As torch writes layers of 4 bits; the high half comes first in some of them."""
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[2,64] parameter(0)  p = u8[96,32] parameter(1)
      a = u8[] constant(15)  m = u8[96,32] broadcast(a), dimensions={{}}  l = u8[96,32] and(p, m)
      n = u8[] constant(4)  b = u8[96,32] broadcast(n), dimensions={{}}
      h = u8[96,32] shift-right-logical(p, b)
      y = u8[96,32,1] reshape(l)  z = u8[96,32,1] reshape(h)
      s = u8[96,32,2] concatenate({"z, y" if swaps else "y, z"}), dimensions={{2}}
      f = f32[96,32,2] convert(s)  w = f32[96,64] reshape(f)
      ROOT d = f32[2,96] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} }}""")
    fusion = WeightFusion().run(module).entry.root
    opcodes = [i.opcode for i in fusion["calls"].instructions]
    assert "bitcast-convert" in opcodes
    assert ("reverse" in opcodes) == swaps
    assert "and" not in opcodes


@pytest.mark.parametrize("name", LEFT)
def test_other_operands_stay(name: str) -> None:
    assert not is_taken(module_of(LEFT[name]))


def test_weights_that_something_else_reads_stay_in_memory() -> None:
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[2,64] parameter(0)
      {SCALED}
      d = f32[2,96] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      ROOT r = (f32[2,96], f32[64,96]) tuple(d, w) }}""")
    fused = WeightFusion().run(module)
    assert all(i.opcode != "fusion" for i in fused.entry.instructions)


@pytest.mark.parametrize("rows", [1, 7, 130])
@pytest.mark.parametrize("turned", [False, True])
def test_any_number_of_threads_gives_the_same_bits(
    rows: int, turned: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LEAST_NS", 0.0)
    monkeypatch.setattr(sharing, "LEAST_PART_NS", 0.0)
    dims, scaled = ("1100,700", "0") if turned else ("700,1100", "1")
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{rows},700] parameter(0)  q = s8[{dims}] parameter(1)
      s = f32[1100] parameter(2)  f = f32[{dims}] convert(q)
      t = f32[{dims}] broadcast(s), dimensions={{{scaled}}}  w = f32[{dims}] multiply(f, t)
      ROOT d = f32[{rows},1100] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{{int(turned)}}} }}""")
    given = arguments(module, seed)
    alone = np.asarray(compile_for(module, "cpu", CompileOptions(threads=1))(*given)).copy()
    for threads in (2, 3, 7):
        shared = compile_for(module, "cpu", CompileOptions(threads=threads))(*given)
        np.testing.assert_array_equal(np.asarray(shared), alone)


FOUR_BITS = """p = u8[{outer},{half}] parameter(1)  b = u4[{outer},{half},2] bitcast-convert(p)
      c = {dtype}[{outer},{half},2] convert(b)  f = {dtype}[{cut}] reshape(c)
      s = {dtype}[{of_scales}] parameter(2)  t = {dtype}[{cut}] broadcast(s), dimensions={{{at}}}
      z = u8[{of_scales}] parameter(3)  y = {dtype}[{of_scales}] convert(z)
      o = {dtype}[{cut}] broadcast(y), dimensions={{{at}}}
      u = {dtype}[{cut}] subtract(f, o)  m = {dtype}[{cut}] multiply(u, t)
      w = {dtype}[{outer},{inner}] reshape(m)"""


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("turned", [False, True])
def test_any_number_of_threads_gives_the_same_bits_of_four(
    rows: int, dtype: str, turned: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LEAST_NS", 0.0)
    monkeypatch.setattr(sharing, "LEAST_PART_NS", 0.0)
    sizes = (
        {"outer": 1920, "inner": 512, "cut": "1920,4,128", "of_scales": "1920,4", "at": "0,1"}
        if turned
        else {"outer": 512, "inner": 1920, "cut": "4,128,1920", "of_scales": "4,1920", "at": "0,2"}
    )
    text = FOUR_BITS.format(dtype=dtype, half=int(sizes["inner"]) // 2, **sizes)
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = {dtype}[{rows},512] parameter(0)
      {text}
      ROOT d = {dtype}[{rows},1920] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{{int(turned)}}} }}""")
    assert is_taken(module)
    given = arguments(module, seed)
    alone = compile_for(module, "cpu", CompileOptions(threads=1))(*given).numpy().copy()
    wanted = np.asarray(HloEvaluator().run(module, *given)).astype(np.float64)
    allowed = 2e-5 if dtype == "f32" else 1e-2
    assert np.max(abs(alone.astype(np.float64) - wanted)) <= allowed * np.max(abs(wanted))
    for threads in (2, 3):
        shared = compile_for(module, "cpu", CompileOptions(threads=threads))(*given).numpy()
        np.testing.assert_array_equal(shared.view(np.uint8), alone.view(np.uint8))
