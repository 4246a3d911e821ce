"""Transposes in tiles: right for all permutations and types, NaNs kept, shared memory used."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.kernels import transposes
from xladev.codegen.simt.kernels.transposes import tiled_transpose
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen.kinds import MACHINE, kind_of
from xladev.platforms.cuda.compiler import CudaCompiler
from xladev.testing.differential import compare_with_evaluator, run_on_platform
from xladev.testing.random_inputs import random_arguments


def transpose(dims: tuple[int, ...], order: tuple[int, ...], dtype: str = "f32") -> str:
    """A transpose of a copy, which is fused into it."""
    text, result = (",".join(map(str, n)) for n in (dims, [dims[d] for d in order]))
    listed = ",".join(map(str, order))
    return f"""
ENTRY e {{
  x = {dtype}[{text}] parameter(0)
  y = {dtype}[{text}] copy(x)
  ROOT r = {dtype}[{result}] transpose(y), dimensions={{{listed}}}
}}"""


@pytest.mark.parametrize("order", [o for o in itertools.permutations(range(3)) if o[-1] != 2])
def test_permutations(order, emulated):
    module = parse_module(transpose((17, 33, 40), order))
    assert tiled_transpose(module.entry.root, MACHINE) is not None
    strict = CompileOptions(strict=True)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize("dtype", ["pred", "bf16", "f8e5m2", "s4", "c64", "f64", "c128"])
def test_types(dtype, emulated):
    module = parse_module(transpose((70, 45), (1, 0), dtype))
    strict = CompileOptions(strict=True)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


FOLLOWED = """
ENTRY e {
  x = f32[40,70] parameter(0)
  y = f32[70,40] parameter(1)
  s = f32[40] parameter(2)
  z = bf16[40,70] parameter(3)
  t = f32[70,40] transpose(x), dimensions={1,0}
  m = f32[70,40] multiply(t, y)
  b = f32[70,40] broadcast(s), dimensions={1}
  a = f32[70,40] add(m, b)
  n = bf16[40,70] negate(z)
  u = bf16[70,40] transpose(n), dimensions={1,0}
  c = f32[70,40] convert(u)
  ROOT r = f32[70,40] subtract(a, c)
}"""

TWO_RESULTS = """
ENTRY e {
  x = f32[3,40,20] parameter(0)
  t = f32[20,3,40] transpose(x), dimensions={2,0,1}
  a = f32[20,3,40] exponential(t)
  b = f32[20,3,40] negate(t)
  ROOT r = (f32[20,3,40], f32[20,3,40]) tuple(a, b)
}"""


@pytest.mark.parametrize("text", [FOLLOWED, TWO_RESULTS], ids=["two tiles", "two results"])
def test_what_follows_is_in_the_kernel(text, emulated, assembled):
    module = parse_module(text)
    formed = CudaCompiler().form_kernels(module)
    kernels = [i for i in formed.entry.instructions if i.opcode == "fusion"]
    assert [kind_of(KernelSpec("k", k["calls"])).name for k in kernels] == ["tiled transpose"]
    strict = CompileOptions(strict=True)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None
    found = assembled(text)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)


def test_transposes_of_another_order_are_read_one_by_one(emulated):
    text = """
ENTRY e {
  x = s32[20,30,40] parameter(0)
  y = s32[30,40,20] parameter(1)
  t = s32[40,20,30] transpose(x), dimensions={2,0,1}
  u = s32[40,20,30] transpose(y), dimensions={1,2,0}
  ROOT r = s32[40,20,30] add(t, u)
}"""
    module = parse_module(text)
    tiled = tiled_transpose(module.entry.root, MACHINE)
    assert tiled is not None
    assert len(tiled.transposes) == 1
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated) is None


@pytest.mark.parametrize("dims", [(4, 40), (40, 4), (0, 40)])
def test_thin_ones_are_loops(dims):
    assert tiled_transpose(parse_module(transpose(dims, (1, 0))).entry.root, MACHINE) is None


def test_rows_that_stay_rows_are_loops():
    root = parse_module(transpose((20, 20, 20), (1, 0, 2))).entry.root
    assert tiled_transpose(root, MACHINE) is None


WIDE = {
    "whole large tiles": ((128, 64), (1, 0), "bf16"),
    "large tiles that end early": ((72, 200), (1, 0), "bf16"),
    "small tiles that end early": ((40, 100), (1, 0), "f32"),
    "wide on one side": ((3, 72, 65), (0, 2, 1), "bf16"),
    "stacks": ((68, 3, 72), (2, 1, 0), "s16"),
    "bytes": ((80, 96), (1, 0), "u8"),
    "pairs": ((64, 36), (1, 0), "c64"),
    "eight bytes": ((34, 66), (1, 0), "f64"),
}


@pytest.mark.parametrize("name", WIDE)
def test_neighbours_go_together(name, emulated):
    module = parse_module(transpose(*WIDE[name]))
    strict = CompileOptions(strict=True)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


def test_large_tiles_in_large_arrays(emulated, assembled):
    text = transpose((1032, 1056), (1, 0))
    tiled = tiled_transpose(parse_module(text).entry.root, MACHINE)
    assert tiled is not None
    assert tiled.size == 64
    module = parse_module(text)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated) is None
    found = assembled(text)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.shared_nbytes == 64 * 65 * 4
    assert found.registers <= 48


def test_a_missing_barrier_is_found(emulated, monkeypatch):
    monkeypatch.setattr(transposes, "barrier", lambda b: None)
    module = parse_module(transpose((72, 200), (1, 0), "bf16"))
    arguments = random_arguments(module, 0)
    options = CompileOptions(strict=True, rng_seed=5)
    assert compare_with_evaluator(module, arguments, emulated, options) is not None


@pytest.mark.parametrize(
    ("dtype", "dims", "steps"), [("f32", (1024, 2048), 4), ("bf16", (256, 512), 2)]
)
def test_both_sides_access_16_bytes_at_once(dtype, dims, steps):
    ptx = ptx_of(transpose(dims, (1, 0), dtype))
    assert ptx.count("ld.global.nc.v4.b32") == steps
    assert ptx.count("st.global.v4.b32") == steps
    for access in ("ld.global", "st.global"):
        assert ptx.count(access) == steps
    assert ptx.count("ld.shared") == ptx.count("st.shared") == 4096 // 256


def test_nan_payloads_are_kept(emulated):
    bits = np.full((32, 32), 0x7FC1, np.uint16)
    module = parse_module(transpose((32, 32), (1, 0), "bf16"))
    (found,) = run_on_platform(module, [bits.view(ml_dtypes.bfloat16)], emulated)
    assert np.array_equal(found.view(np.uint16), bits)
