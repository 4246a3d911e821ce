"""Reduces of several operands across rows, beside NumPy and the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

REDUCER = """
    larger {{ a = {t}[] parameter(0)  i = s32[] parameter(1)
      b = {t}[] parameter(2)  j = s32[] parameter(3)
      gt = pred[] compare(a, b), direction=GT
      nan = pred[] compare(a, a), direction=NE
      first = pred[] or(gt, nan)
      same = pred[] compare(a, b), direction=EQ
      before = pred[] compare(i, j), direction=LT
      tie = pred[] and(same, before)
      takes = pred[] or(first, tie)
      value = {t}[] select(first, a, b)
      place = s32[] select(takes, i, j)
      ROOT both = ({t}[], s32[]) tuple(value, place) }}"""


def largest(dims: tuple[int, ...], axes: tuple[int, ...], dtype: str = "f32") -> HloModule:
    shape, kept = ",".join(map(str, dims)), [n for d, n in enumerate(dims) if d not in axes]
    result, lowest = ",".join(map(str, kept)), "-inf" if dtype != "s32" else "-2147483648"
    return parse_module(f"""HloModule m
    {REDUCER.format(t=dtype)}
    ENTRY main {{ x = {dtype}[{shape}] parameter(0)
      places = s32[{shape}] iota(), iota_dimension={axes[0]}
      low = {dtype}[] constant({lowest})  zero = s32[] constant(0)
      ROOT r = ({dtype}[{result}], s32[{result}]) reduce(x, places, low, zero),
        dimensions={{{",".join(map(str, axes))}}}, to_apply=larger }}""")


@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        ((17, 1000), (0,)),
        ((5, 33, 19), (1,)),
        ((3, 7, 64), (0,)),
        ((3, 7, 64), (0, 1)),
        ((2, 9, 3, 40), (1, 2)),
        ((6, 80, 1), (0,)),
        ((4, 4), (0,)),
        ((1, 300), (0,)),
    ],
    ids=str,
)
@pytest.mark.parametrize("nbytes", [16, 32, 64])
def test_places_of_the_largest(
    dims: tuple[int, ...], axes: tuple[int, ...], nbytes: int, seed: int
) -> None:
    x = np.random.default_rng(seed).integers(-9, 9, dims).astype(np.float32)  # with ties
    module = largest(dims, axes)
    got = run_kernel(module, x, nbytes=nbytes)
    for one, wanted in zip(got, HloEvaluator().run(module, x), strict=True):
        np.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32"])
def test_types_that_are_not_finite_and_threads(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-1000, 1000, (200, 513)).astype({"f32": "f4", "f64": "f8", "s32": "i4"}[dtype])
    if dtype != "s32":
        x[rng.integers(0, 200, 50), rng.integers(0, 513, 50)] = np.nan
        x[rng.integers(0, 200, 50), rng.integers(0, 513, 50)] = np.inf
    module = largest(x.shape, (0,), dtype)
    for threads in (1, 3):
        options = CompileOptions(threads=threads)
        values, places = map(np.asarray, xladev.compile(module, "cpu", options)(x))
        np.testing.assert_array_equal(places, x.argmax(0))
        np.testing.assert_array_equal(values, x.max(0))


def test_reducers_with_constants_and_branches(seed: int) -> None:
    """A constant is the same in all lanes; what branches goes element by element."""
    x = np.random.default_rng(seed).standard_normal((9, 100)).astype(np.float32)
    for body in (
        "one = f32[] constant(1)  low = f32[] maximum(s, one)",
        """p = pred[] compare(s, d), direction=GT
          low = f32[] conditional(p, s, d), true_computation=same, false_computation=same""",
    ):
        module = parse_module(f"""HloModule m
        same {{ ROOT v = f32[] parameter(0) }}
        both {{ a = f32[] parameter(0)  b = f32[] parameter(1)
          c = f32[] parameter(2)  d = f32[] parameter(3)  s = f32[] maximum(a, c)
          {body}
          t = f32[] minimum(b, d)  ROOT r = (f32[], f32[]) tuple(low, t) }}
        ENTRY main {{ x = f32[9,100] parameter(0)  z = f32[] constant(0)
          ROOT r = (f32[100], f32[100]) reduce(x, x, z, z), dimensions={{0}}, to_apply=both }}""")
        for got, wanted in zip(run_kernel(module, x), HloEvaluator().run(module, x), strict=True):
            np.testing.assert_array_equal(got, wanted)
