"""Comparisons in total order and stochastic rounding as integer arithmetic."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact, expanded
from xladev.hlo import dtype as dt
from xladev.hlo.text import parse_module
from xladev.passes.expansions.comparison import expand_compare


@pytest.mark.parametrize("direction", ["LT", "GE", "EQ", "NE", "GT", "LE"])
@pytest.mark.parametrize("t", ["f32", "f64", "bf16", "f16"])
def test_total_order(t: str, direction: str, seed: int) -> None:
    dtype = dt.by_name(t).np
    values = np.random.default_rng(seed).standard_normal(20).astype(dtype)
    values[:6] = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, np.nan]).astype(dtype)
    values[5] = -values[5]
    a, b = (np.ascontiguousarray(x).reshape(-1) for x in np.meshgrid(values, values))
    text = f"r = pred[400] compare({t}[400] x, {t}[400] y), direction={direction}, type=TOTALORDER"
    assert_exact(text, 0, a, b)
    assert all(
        not o.shape.element_type.is_float for o in expanded(parse_module(text)).root.operands
    )


def test_other_comparisons_are_left_alone() -> None:
    text = "r = pred[4] compare(f32[4] x, f32[4] y), direction=LT"
    assert expand_compare(parse_module(text).entry.root) is None


@pytest.mark.parametrize("target", ["s8", "u8", "s16", "s32", "s64", "u32"])
@pytest.mark.parametrize(("t", "bits"), [("f32", 32), ("f64", 64), ("bf16", 16), ("f16", 16)])
def test_stochastic_convert(t: str, bits: int, target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = dt.by_name(t).np
    values = (rng.standard_normal(500) * 100).astype(dtype)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 127.5, 126.9, 127.0, -128.9, 1e4]
    values[:10] = np.array(special).astype(dtype)
    random = rng.integers(0, 2**bits - 1, 500, dtype=np.uint64).astype(f"u{bits // 8}")
    text = f"r = {target}[500] stochastic-convert({t}[500] x, u{bits}[500] y)"
    assert_exact(text, 0, values, random)
