"""The vector unit's arithmetic against the evaluator's, special values included."""

import ml_dtypes
import numpy as np
import pytest

from xladev.hlo import dtype as dt
from xladev.hlo.numerics import casts, integers
from xladev.hlo.numerics.quantize import reduce_precision
from xladev.hlo.numerics.reals import erf, total_order_key
from xladev.hlo.ops import binary
from xladev.platforms.template_npu.device import functions, isa, numerics

SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, 2147483648.0,
     -2147483649.0, 255.5, 300, -129, 1e-3, 7.25],
    np.float32,
)  # fmt: skip
NUMPY = {
    "pred": np.dtype(bool), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32),
    **{t.name: np.dtype(t.bits) for t in isa.TYPES if not t.is_float and t.name != "pred"},
}  # fmt: skip


def bits(array: np.ndarray) -> np.ndarray:
    """As the scratchpad has it: bf16 as integers."""
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Same bits, or both NaN."""
    a, b = np.asarray(a), np.asarray(b)
    same = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
    return bool(np.all(same | ((a != a) & (b != b))))


def samples(name: str) -> np.ndarray:
    """All kinds of values of a type."""
    dtype = NUMPY[name]
    if name in ("f32", "bf16"):
        return SPECIAL.astype(dtype)
    if name == "pred":
        return np.array([False, True])
    limits = np.iinfo(dtype)
    values = [limits.min, limits.max, limits.max - 1, 0, 1, 2, 3, 7, 31, 33, limits.max // 3]
    return np.array([*values, *([-1, -2, -7] if limits.min else [])], dtype)


@pytest.mark.parametrize("source", NUMPY)
@pytest.mark.parametrize("target", NUMPY)
def test_conversions(source, target):
    values = samples(source)
    type_, result = (isa.TYPES[isa.TYPE_NUMBERS[n]] for n in (source, target))
    got = functions.converted(bits(values), type_, result) if source != target else bits(values)
    with np.errstate(all="ignore"):
        want = casts.convert(values, dt.by_name(target))
    assert equal(np.asarray(got).view(NUMPY[target]), want)


EXACT = {
    "add": binary.add, "sub": binary.subtract, "mul": binary.multiply, "div": binary.divide,
    "rem": binary.remainder, "max": binary.maximum, "min": binary.minimum,
    "shl": integers.shift_left, "shr": integers.shift_right_logical,
    "sar": integers.shift_right_arithmetic, "mulhi": integers.multiply_high,
    "pow": integers.power,
}  # fmt: skip


@pytest.mark.parametrize("function", EXACT)
@pytest.mark.parametrize("name", NUMPY)
def test_binary_functions(function, name):
    number = isa.TYPE_NUMBERS[name]
    run = functions.vector_function("binary", function, number, number)
    if run is None or (function == "pow" and isa.TYPES[number].is_float):
        return
    values = samples(name)
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(values, values))
    out = np.zeros_like(bits(a))
    with np.errstate(all="ignore"):
        run(out, bits(a), bits(b))
        assert equal(out.view(NUMPY[name]), EXACT[function](a, b))


def test_erf_is_within_an_ulp(seed):
    x = np.random.default_rng(seed % 2**32).normal(0, 2, 20000).astype(np.float32)
    x = np.concatenate([x, x * np.float32(1e-5), SPECIAL])
    got, want = numerics.erf(x), erf(x)
    ulp = np.spacing(np.abs(want))
    assert np.all((np.abs(got - want) <= ulp) | np.isnan(want))
    assert np.array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize(
    ("exponent", "mantissa"), [(5, 10), (8, 7), (4, 3), (1, 0), (8, 23), (3, 30)]
)
def test_quantize_is_the_evaluators_reduce_precision(exponent, mantissa, seed):
    patterns = np.random.default_rng(seed % 2**32).integers(0, 2**32, 20000, np.uint32)
    x = np.concatenate([patterns.view(np.float32), SPECIAL, SPECIAL * np.float32(1e-3)])
    with np.errstate(all="ignore"):
        want = reduce_precision(x, exponent, mantissa)
        assert equal(numerics.quantize(x, exponent, mantissa), want)


def test_total_order_is_the_evaluators():
    assert np.array_equal(numerics.total_order_key(SPECIAL), total_order_key(SPECIAL))


@pytest.mark.parametrize("name", ["s8", "u16", "s32"])
def test_bit_counts(name):
    values = samples(name)
    assert np.array_equal(numerics.population_count(values), integers.population_count(values))
    assert np.array_equal(
        numerics.count_leading_zeros(values), integers.count_leading_zeros(values)
    )


def test_integers_round_once_on_their_way_to_bf16():
    values = np.array([2**24 + 2**15 + 1, 2**31 - 1, -(2**25) - 2**16 - 1], np.int32)
    got = numerics.integers_to_bf16(values).view(ml_dtypes.bfloat16)
    assert equal(got, casts.convert(values, dt.BF16))


def test_a_tree_of_lanes_is_the_documented_one():
    lanes = np.array([[1e8, 1, -1e8, 3, 5]], np.float32)
    type_ = isa.TYPES[isa.TYPE_NUMBERS["f32"]]
    first = np.float32(1e8) + np.float32(3)
    second = np.float32(1) + np.float32(5)
    want = (first + np.float32(-1e8)) + second
    assert functions.reduce_lanes("add", type_, lanes)[0] == want
