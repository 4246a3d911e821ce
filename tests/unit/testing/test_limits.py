"""Limits of narrow floats: sums are held to f32, rounded once, however coarse the type is."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xladev.hlo.dtype import PrimitiveType, by_name
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.text import parse_module
from xladev.testing.limits import allowed_differences
from xladev.testing.noise import evaluated

TERMS = 200
NARROW = ("bf16", "f16", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz")
ALGORITHMS = {
    "dot_unset": False,
    "dot_bf16_bf16_f32": False,
    "dot_any_f8_any_f8_f32_fast_accum": False,
    "dot_bf16_bf16_bf16": True,
    "dot_f16_f16_f16": True,
}


def product(dtype: PrimitiveType, algorithm: str = "dot_unset") -> HloModule:
    return parse_module(f"""HloModule m
        ENTRY e {{ x = {dtype}[8,{TERMS}] parameter(0)
          y = {dtype}[{TERMS},8] parameter(1)
          ROOT r = {dtype}[8,8] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
            algorithm={algorithm} }}""")


def operands(dtype: PrimitiveType) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.1, 1.0, (8, TERMS)), rng.uniform(0.1, 1.0, (TERMS, 8))
    return x.astype(dtype.np), y.astype(dtype.np)


def accumulated(x: Array, y: Array, held: np.dtype) -> Array:
    """The product with partial sums kept in a type, term by term."""
    total = np.zeros((8, 8), held)
    for n in range(TERMS):
        term = np.outer(x[:, n].astype(np.float32), y[n].astype(np.float32))
        total = (total.astype(np.float32) + term).astype(held)
    return total.astype(x.dtype)


def is_allowed(module: HloModule, x: Array, y: Array, got: Array, coarse: bool = False) -> bool:
    wanted = evaluated(module, (x, y))
    (limit,) = allowed_differences(module, (x, y), wanted, coarse_sums=coarse)
    distance = np.abs(got.astype(np.float64) - wanted[0].astype(np.float64))
    return bool((distance <= limit).all())


@pytest.mark.parametrize("name", NARROW)
def test_sums_in_f32_pass_and_sums_in_the_type_itself_do_not(name: str) -> None:
    dtype = by_name(name)
    module, (x, y) = product(dtype), operands(dtype)
    assert is_allowed(module, x, y, accumulated(x, y, np.dtype(np.float32)))
    assert not is_allowed(module, x, y, accumulated(x, y, dtype.np))


def test_f16_and_bf16_are_too_narrow_for_each_other() -> None:
    for kept, held in (("bf16", ml_dtypes.float8_e5m2), ("f16", ml_dtypes.bfloat16)):
        module, (x, y) = product(by_name(kept)), operands(by_name(kept))
        assert not is_allowed(module, x, y, accumulated(x, y, np.dtype(held)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_may_ask_for_narrow_sums(algorithm: str) -> None:
    bf16 = by_name("bf16")
    module, (x, y) = product(bf16, algorithm), operands(bf16)
    got = accumulated(x, y, bf16.np)
    assert is_allowed(module, x, y, got) == ALGORITHMS[algorithm]


def test_a_comparison_may_allow_narrow_sums() -> None:
    bf16 = by_name("bf16")
    module, (x, y) = product(bf16), operands(bf16)
    assert is_allowed(module, x, y, accumulated(x, y, bf16.np), coarse=True)


@pytest.mark.parametrize("name", NARROW)
def test_the_limit_is_a_part_of_the_number(name: str) -> None:
    """One or two units in the last place: in fp8, eight would be all of it."""
    dtype = by_name(name)
    module, (x, y) = product(dtype), operands(dtype)
    wanted = evaluated(module, (x, y))
    (limit,) = allowed_differences(module, (x, y), wanted)
    assert (limit <= 0.5 * np.abs(wanted[0].astype(np.float64))).all()
    function = parse_module(f"""HloModule m
        ENTRY e {{ x = {dtype}[8,{TERMS}] parameter(0)
          ROOT r = {dtype}[8,{TERMS}] exponential(x) }}""")
    wanted = evaluated(function, (x,))
    (limit,) = allowed_differences(function, (x,), wanted)
    assert (limit > 0).all()
    assert (limit <= 0.5 * wanted[0].astype(np.float64)).all()
