"""Functions of c128 at the ends of the range, where a step on the way leaves it."""

import numpy as np
import pytest

from xladev.client import compile as compile_for

TEXT = """HloModule m
ENTRY e {{ x = c128[{n}] parameter(0)
  ROOT r = c128[{n}] {opcode}(x) }}"""
POWER = """HloModule m
ENTRY e { x = c128[2] parameter(0)
  y = c128[2] parameter(1)
  ROOT r = c128[2] power(x, y) }"""
TINY, HUGE = 5e-324, 1.7e308
INPUTS = {
    "log": ([complex(TINY, TINY), complex(3 * TINY, 0), complex(HUGE, HUGE)], np.log),
    "cbrt": ([complex(HUGE, HUGE), complex(1e300, 1)], lambda z: np.power(z, 1 / np.longdouble(3))),
    "atanh": ([complex(1, 1e-200), complex(1, -1e-308), complex(-1, 1e-300)], np.arctanh),
}


@pytest.mark.parametrize("opcode", INPUTS)
def test_ends_of_the_range(opcode: str) -> None:
    values, function = INPUTS[opcode]
    x = np.array(values, np.complex128)
    got = np.asarray(compile_for(TEXT.format(n=len(x), opcode=opcode).encode(), "cpu")(x))
    want = function(x.astype(np.clongdouble))
    assert np.abs(got - want).max() <= 1e-13 * np.abs(want).max()
    assert np.all(np.abs(got - want) <= 1e-13 * np.abs(want))


def test_a_power_whose_factors_leave_the_range_while_it_does_not() -> None:
    # |z|**800 overflows, exp(-720 arg z) underflows; the product does neither
    z, exponent = np.array([complex(1.5, 2), complex(2, 2)]), np.full(2, complex(800, 800))
    got = np.asarray(compile_for(POWER.encode(), "cpu")(z, exponent))
    wide = z.astype(np.clongdouble)
    want = np.exp(exponent.astype(np.clongdouble) * np.log(wide))
    assert np.all(np.isfinite(got))
    assert np.all(np.abs(got - want) <= 1e-11 * np.abs(want))


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_extremes_compare_by_parts_and_nan_wins(opcode: str) -> None:
    nan = float("nan")
    x = np.array([1 + 2j, 1 + 2j, 3 - 1j, complex(nan, 1), 2, -1j], np.complex64)
    y = np.array([1 + 3j, 0 + 9j, 3 - 2j, 5, complex(0, nan), 0], np.complex64)
    text = f"""HloModule m
    ENTRY e {{ x = c64[6] parameter(0)
      y = c64[6] parameter(1)
      ROOT r = c64[6] {opcode}(x, y) }}"""
    made = compile_for(text.encode(), "cpu")
    assert not made.program.fallbacks
    want = compile_for(text.encode(), "interpreter")(x, y)
    np.testing.assert_array_equal(np.asarray(made(x, y)), np.asarray(want))


def test_a_cube_root_of_an_infinity_at_an_unknown_angle_is_infinite() -> None:
    nan, inf = float("nan"), float("inf")
    x = np.array([complex(nan, inf), complex(nan, -inf), complex(inf, nan), complex(nan, 1)])
    got = np.asarray(compile_for(TEXT.format(n=4, opcode="cbrt").encode(), "cpu")(x))
    np.testing.assert_array_equal(got.real, [inf, inf, inf, nan])
    assert np.isnan(got.imag).all()
