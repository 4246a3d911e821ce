"""Error of complex functions relative to the larger part, in ulp, against mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpc

from tests.unit.codegen.jit import Kernel, binary, unary
from tests.unit.codegen.ulp import ulp
from xladev.hlo.dtype import C64, C128, PrimitiveType

# Opcode -> (reference, largest error allowed in c64, in c128).
_UNARY: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "exponential": (mp.exp, 0.6, 2.0),
    "exp2": (lambda z: mp.exp(z * mp.log(2)), 0.6, 2.5),
    "exponential-minus-one": (lambda z: mp.exp(z) - 1, 0.6, 2.5),
    "log": (mp.log, 0.6, 2.0),
    "log2": (lambda z: mp.log(z) / mp.log(2), 0.6, 2.5),
    "log-plus-one": (lambda z: mp.log(1 + z), 0.6, 2.5),
    "logistic": (lambda z: 1 / (1 + mp.exp(-z)), 0.6, 4.0),
    "sine": (mp.sin, 0.6, 2.5),
    "cosine": (mp.cos, 0.6, 2.5),
    "tan": (mp.tan, 0.6, 3.5),
    "sinh": (mp.sinh, 0.6, 2.5),
    "cosh": (mp.cosh, 0.6, 2.5),
    "tanh": (mp.tanh, 0.6, 3.5),
    "asin": (mp.asin, 0.6, 3.0),
    "acos": (mp.acos, 0.6, 3.0),
    "atan": (mp.atan, 0.6, 2.5),
    "asinh": (mp.asinh, 0.6, 3.0),
    "acosh": (mp.acosh, 0.6, 3.0),
    "atanh": (mp.atanh, 0.6, 2.5),
    "sqrt": (mp.sqrt, 0.6, 1.6),
    "rsqrt": (lambda z: 1 / mp.sqrt(z), 0.6, 2.6),
    "sign": (lambda z: z / abs(z), 0.6, 2.2),
    "cbrt": (lambda z: mp.exp(mp.log(z) / 3), 0.6, 2.6),
}


def sample(dtype: PrimitiveType, count: int, seed: int = 0) -> Any:
    """Everyday numbers, the unit circle, the points 1 and -1, and very unequal parts."""
    rng = np.random.default_rng(seed)

    def normal(scale: Any) -> Any:
        return rng.normal(size=count) * scale

    def wide(reach: float) -> Any:
        return normal(1) * 10.0 ** rng.uniform(-reach, reach, count)

    circle = np.exp(1j * rng.uniform(-4, 4, count)) * (1 + wide(0) * 10.0 ** rng.uniform(-15, 0))
    reach = 25 if dtype is C64 else 150
    parts = [normal(1) + 1j * normal(1), normal(20) + 1j * normal(20), circle]
    parts += [wide(reach) + 1j * wide(reach), wide(3) + 1j * wide(reach)]
    parts += [centre + normal(1e-6) + 1j * normal(1e-6) for centre in (1, -1)]
    return np.concatenate(parts).astype(dtype.np)


def error(got: Any, want: Any) -> float:
    """Largest part of the difference, in ulp of the larger part; 0 where the truth overflows."""
    part = got.real.dtype
    larger = max(abs(want.real), abs(want.imag))
    if larger > float(np.finfo(part).max):
        return 0.0
    if not np.isfinite(got):
        return float("inf")
    off = max(abs(want.real - float(got.real)), abs(want.imag - float(got.imag)))
    return float(off / ulp(larger, part))


def to_mpc(z: Any) -> Any:
    return mpc(float(z.real), float(z.imag))


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
@pytest.mark.parametrize("opcode", _UNARY)
def test_unary_error(opcode: str, dtype: PrimitiveType) -> None:
    reference, *limits = _UNARY[opcode]
    z = sample(dtype, 25)
    if opcode == "exp2":  # beyond this the angle y log(2) is not reduced exactly
        z = z[np.abs(z.imag) < 2.0**28]
    got = unary(opcode, dtype, z)
    with mp.workprec(1400):
        errors = [error(g, mpc(reference(to_mpc(v)))) for g, v in zip(got, z, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= limits[dtype is C128], f"{opcode}({z[worst]!r}) = {got[worst]!r}"


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_divide_error(dtype: PrimitiveType) -> None:
    x = sample(dtype, 80)
    y = np.random.default_rng(7).permutation(sample(dtype, 80, seed=1))
    got = binary("divide", dtype, x, y)
    errors = [error(g, to_mpc(a) / to_mpc(b)) for g, a, b in zip(got, x, y, strict=True) if b != 0]
    assert max(errors) <= (0.6 if dtype is C64 else 3.0)


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_power_error_grows_with_the_logarithm_of_the_result(dtype: PrimitiveType) -> None:
    rng = np.random.default_rng(8)
    x = (rng.normal(size=300) + 1j * rng.normal(size=300)).astype(dtype.np)
    y = (rng.normal(size=300) + 1j * rng.normal(size=300)).astype(dtype.np)
    got = binary("power", dtype, x, y)
    with mp.workprec(300):
        want = [mp.exp(to_mpc(b) * mp.log(to_mpc(a))) for a, b in zip(x, y, strict=True)]
    errors = [error(g, w) for g, w in zip(got, want, strict=True)]
    assert max(errors) <= (0.6 if dtype is C64 else 12.0)


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_magnitude(dtype: PrimitiveType) -> None:
    z = sample(dtype, 100)
    got = Kernel("abs", (dtype,), dtype.component)(z)
    with mp.workprec(1400):
        want = [abs(to_mpc(v)) for v in z]
        errors = [error(g.astype(dtype.np), mpc(w)) for g, w in zip(got, want, strict=True)]
    assert max(errors) <= (0.6 if dtype is C64 else 1.1)


def test_nothing_overflows_on_the_way() -> None:
    huge = np.array([1e308 + 1e308j, -1e308 + 3e307j])
    np.testing.assert_allclose(unary("sqrt", C128, huge), np.sqrt(huge / 4) * 2, rtol=1e-15)
    np.testing.assert_allclose(binary("divide", C128, huge, huge), [1, 1], rtol=1e-15)
    edge = np.array([1.7e308 - 1.7e308j, -1.7e308 + 1j])
    np.testing.assert_allclose(
        unary("cbrt", C128, edge), 2 * np.exp(np.log(edge / 8) / 3), rtol=1e-12
    )
    tiny = np.array([5e-324 + 5e-324j])
    np.testing.assert_allclose(unary("cbrt", C128, tiny), np.exp(np.log(tiny) / 3), rtol=1e-12)
    np.testing.assert_allclose(unary("log", C128, tiny), np.log(tiny), rtol=1e-15)
    np.testing.assert_allclose(unary("log", C128, edge), np.log(edge), rtol=1e-15)
    root = binary("power", C128, edge, np.full(2, 0.5 + 0j))
    np.testing.assert_allclose(root, 2 * np.sqrt(edge / 4), rtol=1e-14)
    fading = binary("power", C128, np.array([2.2e-308j]), np.array([-2.5 + 1e5j]))
    assert (fading == 0).all()
    pole = np.array([1 + 1e-200j, -1 + 5e-324j])
    np.testing.assert_allclose(unary("atanh", C128, pole), np.arctanh(pole), rtol=1e-15)
    near_edge = np.array([709.9 + 1j])
    assert np.isfinite(unary("exponential", C128, near_edge)).all()


def test_special_values() -> None:
    inf, nan = np.inf, np.nan
    zero = np.array([0j, complex(-0.0, 0.0)])
    np.testing.assert_array_equal(
        unary("log", C128, zero), [complex(-inf, 0), complex(-inf, np.pi)]
    )
    np.testing.assert_array_equal(unary("sqrt", C128, zero), [0, 0])
    one, minus = np.array([1 + 0j]), np.array([-1 + 0j])
    assert unary("rsqrt", C128, zero)[0].real == inf
    quotient = binary("divide", C128, one, np.array([0j]))[0]
    assert quotient.real == inf and np.isnan(quotient.imag)
    assert binary("divide", C128, one, np.array([complex(inf, 1)]))[0] == 0
    assert binary("power", C128, zero[:1], np.array([2 + 0j]))[0] == 0
    assert binary("power", C128, zero[:1], zero[:1])[0] == 1
    assert np.isnan(binary("power", C128, zero[:1], minus)[0].real)
    vanished = np.array([complex(-inf, nan), complex(-inf, inf)])
    np.testing.assert_array_equal(unary("exponential", C128, vanished), [0, 0])
    endless = np.array([complex(0, inf), complex(0, nan), complex(1, inf), complex(30, -inf)])
    turned = np.array([complex(z.imag, z.real) for z in endless])
    slopes = np.concatenate([unary("tanh", C128, endless), unary("tan", C128, turned)])
    assert np.isnan(slopes.real).all() and np.isnan(slopes.imag).all()
    np.testing.assert_array_equal(unary("tanh", C128, vanished), [-1, -1])
    less_one = unary("exponential-minus-one", C128, vanished)
    assert np.isnan(less_one.real).all() and np.isnan(less_one.imag).all()
    assert Kernel("abs", (C128,), C128.component)(np.array([complex(inf, nan)]))[0] == inf


def test_signed_zeros_choose_the_side_of_a_branch_cut() -> None:
    above, below = np.array([complex(-4, 0.0)]), np.array([complex(-4, -0.0)])
    assert unary("sqrt", C128, above)[0] == 2j and unary("sqrt", C128, below)[0] == -2j
    two = np.array([complex(2, 0.0), complex(2, -0.0)])
    assert [np.sign(z.imag) for z in unary("asin", C128, two)] == [1, -1]
    assert [np.sign(z.imag) for z in unary("log", C128, np.array([above[0], below[0]]))] == [1, -1]


def test_tiny_imaginary_parts_are_kept() -> None:
    """Where y**2 underflows, the derivative still says what becomes of y."""
    x = np.array([0.0, 0.25, -0.5, 0.75])
    z = x + 1j * np.array([1e-200, -1e-200, 3e-180, 1e-300])
    slope = z.imag / np.sqrt(1 - x * x)
    np.testing.assert_allclose(unary("asin", C128, z).imag, slope, rtol=1e-15)
    np.testing.assert_allclose(unary("acos", C128, z).imag, -slope, rtol=1e-15)
    below = z - 4
    root = np.abs(z.imag) / np.sqrt(4 - x) / 2
    np.testing.assert_allclose(unary("sqrt", C128, below).real, root, rtol=1e-15)
