"""Fused multiply-add and roundings without instructions for them, against exact arithmetic."""

import random
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import compile_function, run
from xladev.codegen.llvm import (
    DOUBLE,
    FLOAT,
    I64,
    PTR,
    VOID,
    IrType,
    ModuleBuilder,
    Parameter,
    TargetTraits,
    vector,
)
from xladev.codegen.llvm.portable import EMITTERS, ROUNDINGS

LACKING = TargetTraits(missing=frozenset(EMITTERS))
TYPES = [(FLOAT, np.float32), (DOUBLE, np.float64)]
IDS = ["f32", "f64"]


def computed(name: str, element: IrType, lanes: int, arrays: list[Any]) -> Any:
    """An intrinsic of arrays, in vectors, by the code that takes its place."""
    module = ModuleBuilder("portable", LACKING)
    parameters = [Parameter(PTR, f"p{n}") for n in range(len(arrays) + 1)]
    b = module.function("kernel", VOID, [*parameters, Parameter(I64, "n")])
    *places, result = b.arguments[:-1]
    kind = vector(element, lanes)
    with b.loop(0, b.arguments[-1], lanes) as at:
        values = [b.load(kind, b.element_address(p, at, element)) for p in places]
        b.store(b.intrinsic(name, *values), b.element_address(result, at, element))
    b.ret()
    assert f"@llvm.{name}." not in str(module)
    out = np.empty_like(arrays[0])
    run(compile_function(module, "kernel"), *arrays, out, arrays[0].size)
    return out


def specials(kind: Any) -> list[float]:
    info = np.finfo(kind)
    some = [0.0, 1.0, 1.5, 3.0, float(info.max), float(info.tiny), float(info.smallest_subnormal),
            float(info.tiny) * 0.75, 1 + float(info.eps), 1 - float(info.epsneg), float("inf"),
            float(info.max) / 2, 0.5, 2.0**-30, float(info.tiny) * 2]  # fmt: skip
    return [s * x for x in some for s in (1, -1)] + [float("nan")]


