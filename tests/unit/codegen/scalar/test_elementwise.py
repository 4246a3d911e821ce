"""The whole table: every elementwise opcode is known, and vectors give what scalars give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.jit import Kernel, binary, every_value, unary
from xladev.codegen.scalar import elementwise, is_elementwise
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import (
    BF16,
    C64,
    C128,
    F4E2M1FN,
    F8E4M3FN,
    F16,
    F32,
    F64,
    PRED,
    S1,
    S4,
    S8,
    S32,
    S64,
    U1,
    U2,
    U8,
    U16,
    U32,
    U64,
    Kind,
    PrimitiveType,
)
from xladev.hlo.ops import binary as binary_ops
from xladev.hlo.ops import choice, conversion, functions
from xladev.hlo.ops import unary as unary_ops

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")

_FAMILIES = (binary_ops, choice, conversion, functions, unary_ops)
_ARITY = {op.name: op.arity for family in _FAMILIES for op in family.OPS}
_TYPES = (
    F32, F64, BF16, F16, F8E4M3FN, F4E2M1FN, S1, S4, S8, S32, S64, U1, U2, U16, U64, PRED, C64,
    C128,
)  # fmt: skip


@pytest.mark.parametrize("opcode", _ARITY)
def test_every_elementwise_opcode_is_known(opcode: str) -> None:
    assert is_elementwise(opcode)


def test_other_opcodes_are_not() -> None:
    assert not is_elementwise("reduce")
    with pytest.raises(UnsupportedError, match="no elementwise code"):
        unary("reduce", F32, np.zeros(1))


def sample(dtype: PrimitiveType, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if dtype.is_complex:
        real, imag = sample(dtype.component, seed), sample(dtype.component, seed + 9)
        return (real + 1j * imag).astype(dtype.np)
    if dtype.host_nbytes <= 2:
        values = every_value(dtype)
        return values[rng.integers(0, len(values), 96)]
    if dtype.is_integral:
        return rng.integers(-(2**63), 2**63, 96).astype(dtype.np)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e30, 2e7, 1e-40, 0.5, 1e5])
    numbers = np.concatenate([rng.normal(size=42) * 10.0 ** rng.uniform(-20, 20, 42), special])
    return rng.permutation(np.concatenate([numbers, rng.normal(size=42)])).astype(dtype.np)


def opcodes(dtype: PrimitiveType) -> Mapping[str, object]:
    tables: dict[Kind, Mapping[str, object]] = {
        Kind.FLOAT: elementwise.FLOAT_EMITTERS,
        Kind.COMPLEX: elementwise.COMPLEX_EMITTERS,
        Kind.PRED: elementwise.PRED_EMITTERS,
    }
    return tables.get(dtype.kind, elementwise.INTEGER_EMITTERS)


@pytest.mark.long
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_vectors_give_what_scalars_give(dtype: PrimitiveType) -> None:
    for opcode in opcodes(dtype):
        operands = [sample(dtype, seed) for seed in range(_ARITY.get(opcode, 1))]
        result = dtype.component if opcode == "abs" else dtype
        types = (dtype,) * len(operands)
        scalar = Kernel(opcode, types, result)(*operands)
        vector = Kernel(opcode, types, result, lanes=4)(*operands)
        numbers = scalar.astype(np.complex128)
        equal = (numbers == vector.astype(np.complex128)) | np.isnan(numbers)
        assert equal.all(), opcode


@pytest.mark.parametrize("dtype", [F32, BF16, S8, PRED, C64, S4], ids=str)
def test_select(dtype: PrimitiveType) -> None:
    x, y = sample(dtype, 0), sample(dtype, 1)
    condition = np.arange(len(x)) % 3 == 0
    for lanes in (1, 4):
        got = Kernel("select", (PRED, dtype, dtype), dtype, lanes=lanes)(condition, x, y)
        want = np.where(condition, x.astype(np.complex128), y.astype(np.complex128))
        np.testing.assert_array_equal(got.astype(np.complex128), want)


@pytest.mark.parametrize("dtype", [F32, F16, S8, U8], ids=str)
def test_clamp(dtype: PrimitiveType) -> None:
    x = np.arange(0, 100, 7).astype(dtype.np)
    low, high = (np.full_like(x, bound) for bound in (10, 60))
    got = Kernel("clamp", (dtype,) * 3, dtype)(low, x, high)
    np.testing.assert_array_equal(got, np.minimum(np.maximum(x, low), high))


def test_clamp_keeps_nan() -> None:
    x = np.array([np.nan, 5, 5], np.float32)
    low = np.array([0, np.nan, 0], np.float32)
    high = np.array([1, 1, np.nan], np.float32)
    assert np.isnan(Kernel("clamp", (F32,) * 3, F32)(low, x, high)).all()


def test_real_imag_complex() -> None:
    z = np.array([1 + 2j, -3 - 4j]).astype(np.complex64)
    np.testing.assert_array_equal(Kernel("real", (C64,), F32)(z), z.real)
    np.testing.assert_array_equal(Kernel("imag", (C64,), F32)(z), z.imag)
    np.testing.assert_array_equal(Kernel("complex", (F32, F32), C64)(z.real, z.imag), z)
    np.testing.assert_array_equal(Kernel("imag", (F32,), F32)(z.real), [0, 0])
    np.testing.assert_array_equal(Kernel("real", (F32,), F32)(z.real), z.real)


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_complex_arithmetic(dtype: PrimitiveType) -> None:
    rng = np.random.default_rng(0)
    x, y = ((rng.normal(size=50) + 1j * rng.normal(size=50)).astype(dtype.np) for _ in range(2))
    np.testing.assert_array_equal(binary("add", dtype, x, y), x + y)
    np.testing.assert_array_equal(binary("subtract", dtype, x, y), x - y)
    np.testing.assert_array_equal(unary("negate", dtype, x), -x)
    limit = 4 * np.finfo(dtype.np).eps
    np.testing.assert_allclose(binary("multiply", dtype, x, y), x * y, rtol=limit, atol=limit)


_SAME_WIDTH = [
    (F32, U32),
    (F64, S64),
    (F16, U16),
    (BF16, F16),
    (F8E4M3FN, U8),
    (S8, U8),
    (C64, U64),
]


@pytest.mark.parametrize(("source", "target"), _SAME_WIDTH, ids=str)
def test_bitcast_convert(source: PrimitiveType, target: PrimitiveType) -> None:
    x = sample(source, 0)
    got = Kernel("bitcast-convert", (source,), target)(x)
    if not np.isnan(x.astype(np.complex128)).any():
        assert got.tobytes() == x.tobytes()
    back = Kernel("bitcast-convert", (target,), source)(got)
    np.testing.assert_array_equal(back.astype(np.complex128), x.astype(np.complex128))


def test_bitcast_convert_of_another_width_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="width"):
        Kernel("bitcast-convert", (F32,), U8)


def test_undefined_combinations_are_refused() -> None:
    for opcode, dtype in (("exponential", S32), ("popcnt", F32), ("floor", C64), ("not", F32)):
        with pytest.raises(UnsupportedError, match=opcode):
            unary(opcode, dtype, np.zeros(1))
    with pytest.raises(UnsupportedError, match="atan2"):
        binary("atan2", S32, np.zeros(1), np.zeros(1))
