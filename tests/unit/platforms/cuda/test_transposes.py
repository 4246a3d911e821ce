"""Transposes in tiles: right for all permutations and types, NaNs kept, shared memory used."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen.transposes import tiled_transpose
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
    assert tiled_transpose(module.entry.root) is not None
    strict = CompileOptions(strict=True)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize("dtype", ["pred", "bf16", "f8e5m2", "s4", "c64", "f64", "c128"])
def test_types(dtype, emulated):
    module = parse_module(transpose((70, 45), (1, 0), dtype))
    strict = CompileOptions(strict=True)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize("dims", [(4, 40), (40, 4), (0, 40)])
def test_thin_ones_are_loops(dims):
    assert tiled_transpose(parse_module(transpose(dims, (1, 0))).entry.root) is None


def test_rows_that_stay_rows_are_loops():
    assert tiled_transpose(parse_module(transpose((20, 20, 20), (1, 0, 2))).entry.root) is None


def test_they_assemble_without_spills(assembled):
    found = assembled(transpose((1024, 2048), (1, 0)))
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.shared_nbytes == 32 * 33 * 4
    assert found.registers <= 48


def test_both_sides_use_shared_memory():
    ptx = ptx_of(transpose((1024, 2048), (1, 0)))
    for access in ("st.shared", "ld.shared", "ld.global.nc", "st.global"):
        assert ptx.count(access) == 4


def test_nan_payloads_are_kept(emulated):
    bits = np.full((32, 32), 0x7FC1, np.uint16)
    module = parse_module(transpose((32, 32), (1, 0), "bf16"))
    (found,) = run_on_platform(module, [bits.view(ml_dtypes.bfloat16)], emulated)
    assert np.array_equal(found.view(np.uint16), bits)