def random_floats(kind: Any, count: int, seed: int) -> Any:
    """Bit patterns, half of them with exponents near one another."""
    draw = np.random.default_rng(seed)
    bits = np.uint32 if kind is np.float32 else np.uint64
    wild = draw.integers(0, np.iinfo(bits).max, count // 2, bits, endpoint=True).view(kind)
    tame = (draw.standard_normal(count - count // 2) * 2.0 ** draw.integers(-9, 9)).astype(kind)
    return np.concatenate([wild, tame])


def exact_fma(x: float, y: float, z: float, kind: Any) -> float:
    """By rational numbers, rounded once."""
    with np.errstate(all="ignore"):
        plain = float(kind(np.float64(x) * np.float64(y) + np.float64(z)))
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        return plain
    total = Fraction(x) * Fraction(y) + Fraction(z)
    if total == 0:
        return plain if x * y == 0 or z == 0 else 0.0
    return rounded(total, kind)


def rounded(value: Fraction, kind: Any) -> float:
    """To nearest, ties to even, with subnormals."""
    digits, least = (24, -149) if kind is np.float32 else (53, -1074)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    number = round(size / unit) * unit
    sign = -1.0 if value < 0 else 1.0
    if number > Fraction(float(np.finfo(kind).max)):
        return sign * float("inf")
    return sign * float(number)


def bits(x: float) -> str:
    return "nan" if x != x else struct.pack("d", x).hex()


@pytest.mark.parametrize(("element", "kind"), TYPES, ids=IDS)
@pytest.mark.parametrize("lanes", [1, 4])
def test_fma_is_rounded_once(element: IrType, kind: Any, lanes: int) -> None:
    rows = [(x, y, z) for x in specials(kind) for y in specials(kind) for z in specials(kind)]
    draw = random.Random(3)
    rows = draw.sample(rows, 4000)
    for n in range(1000):  # what all but cancels, ties, and results among the subnormals
        x, y = (float(kind(draw.uniform(1, 2) * 2.0 ** draw.randint(-80, 60))) for _ in range(2))
        power = 2.0 ** draw.choice([-60, -30, -1, 0, 1, 20])
        rows.append((x, y, float(kind(-x * y * (power if n % 2 else 1)))))
        tiny = float(np.finfo(kind).tiny)
        rows.append((x * 2.0**-70, tiny * 2.0**20 * y, float(kind(tiny * draw.uniform(-2, 2)))))
    parts = [np.array(column, kind) for column in zip(*rows, strict=True)]
    wild = [random_floats(kind, 4000, seed) for seed in range(3)]
    arrays = [np.concatenate(pair) for pair in zip(parts, wild, strict=True)]
    arrays = [np.ascontiguousarray(a[: a.size // 4 * 4]) for a in arrays]
    got = computed("fma", element, lanes, arrays)
    for x, y, z, g in zip(*arrays, got, strict=True):
        want = exact_fma(float(x), float(y), float(z), kind)
        assert bits(float(g)) == bits(want), (x, y, z)


EXACT: dict[str, Any] = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
         "roundeven": np.rint, "round": lambda x: np.copysign(np.trunc(np.abs(x)) +
         (np.abs(x) - np.trunc(np.abs(x)) >= 0.5), x)}  # fmt: skip


@pytest.mark.parametrize(("element", "kind"), TYPES, ids=IDS)
@pytest.mark.parametrize("name", sorted(ROUNDINGS))
@pytest.mark.parametrize("lanes", [1, 4])
def test_roundings_are_exact(name: str, element: IrType, kind: Any, lanes: int) -> None:
    halves = [n / 4 for n in range(-40, 41)]
    digits = 23 if kind is np.float32 else 52
    large = [s * 2.0 ** (digits + e) + d for e in (-2, -1, 0, 1) for s in (1, -1)
             for d in (-1, -0.5, -0.25, 0, 0.25, 0.5, 1)]  # fmt: skip
    values = np.array([*halves, *large, *specials(kind)], kind)
    values = np.concatenate([values, random_floats(kind, 2000, 1)])
    values = np.ascontiguousarray(values[: values.size // 4 * 4])
    got = computed(name, element, lanes, [values])
    with np.errstate(all="ignore"):
        want = EXACT[name](values)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(("element", "kind"), TYPES, ids=IDS)
@pytest.mark.parametrize("name", ["maximum", "minimum", "maxnum", "minnum"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_the_larger_and_the_smaller(name: str, element: IrType, kind: Any, lanes: int) -> None:
    pairs = [(x, y) for x in specials(kind) for y in specials(kind)][:960]
    x, y = (np.array(column, kind) for column in zip(*pairs, strict=True))
    got = computed(name, element, lanes, [x, y])
    of_numbers = np.fmax if name == "maxnum" else np.fmin
    of_all = np.maximum if name == "maximum" else np.minimum
    want = (of_numbers if name.endswith("num") else of_all)(x, y)
    np.testing.assert_array_equal(got, want)
    zeros = (x == 0) & (y == 0)
    negative = np.signbit(x), np.signbit(y)
    combine = np.logical_and if name.startswith("max") else np.logical_or
    np.testing.assert_array_equal(np.signbit(got)[zeros], combine(*negative)[zeros])


@pytest.mark.parametrize(("element", "kind"), TYPES, ids=IDS)
@pytest.mark.parametrize(("name", "want"), [("fmaximum", np.max), ("fminimum", np.min)])
def test_the_largest_and_the_smallest_lane(
    name: str, want: Any, element: IrType, kind: Any
) -> None:
    module = ModuleBuilder("portable", LACKING)
    b = module.function("kernel", VOID, [Parameter(PTR, "x"), Parameter(PTR, "out")])
    lanes = b.load(vector(element, 8), b.arguments[0])
    b.store(b.intrinsic(f"vector.reduce.{name}", lanes), b.arguments[1])
    b.ret()
    kernel = compile_function(module, "kernel")
    values = np.random.default_rng(4).standard_normal((50, 8)).astype(kind)
    values[7, 3] = np.nan
    out = np.empty(1, kind)
    for row in values:
        run(kernel, np.ascontiguousarray(row), out)
        np.testing.assert_array_equal(out[0], want(row))
