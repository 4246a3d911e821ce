"""Products whose left operand lies depth first, against NumPy in f64."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xladev
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.dot import dot_plan
from xladev.platforms.cpu.codegen.products.left_panels import PACKED_STEPS

DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "s32": np.int32,
}  # fmt: skip
ROUNDING = {"f32": 1e-5, "f64": 1e-14, "bf16": 1e-2, "f16": 2e-3, "s32": 0.0}


def product(m: int, k: int, n: int, dtype: str = "f32", batch: int = 0, side: int = 0) -> HloModule:
    """Of x transposed and y, which is transposed too if ``side`` is 1."""
    outer, first = (f"{batch},", "0") if batch else ("", "")
    right = f"{n},{k}" if side else f"{k},{n}"
    depth = 1 if batch else 0
    return parse_module(f"""
    HloModule m
    ENTRY main {{ x = {dtype}[{outer}{k},{m}] parameter(0)
      y = {dtype}[{outer}{right}] parameter(1)
      ROOT d = {dtype}[{outer}{m},{n}] dot(x, y), lhs_batch_dims={{{first}}},
        rhs_batch_dims={{{first}}}, lhs_contracting_dims={{{depth}}},
        rhs_contracting_dims={{{depth + side}}} }}""")


def results(module: HloModule, threads: int, dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    shapes = [p.shape.dims for p in module.entry.parameters]
    drawn = [
        np.round(rng.standard_normal(s) * 4) / 4 * (4 if dtype == "s32" else 1) for s in shapes
    ]
    arguments = [each.astype(DTYPES[dtype]) for each in drawn]
    options = xladev.CompileOptions().with_option(f"threads={threads}")
    found = np.asarray(xladev.compile(module, "cpu", options=options)(*arguments))
    return found, arguments


@pytest.mark.parametrize(
    ("m", "k", "n", "dtype", "batch", "side"),
    [
        (512, 300, 128, "f32", 0, 0),
        (70, PACKED_STEPS + 1, 65, "f32", 0, 0),
        (245, 2 * PACKED_STEPS, 600, "f32", 0, 1),
        (29, 700, 64, "f64", 0, 0),
        (50, 900, 97, "bf16", 0, 0),
        (64, 1100, 80, "f16", 0, 1),
        (31, 1030, 64, "s32", 3, 0),
        (33, 520, 70, "f32", 2, 1),
    ],
)
def test_rows_are_packed_in_parts(
    m: int, k: int, n: int, dtype: str, batch: int, side: int
) -> None:
    module = product(m, k, n, dtype, batch, side)
    plan = dot_plan(module.entry.root)
    assert plan is not None
    assert plan.packs_left
    found, (x, y) = results(module, 1, dtype)
    wide = [each.astype(np.float64) for each in (x, y)]
    right = np.swapaxes(wide[1], -1, -2) if side else wide[1]
    wanted = np.swapaxes(wide[0], -1, -2) @ right
    assert np.abs(found - wanted).max() <= ROUNDING[dtype] * np.abs(wanted).max()


def test_threads_change_no_bit() -> None:
    module = product(300, 1000, 256)
    one, two = (results(module, threads, "f32")[0] for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(("m", "k", "n"), [(16, 4000, 128), (512, 300, 63), (64, 200, 128)])
def test_few_rows_or_columns_or_what_is_near_is_not_packed(m: int, k: int, n: int) -> None:
    plan = dot_plan(product(m, k, n).entry.root)
    assert plan is not None
    assert not plan.packs_left
    assert plan.packed_left_nbytes == 0
