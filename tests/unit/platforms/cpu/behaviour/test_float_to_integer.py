"""Floats become integers in vectors: truncated, clamped to the range, NaN to zero."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module

FLOATS: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
INTEGERS = ["s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]


def numbers(dtype: Any, seed: int) -> Any:
    """Numbers of all sizes, and those beside the ends of ranges."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal(700) * 10.0 ** rng.uniform(-3, 22, 700)
    few = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 0.999, -0.999, -1.0, 1.0]
    ends = [
        sign * 2.0**power + step
        for power in (2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64)
        for sign in (1, -1)
        for step in (-1.0, -0.5, 0.0, 0.5, 1.0)
    ]
    found = np.concatenate([drawn, few, ends])
    with np.errstate(all="ignore"):
        cast = found.astype(dtype)
        if dtype in (np.float32, np.float64):
            beside = [np.nextafter(cast, dtype(x)) for x in (np.inf, -np.inf)]
            cast = np.concatenate([cast, *beside])
    return cast


@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("name", FLOATS)
def test_all_that_can_be_converted(name: str, integer: str, nbytes: int, seed: int) -> None:
    x = numbers(FLOATS[name], seed)
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = {name}[{x.size}] parameter(0)  ROOT r = {integer}[{x.size}] convert(x) }}""")
    (got,) = run_kernel(module, x, nbytes=nbytes)
    wanted = HloEvaluator().run(module, x)
    np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))
