"""Measured noise: how far rounding may move a result, and what it may not excuse."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xladev.hlo.literal import Array
from xladev.hlo.text import parse_module
from xladev.testing.differential import compare_results
from xladev.testing.limits import allowed_differences
from xladev.testing.noise import evaluated

EPS = float(np.finfo(np.float32).eps)


def _allowed(text: str, *arguments: Array) -> Array:
    module = parse_module(f"HloModule m\n{text}")
    (limit,) = allowed_differences(module, arguments, evaluated(module, arguments))
    return limit


REDUCE = """
f {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] {opcode}(a, b) }}
ENTRY e {{ x = f32[3] parameter(0)
  init = f32[] parameter(1)
  ROOT r = f32[] reduce(x, init), dimensions={{0}}, to_apply=f }}"""


def test_exact_opcodes_may_not_move() -> None:
    x = np.linspace(-2, 2, 5, dtype=np.float32)
    limit = _allowed("ENTRY e { x = f32[5] parameter(0)\nROOT r = f32[5] negate(x) }", x)
    assert not limit.any()


def test_functions_move_by_a_few_units() -> None:
    x = np.linspace(1, 2, 5, dtype=np.float32)
    limit = _allowed("ENTRY e { x = f32[5] parameter(0)\nROOT r = f32[5] exponential(x) }", x)
    assert (limit > 8 * EPS).all()
    assert (limit < 400 * EPS * np.exp(x)).all()


def test_sums_move_by_their_terms_and_choices_not_at_all() -> None:
    x, zero = np.array([1e6, -1e6, 1], np.float32), np.float32(0)
    assert 1e6 * EPS < _allowed(REDUCE.format(opcode="add"), x, zero) < 1e3
    assert _allowed(REDUCE.format(opcode="maximum"), x, zero) == 0


PAIR = """
f { a = f8e4m3fn[] parameter(0)  i = f32[] parameter(1)
  b = f8e4m3fn[] parameter(2)  j = f32[] parameter(3)
  s = f8e4m3fn[] add(a, b)  t = f32[] add(i, j)  ROOT r = (f8e4m3fn[], f32[]) tuple(s, t) }
ENTRY e { x = f8e4m3fn[2,9] parameter(0)  y = f32[2,9] parameter(1)
  z = f8e4m3fn[] constant(0)  o = f32[] constant(0)
  ROOT r = (f8e4m3fn[2], f32[2]) reduce(x, y, z, o), dimensions={1}, to_apply=f }"""


def test_each_of_several_sums_moves_by_its_own_terms() -> None:
    x = np.tile(np.float32([4, -4, 1]), (2, 3)).astype(ml_dtypes.float8_e4m3fn)
    y = np.full((2, 9), 1e-3, np.float32)
    module = parse_module(f"HloModule m\n{PAIR}")
    wanted = evaluated(module, [x, y])
    narrow, wide = allowed_differences(module, [x, y], wanted, coarse_sums=True)
    assert (narrow >= 27 * 0.125).all()
    assert (wide < 1e3 * EPS * 9e-3).all()


def test_collectives_of_several_arrays_may_combine_in_narrow_floats() -> None:
    text = """
    f { a = f4e2m1fn[] parameter(0)  b = f4e2m1fn[] parameter(1)
      ROOT r = f4e2m1fn[] multiply(a, b) }
    ENTRY e { x = f4e2m1fn[3] parameter(0)  y = f4e2m1fn[2] parameter(1)
      ROOT r = (f4e2m1fn[3], f4e2m1fn[2]) all-reduce(x, y), replica_groups={}, to_apply=f }"""
    arguments = [np.ones(n, np.float32).astype(ml_dtypes.float4_e2m1fn) for n in (3, 2)]
    module = parse_module(f"HloModule m\n{text}")
    wanted = evaluated(module, arguments)
    for limit in allowed_differences(module, arguments, wanted, coarse_sums=True):
        assert (limit >= 1).all()


@pytest.mark.parametrize(
    ("factors", "open_"),
    [
        ((1e30, 1e30, 1e-30), True),  # overflows on the way, or not
        ((1e-30, 1e-30, 1e30), True),  # underflows on the way, or not
        ((2, 3, 4), False),
    ],
)
def test_products_in_another_order(factors: tuple[float, ...], open_: bool) -> None:
    x, one = np.array(factors, np.float32), np.float32(1)
    assert np.isinf(_allowed(REDUCE.format(opcode="multiply"), x, one)) == open_


def test_infinities_in_complex_products_are_open() -> None:
    text = """ENTRY e { x = c64[1,2] parameter(0)
      y = c64[2,1] parameter(1)
      ROOT r = c64[1,1] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    x = np.array([[np.inf, 1]], np.complex64)
    assert np.isinf(_allowed(text, x, x.T)).all()


def test_noise_falls_on_both_sides_of_a_branch_cut() -> None:
    text = """ENTRY e { x = f32[4] parameter(0)
      c = c64[4] convert(x)
      f = c64[4] fft(c), fft_type=FFT, fft_length={4}
      ROOT r = c64[4] sqrt(f) }"""
    x = np.array([-1, 0, 0, 0], np.float32)
    assert (_allowed(text, x) > 1).all()


@pytest.mark.parametrize("wrong", [np.nan, 0.0, np.nextafter(np.float32(2), np.float32(3))])
def test_what_rounding_does_not_explain(wrong: float) -> None:
    """A NaN, a lost sign of zero, one unit in the last place of an exact result."""
    module = parse_module(
        "HloModule m\nENTRY e { x = f32[3] parameter(0)\nROOT r = f32[3] negate(x) }"
    )
    x = np.array([0, -2, 1], np.float32)
    (want,) = evaluated(module, [x])
    assert compare_results(module, [x], [want], [want]) is None
    got = want.copy()
    got[0 if wrong == 0 else 1] = wrong
    finding = compare_results(module, [x], [got], [want])
    assert finding is not None
    assert finding.kind == "value"
