"""Mathematical functions: element types, special values, accuracy against mpmath."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run
from xladev.hlo.ops.functions import OPS

INF, NAN = np.inf, np.nan
REFERENCE: dict[str, Callable[[Any], Any]] = {
    "acos": mpmath.acos,
    "acosh": mpmath.acosh,
    "asin": mpmath.asin,
    "asinh": mpmath.asinh,
    "atanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "cosine": mpmath.cos,
    "sine": mpmath.sin,
    "tan": mpmath.tan,
    "cosh": mpmath.cosh,
    "sinh": mpmath.sinh,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "exponential": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "exponential-minus-one": lambda x: mpmath.exp(x) - 1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "log-plus-one": lambda x: mpmath.log(1 + x),
    "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}
COMPLEX = {n: f for n, f in REFERENCE.items() if n not in ("erf", "cbrt")}
COMPLEX["cbrt"] = lambda z: mpmath.exp(mpmath.log(z) / 3)


def spread(rng: np.random.Generator, count: int) -> np.ndarray:
    """Numbers around 1, and much larger and smaller ones."""
    return np.concatenate([rng.normal(size=count) * scale for scale in (1, 1e-4, 30, 1e-20)])


def ulps(got: float, want: Any, dtype: Any) -> float:
    """Distance in units of the last place; 0 where the result is not a normal number."""
    info = np.finfo(dtype)
    if isinstance(want, mpmath.mpc) or not mpmath.isfinite(want) or not np.isfinite(got):
        return 0.0
    if abs(want) < info.smallest_normal:
        return 0.0
    return float(abs(mpmath.mpf(float(got)) - want) / (abs(want) * info.eps))


def test_every_function_has_a_reference() -> None:
    assert {op.name for op in OPS} == set(REFERENCE)


@pytest.mark.parametrize("opcode", REFERENCE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_real_accuracy(opcode: str, dtype: Any, seed: int) -> None:
    x = spread(np.random.default_rng(seed), 8).astype(dtype)
    got = run(opcode, x)
    with mpmath.workprec(300):
        errors = [ulps(g, _value(REFERENCE[opcode], v), dtype) for g, v in zip(got, x, strict=True)]
    bound = 1.0 if opcode == "erf" else 0.52
    assert max(errors) <= bound, x[int(np.argmax(errors))]


@pytest.mark.parametrize("opcode", COMPLEX)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_accuracy(opcode: str, dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = (spread(rng, 4) + 1j * rng.permutation(spread(rng, 4))).astype(dtype)
    angle = rng.normal(size=6) * 0.1
    near_circle = (np.exp(1j * angle) - 1).astype(dtype)
    z = np.concatenate([z, near_circle])
    got, real = run(opcode, z), z.real.dtype
    with mpmath.workprec(400):
        for value, result in zip(z, got, strict=True):
            want = mpmath.mpc(COMPLEX[opcode](mpmath.mpc(complex(value))))
            assert ulps(result.real, want.real, real) <= 1, value
            assert ulps(result.imag, want.imag, real) <= 1, value


def test_complex_logistic_near_a_pole() -> None:
    z = np.array([5.9027899362374195e-06 + 3.1455816888583215j, 1e-9 + 3.141592j, -1e-5 - 3.1j])
    with mpmath.workprec(400):
        for value, result in zip(z, run("logistic", z), strict=True):
            want = mpmath.mpc(COMPLEX["logistic"](mpmath.mpc(complex(value))))
            assert ulps(result.real, want.real, z.real.dtype) <= 1, value
            assert ulps(result.imag, want.imag, z.real.dtype) <= 1, value


def _value(function: Callable[[Any], Any], x: float) -> Any:
    try:
        return function(mpmath.mpf(float(x)))
    except (ZeroDivisionError, ValueError):
        return mpmath.nan


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_types_are_rounded_once(dtype: str) -> None:
    narrow = np.dtype(getattr(ml_dtypes, dtype, dtype))
    codes = np.arange(1 << (8 * narrow.itemsize), dtype=f"u{narrow.itemsize}")
    x = codes[:: max(1, codes.size // 512)].view(narrow)
    x = x[np.abs(x.astype(np.float64)) < 5]
    finest, got = np.exp(x.astype(np.longdouble)), run("exponential", x)
    neighbours = np.nextafter(got, narrow.type(0)), np.nextafter(got, narrow.type(240))
    for neighbour in neighbours:
        farther = np.abs(finest - neighbour.astype(np.float64))
        assert np.all(np.abs(finest - got.astype(np.float64)) <= farther)


@pytest.mark.parametrize(
    ("opcode", "x", "want"),
    [
        ("sqrt", [-0.0, -1, INF], [-0.0, NAN, INF]),
        ("rsqrt", [0.0, -0.0, INF, -1], [INF, -INF, 0, NAN]),
        ("log", [0.0, -0.0, -1, INF], [-INF, -INF, NAN, INF]),
        ("log-plus-one", [-1, -2, -0.0], [-INF, NAN, -0.0]),
        ("exponential", [-INF, 1000, NAN], [0, INF, NAN]),
        ("exponential-minus-one", [-INF, -0.0], [-1, -0.0]),
        ("tanh", [INF, -INF, -0.0], [1, -1, -0.0]),
        ("logistic", [INF, -INF, 0, NAN], [1, 0, 0.5, NAN]),
        ("cbrt", [-27, -0.0, INF], [-3, -0.0, INF]),
        ("erf", [INF, -INF, -0.0], [1, -1, -0.0]),
        ("atanh", [1, -1, 2], [INF, -INF, NAN]),
        ("acosh", [1, 0.5], [0, NAN]),
        ("sine", [INF, -0.0], [NAN, -0.0]),
    ],
)
def test_special_values(opcode: str, x: list[float], want: list[float]) -> None:
    got = run(opcode, np.array(x, np.float32))
    np.testing.assert_array_equal(got, np.array(want, np.float32))
    zeros = np.array(want) == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(np.array(want)[zeros]))


def test_complex_tanh_of_an_endless_angle() -> None:
    angles = np.array([complex(0, INF), complex(-0.0, NAN), complex(2, -INF), complex(INF, INF)])
    got = run("tanh", angles)
    np.testing.assert_array_equal(got.real, [NAN, NAN, NAN, 1])
    np.testing.assert_array_equal(got.imag, [NAN, NAN, NAN, 0])
    turned = np.array([complex(z.imag, z.real) for z in angles])
    np.testing.assert_array_equal(run("tan", turned).imag, got.real)


def test_branch_cuts_follow_the_sign_of_zero() -> None:
    for zero, sign in ((0.0, 1), (-0.0, -1)):
        z = np.complex128(complex(-1, zero))
        assert run("sqrt", z) == complex(0, sign)
        assert run("log", z).imag == sign * np.pi


def test_element_types() -> None:
    for op in OPS:
        name = op.name.replace("-", "_")
        assert result_of(op.name, "bf16[2,<=3]") == "bf16[2,<=3]"
        assert_rejected(f"{name}_c2", op.name, "s32[2]")
        assert_rejected(f"{name}_c1", op.name, "token")
    assert_rejected("erf_c2", "erf", "c64[2]")
