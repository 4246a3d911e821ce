"""Recipes for solvers, transforms, normalisation and random bits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import FLOATS, INTEGERS, PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array, tuple_of
from xladev.testing.draw import Dims, Draw, Recipe

_SOLVED = (dt.F32, dt.F64, dt.F32, dt.F64, dt.C64, dt.C128)
_NORMALISED = (dt.F32, dt.F64, dt.BF16, dt.F16)
_RANDOM = [t for t in (*INTEGERS, *FLOATS) if t.bits in (8, 16, 32, 64)]


def _fft(d: Draw) -> HloInstruction:
    kind = d.pick(("FFT", "IFFT", "RFFT", "IRFFT"))
    lengths = tuple(d.pick((1, 2, 3, 4, 5, 8, 12)) for _ in range(d.pick((1, 1, 1, 2, 3))))
    wide = d.chance(0.3)
    real, pair = (dt.F64, dt.C128) if wide else (dt.F32, dt.C64)
    dims = lengths
    if kind == "IRFFT":
        dims = (*lengths[:-1], lengths[-1] // 2 + 1)
    value = d.value(real if kind == "RFFT" else pair, (*d.pick(((), (2,), (1, 3))), *dims))
    return d.op("fft", value, fft_type=kind, fft_length=lengths)


def positive_definite(d: Draw, dtype: PrimitiveType, batch: Dims, size: int) -> HloInstruction:
    """A + 2 n I, which has a Cholesky factor for elements of at most 1."""
    dims = (*batch, size, size)
    root = d.new_value(dtype, dims)
    row = d.op("iota", shape=array(dt.S32, dims), iota_dimension=len(dims) - 2)
    column = d.op("iota", shape=array(dt.S32, dims), iota_dimension=len(dims) - 1)
    diagonal = d.op("compare", row, column, direction="EQ")
    scale = d.builder.constant(2.0 * size, dtype)
    spread = d.op("broadcast", scale, shape=array(dtype, dims), dimensions=())
    bounded = d.op("tanh", root) if not dtype.is_complex else root
    return d.op(
        "add",
        bounded,
        d.op("multiply", spread, d.op("convert", diagonal, shape=array(dtype, dims))),
    )


def _cholesky(d: Draw) -> HloInstruction:
    dtype = d.pick(_SOLVED)
    matrix = positive_definite(d, dtype, d.pick(((), (2,))), d.integer(1, 5))
    return d.op("cholesky", matrix, lower=d.chance(0.5))


def _triangular_solve(d: Draw) -> HloInstruction:
    dtype = d.pick(_SOLVED)
    size, other, left = d.integer(1, 5), d.integer(1, 3), d.chance(0.5)
    batch: Dims = d.pick(((), (2,)))
    matrix = positive_definite(d, dtype, batch, size)
    right = d.value(dtype, (*batch, size, other) if left else (*batch, other, size))
    return d.op(
        "triangular-solve",
        matrix,
        right,
        left_side=left,
        lower=d.chance(0.5),
        unit_diagonal=d.chance(0.2),
        transpose_a=d.pick(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
    )


def _rng_bits(d: Draw) -> HloInstruction:
    algorithm, words = d.pick((("rng_three_fry", 2), ("rng_philox", 3)))
    state = d.value(dt.U64, (words,), exact=True)
    bits = array(d.pick(_RANDOM), d.dims())

    shape = tuple_of(state.shape.without_layout(), bits)
    return d.op("rng-bit-generator", state, shape=shape, algorithm=algorithm)


def _batch_norm(kind: str) -> Recipe:
    def recipe(d: Draw) -> HloInstruction:
        value = d.any_value(_NORMALISED, least_rank=2)
        if 0 in value.shape.dims:
            value = d.new_value(dt.F32, (3, 4))
        feature = d.integer(0, value.shape.rank - 1)
        dtype, dims = value.shape.element_type, (value.shape.dims[feature],)
        attrs: dict[str, Any] = {"epsilon": 0.5, "feature_index": feature}

        def vector() -> HloInstruction:
            return d.value(dtype, dims)

        def positive() -> HloInstruction:
            return d.op("abs", vector())

        if kind == "training":
            return d.op("batch-norm-training", value, vector(), vector(), **attrs)
        if kind == "inference":
            operands = (value, vector(), vector(), vector(), positive())
            return d.op("batch-norm-inference", *operands, **attrs)
        gradient = d.value(dtype, value.shape.dims)
        operands = (value, vector(), vector(), positive(), gradient)
        return d.op("batch-norm-grad", *operands, **attrs)

    return recipe


SOLVERS: Mapping[str, Recipe] = MappingProxyType(
    {
        "fft": _fft,
        "cholesky": _cholesky,
        "triangular-solve": _triangular_solve,
        "rng-bit-generator": _rng_bits,
        "batch-norm-training": _batch_norm("training"),
        "batch-norm-inference": _batch_norm("inference"),
        "batch-norm-grad": _batch_norm("grad"),
    }
)
"""Recipe by opcode."""
