"""stochastic-convert against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import Kernel, every_value
from xladev.hlo.dtype import (
    BF16,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    F64,
    FLOATS,
    S8,
    S32,
    U8,
    U16,
    U32,
    U64,
    PrimitiveType,
)
from xladev.hlo.numerics.quantize import stochastic_convert

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")
RANDOM = {8: U8, 16: U16, 32: U32, 64: U64}


def stochastic(x: Any, random: Any, source: PrimitiveType, target: PrimitiveType) -> Any:
    return Kernel("stochastic-convert", (source, RANDOM[source.bits]), target)(x, random)


def test_stochastic_convert_rounds_up_below_the_fraction() -> None:
    x = np.array([1.25, 1.25, -1.25, -1.25, 3.0, 0.999], np.float32)
    quarter = 2**30
    random = np.array([quarter - 1, quarter, quarter - 1, quarter, 0, 0], np.uint32)
    assert stochastic(x, random, F32, S32).tolist() == [2, 1, -2, -1, 3, 1]


def test_stochastic_convert_clamps() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e10, -1e10, 127.5, -128.5], np.float32)
    got = stochastic(x, np.zeros(7, np.uint32), F32, S8)
    assert got.tolist() == [0, 127, -128, 127, -128, 127, -128]


def test_stochastic_convert_is_unbiased() -> None:
    random = np.arange(0, 2**16, 7).astype(np.uint16)
    x = np.full(random.size, 2.3).astype(np.float16)
    got = stochastic(x, random, F16, S8)
    assert set(got.tolist()) == {2, 3}
    assert abs(got.astype(np.float64).mean() - float(x[0])) < 1e-3


def values_of(source: PrimitiveType) -> Any:
    """Every value of a narrow type, often enough to meet many random bits; hard ones of others."""
    if source.bits <= 16:
        return np.tile(every_value(source), 64 if source.bits == 8 else 1)
    patterns = np.random.default_rng(0).bytes(source.np.itemsize * 20_000)
    everyday = np.random.default_rng(1).normal(size=20_000).astype(source.np)
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 65504, 65519, 65520, 3.4e38])
    return np.concatenate([np.frombuffer(patterns, source.np), everyday, edges.astype(source.np)])


@pytest.mark.parametrize("source", [F8E4M3FN, F8E5M2, BF16, F16, F32, F64], ids=str)
@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_floats_become_the_neighbour_that_the_evaluator_takes(
    source: PrimitiveType, target: PrimitiveType
) -> None:
    x = values_of(source)
    word = RANDOM[source.bits].np
    random = np.frombuffer(np.random.default_rng(2).bytes(x.size * word.itemsize), word)
    with np.errstate(all="ignore"):
        want = np.asarray(stochastic_convert(x, random, target), np.float64)
    got = np.asarray(stochastic(x, random, source, target), np.float64)
    same = ((got == want) & (np.signbit(got) == np.signbit(want))) | (
        np.isnan(got) & np.isnan(want)
    )
    at = np.flatnonzero(~same)[:5]
    assert same.all(), list(zip(x[at], random[at], got[at], want[at], strict=True))
