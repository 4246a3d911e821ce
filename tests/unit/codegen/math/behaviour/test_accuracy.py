"""Largest error of every function, in ulp, against mpmath at 60 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from tests.unit.codegen.jit import binary, unary
from tests.unit.codegen.ulp import error, exact
from xladev.hlo.dtype import F32, F64, PrimitiveType


def _logistic(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _root(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


# Opcode -> (reference, largest error allowed in f32, in f64).
UNARY: dict[str, tuple[Callable[..., Any], float, float]] = {
    "exponential": (mp.exp, 0.8, 1.2),
    "exp2": (lambda x: mpf(2) ** x, 0.51, 1.1),
    "exponential-minus-one": (mp.expm1, 1.3, 2.5),
    "log": (mp.log, 0.8, 1.1),
    "log2": (lambda x: mp.log(x) / mp.log(2), 0.51, 1.8),
    "log-plus-one": (mp.log1p, 0.9, 1.1),
    "logistic": (_logistic, 1.4, 2.2),
    "sqrt": (mp.sqrt, 0.501, 0.501),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), 0.51, 0.51),
    "cbrt": (_root, 0.51, 0.6),
    "sine": (mp.sin, 1.5, 1.0),
    "cosine": (mp.cos, 1.5, 1.0),
    "tan": (mp.tan, 0.51, 2.3),
    "asin": (mp.asin, 0.51, 2.4),
    "acos": (mp.acos, 0.51, 1.5),
    "atan": (mp.atan, 0.51, 2.0),
    "sinh": (mp.sinh, 0.51, 2.0),
    "cosh": (mp.cosh, 0.51, 1.7),
    "tanh": (mp.tanh, 1.8, 2.7),
    "asinh": (mp.asinh, 0.51, 2.2),
    "acosh": (mp.acosh, 0.51, 2.6),
    "atanh": (mp.atanh, 0.51, 2.2),
    "erf": (mp.erf, 1.5, 1.5),
}

_EDGES = (
    0.5, 1.0, 2.0, 0.41421356, 2.4142135, 3.0, 6.0, 8.0, 22.0, 88.7, 88.8, 103.9, 709.7, 710.4,
    745.1, 1e5, 2.0**20, 1e22, 1e-5, 1e-10, 1e-300, 1.5e-308, 1e-310, 5e-324, 1e-45, 1e-40, 1e300,
    1.79e308, 3.4e38, 5.319372648326541e255, 6381956970095103.0 * 2.0**797,
)  # fmt: skip


def sample(dtype: PrimitiveType, count: int) -> Any:
    """Numbers of every binade, numbers of everyday size, edges of ranges with their neighbours."""
    rng = np.random.default_rng(20260801)
    word = np.uint32 if dtype is F32 else np.uint64
    patterns = rng.integers(0, np.iinfo(word).max, count, dtype=word, endpoint=True)
    everyday = rng.normal(size=count) * 10.0 ** rng.uniform(-3, 2.5, count)
    near_one = (1 + rng.normal(size=count) * 10.0 ** rng.uniform(-15, -1, count)) * rng.choice(
        [-1, 1], count
    )
    with np.errstate(over="ignore"):
        edges = np.array([*_EDGES, *(-e for e in _EDGES)]).astype(dtype.np)
        beside = [np.nextafter(edges, dtype.np.type(to)) for to in (np.inf, -np.inf)]
        chosen = [patterns.view(dtype.np), everyday, near_one, edges, *beside]
        numbers = np.concatenate([part.astype(dtype.np) for part in chosen])
    return numbers[np.isfinite(numbers) & (numbers != 0)]


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("opcode", UNARY)
def test_unary_error(opcode: str, dtype: PrimitiveType) -> None:
    reference, *limits = UNARY[opcode]
    x = sample(dtype, 400)
    got = unary(opcode, dtype, x)
    # Reducing 1.8e308 modulo pi takes over 300 digits.
    with mp.workdps(340 if opcode in ("sine", "cosine", "tan") else 60):
        errors = [error(g, exact(reference, v)) for g, v in zip(got, x, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= limits[dtype is F64], f"{opcode}({x[worst]!r}) = {got[worst]!r}"


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_power_error(dtype: PrimitiveType) -> None:
    rng = np.random.default_rng(1)
    x = np.exp(rng.normal(size=1500) * 20).astype(dtype.np)
    reach = 700 if dtype is F64 else 85
    with np.errstate(divide="ignore"):
        y = (rng.uniform(-reach, reach, 1500) / np.log(x.astype(np.float64))).astype(dtype.np)
    got = binary("power", dtype, x, y)
    errors = [error(g, exact(mp.power, a, b)) for g, a, b in zip(got, x, y, strict=True)]
    assert max(errors) <= (0.51 if dtype is F32 else 1.3)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_atan2_error(dtype: PrimitiveType) -> None:
    x = sample(dtype, 300)
    y = np.random.default_rng(2).permutation(x)
    got = binary("atan2", dtype, y, x)
    with mp.workdps(60):
        errors = [error(g, exact(mp.atan2, a, b)) for g, a, b in zip(got, y, x, strict=True)]
    assert max(errors) <= (0.51 if dtype is F32 else 2.0)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_remainder_is_exact(dtype: PrimitiveType) -> None:
    x = sample(dtype, 2000)
    y = np.random.default_rng(3).permutation(x)
    got = binary("remainder", dtype, x, y)
    want = np.fmod(x, y)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.parametrize("opcode", ["sine", "cosine", "tan"])
def test_angles_beside_multiples_of_half_pi(opcode: str) -> None:
    """The nearest f64 to k pi/2: little but the low parts of the reduction is left."""
    rng = np.random.default_rng(5)
    counts = [*range(1, 40), *(int(k) for k in rng.integers(40, 660_000, 400))]
    with mp.workdps(60):
        x = np.array([float(k * mp.pi / 2) for k in counts])
        got = unary(opcode, F64, x)
        reference = UNARY[opcode][0]
        errors = [error(g, exact(reference, v)) for g, v in zip(got, x, strict=True)]
    assert max(errors) <= UNARY[opcode][2]
