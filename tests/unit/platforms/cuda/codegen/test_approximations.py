"""Functions of this target: 4 units of f32, 1 of bf16 and f16, with approximations at their worst.

The emulator's approximate instructions are off by what NVIDIA documents, so this bounds what is
composed of them.
"""

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.simt.math import angles
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen.approximations import INSTRUCTIONS
from xladev.testing.differential import run_on_platform

BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function of f64."""
    from math import erf as one

    return np.array([one(v) for v in x])


EXACT = {
    "exponential": np.exp,
    "logistic": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
    "tanh": np.tanh,
    "erf": erf,
    "rsqrt": lambda x: np.where(x == 0, np.copysign(np.inf, x), 1 / np.sqrt(x)),
    "log-plus-one": np.log1p,
    "log": np.log,
    "sqrt": np.sqrt,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
}
ANGLES = ("sine", "cosine", "tan")
SINGLE = (*ANGLES, "exponential", "logistic", "tanh", "erf", "rsqrt", "log-plus-one")
NARROW = (*SINGLE, "log", "sqrt")


def found(opcode: str, dtype: str, x: np.ndarray, platform: str) -> np.ndarray:
    """What the platform computes of a vector."""
    text = (
        f"ENTRY e {{ x = {dtype}[{x.size}] parameter(0)\n ROOT r = {dtype}[{x.size}] {opcode}(x) }}"
    )
    (result,) = run_on_platform(parse_module(text), [x], platform)
    return result


def in_units(got: np.ndarray, want: np.ndarray, bits: int, least: int) -> np.ndarray:
    """Distance from f64 results in units in the last place; special values must agree.

    Args:
        got: results.
        want: what they should be.
        bits: of the mantissa, the leading one not counted.
        least: exponent of the smallest normal number.
    """
    wide = got.astype(np.float64)
    assert np.array_equal(np.isnan(wide), np.isnan(want))
    kind = got.dtype
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(want.astype(kind).astype(np.float64))
    exponent = np.where(want == 0, least, exponent - 1)  # frexp calls that of 0 zero
    unit = np.ldexp(1.0, np.maximum(exponent, least) - bits)
    with np.errstate(invalid="ignore"):
        return np.where((wide == want) | np.isnan(want), 0, np.abs(wide - want) / unit)


def samples(seed: int) -> np.ndarray:
    """f32 of all magnitudes, more of them between 1e-3 and 100, and the special ones."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(np.log(1e-3), np.log(110), 60_000)) * rng.choice([-1, 1], 60_000)
    bits = rng.integers(0, 2**32, 20_000, np.uint32).view(np.float32)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 88.72, 88.73, -103.9]
    return np.concatenate([size.astype(np.float32), bits, np.float32(special)])


@pytest.mark.parametrize("opcode", SINGLE)
def test_f32_is_within_4_units(opcode, emulated, seed):
    x = samples(seed)
    with np.errstate(all="ignore"):
        want = EXACT[opcode](x.astype(np.float64))
        want = np.where(np.abs(want) >= 2.0**128 * (1 - 2.0**-25), np.copysign(np.inf, want), want)
    units = in_units(found(opcode, "f32", x, emulated), want, 23, -126)
    worst = int(np.argmax(units))
    assert units[worst] <= 4, f"{units[worst]} units at {x[worst]!r}"


@pytest.mark.parametrize("dtype", [BF16, F16], ids=["bf16", "f16"])
@pytest.mark.parametrize("opcode", NARROW)
def test_every_narrow_number_is_within_one_unit(opcode, dtype, emulated):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        want = EXACT[opcode](x.astype(np.float64))
        rounded = want.astype(dtype).astype(np.float64)
        want = np.where(np.isinf(rounded), rounded, want)
    bits, least = (7, -126) if dtype == BF16 else (10, -14)
    got = found(opcode, "bf16" if dtype == BF16 else "f16", x, emulated)
    units = in_units(got, want, bits, least)
    worst = int(np.argmax(units))
    assert units[worst] <= 1, f"{units[worst]} units at {x[worst]!r}"


@pytest.mark.parametrize("opcode", ["exponential", "logistic", "tanh", "rsqrt"])
def test_no_branch_and_no_precise_division(opcode):
    text = f"ENTRY e {{ x = f32[4096] parameter(0)\n ROOT r = f32[4096] {opcode}(x) }}"
    ptx = ptx_of(text)
    assert "div.rn" not in ptx
    assert any(i in ptx for i in INSTRUCTIONS.values())


def test_narrow_arithmetic_is_done_two_at_a_time():
    text = """ENTRY e { x = bf16[4096] parameter(0)
  y = bf16[4096] multiply(x, x)
  ROOT r = bf16[4096] add(y, x) }"""
    ptx = ptx_of(text)
    assert ptx.count("mul.rn.bf16x2") == ptx.count("add.rn.bf16x2") == 4
    assert "cvt" not in ptx.replace("cvta", "").replace("cvt.u64", "")


def test_the_model_is_as_wrong_as_documented(emulated):
    x = np.linspace(0.5, 100, 50_000).astype(BF16).astype(np.float32)
    got = found("rsqrt", "f32", x, emulated).astype(np.float64)
    off = np.abs(got * np.sqrt(x.astype(np.float64)) - 1)
    assert 0.8 * 2.0**-22.9 < off.max() <= 2.0**-22.9 + 2.0**-24


def near_multiples(count: int) -> np.ndarray:
    """f32 that are as near to multiples of pi/2 as can be, small and large, of all exponents."""
    k = np.unique(np.exp(np.linspace(0, np.log(2.0**60), count)).astype(np.int64))
    near = (k.astype(np.float64) * (np.pi / 2)).astype(np.float32)
    powers = np.ldexp(np.float32(1.5), np.arange(-20, 127)).astype(np.float32)
    worst = np.float32([16367173.0 * 2.0**72, 13176795.0, 36.32, 65535.99, 65536.0, 3.4028235e38])
    return np.concatenate([near, np.nextafter(near, np.float32(np.inf)), powers, worst, -near])


@pytest.mark.parametrize("opcode", ANGLES)
def test_angles_near_multiples_and_large_ones(opcode, emulated):
    x = near_multiples(20_000)
    units = in_units(found(opcode, "f32", x, emulated), EXACT[opcode](x.astype(float)), 23, -126)
    worst = int(np.argmax(units))
    assert units[worst] <= 4, f"{units[worst]} units at {x[worst]!r}"


@pytest.mark.parametrize("opcode", ["sine", "cosine"])
def test_another_part_of_pi_is_found(opcode, emulated, monkeypatch):
    monkeypatch.setattr(angles, "_HALF_PI", (*angles._HALF_PI[:2], 0.0))
    monkeypatch.setattr(angles, "_WORDS", (*angles._WORDS[:3], 0, *angles._WORDS[4:]))
    x = near_multiples(3_000)
    want = EXACT[opcode](x.astype(float))
    units = in_units(found(opcode, "f32", x, emulated), want, 23, -126)
    assert (units[np.abs(x) < 2.0**16].max() > 4) or (units[np.abs(x) >= 2.0**16].max() > 4)
