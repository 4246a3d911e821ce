"""Factorisations, solvers and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import (
    Attr,
    AttrKind,
    Cost,
    Evaluation,
    InstructionView,
    OpCall,
    OpDef,
    Tolerance,
)
from xladev.hlo.ops.accumulation import accumulator, rounded
from xladev.hlo.ops.dimension_rules import require_array
from xladev.hlo.ops.triangles import adjoint, cholesky_lower, solve_triangular
from xladev.hlo.shape import UNBOUNDED, Shape, array

_SOLVE = "triangular_solve_options."
_TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


def _check_square(call: OpCall, matrix: Shape, constraint: str) -> None:
    square = matrix.rank >= 2 and (
        matrix.dims[-1] == matrix.dims[-2] or UNBOUNDED in matrix.dims[-2:]
    )
    call.require(square, constraint, f"{matrix} must be square in its last two dimensions")


def _check_inexact(call: OpCall, constraint: str) -> None:
    for shape in call.operands:
        inexact = shape.element_type.is_float or shape.element_type.is_complex
        call.require(inexact, constraint, "operands must be floating-point or complex")


# cholesky


def infer_cholesky(call: OpCall) -> Shape:
    """Shape of the operand.

    Raises:
        ShapeError: ``cholesky_c1`` element type, ``_c2`` and ``_c3`` square matrices.
    """
    require_array(call)
    _check_inexact(call, "cholesky_c1")
    _check_square(call, call.operands[0], "cholesky_c3")
    return call.operands[0].without_layout()


def evaluate_cholesky(
    _: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """The factor of the triangle that ``lower`` names; the other triangle is neither read nor kept.

    The other triangle of the result is zero. A matrix that is not positive definite gives NaN in
    its whole triangle.
    """
    element_type = instruction.shape.element_type
    matrix = operands[0].astype(accumulator(element_type))
    if instruction["lower"]:
        return rounded(cholesky_lower(matrix), element_type)
    return rounded(adjoint(cholesky_lower(adjoint(matrix))), element_type)


def cholesky_cost(result: Shape, operands: tuple[Shape, ...], _: InstructionView) -> Cost:
    """A third of n cubed multiply-adds per matrix."""
    n = result.dims[-1]
    matrices = prod(result.dims[:-2])
    moved = result.nbytes + operands[0].nbytes
    return Cost(flops=matrices * n**3 // 3, transcendentals=matrices * n, bytes_accessed=moved)


# triangular-solve


def infer_triangular_solve(call: OpCall) -> Shape:
    """Shape of the right-hand sides.

    Raises:
        ShapeError: ``triangular_solve_c1`` element types, ``_c2`` ranks and batch dimensions,
            ``_c3`` sizes, ``_c5`` transpose.
    """
    name = "triangular_solve"
    require_array(call)
    _check_inexact(call, f"{name}_c1")
    a, b = call.operands
    same = a.element_type is b.element_type
    call.require(same, f"{name}_c1", "both operands must have the same element type")
    _check_square(call, a, f"{name}_c3")
    batches = a.rank == b.rank and (a.dims[:-2] == b.dims[:-2] or UNBOUNDED in (*a.dims, *b.dims))
    call.require(batches, f"{name}_c2", "both operands must have the same batch dimensions")
    rows = b.dims[-2 if call["left_side"] else -1]
    fits = rows == a.dims[-1] or UNBOUNDED in (rows, a.dims[-1])
    call.require(fits, f"{name}_c3", f"{rows} right-hand rows for a matrix of size {a.dims[-1]}")
    known = call["transpose_a"] in _TRANSPOSES
    call.require(known, f"{name}_c5", f"transpose_a must be one of {', '.join(_TRANSPOSES)}")
    return b.without_layout()


def evaluate_triangular_solve(
    _: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """Solves op(a) x = b, or x op(a) = b; only the triangle that ``lower`` names is read."""
    element_type = instruction.shape.element_type
    wide = accumulator(element_type)
    a, b = (operand.astype(wide) for operand in operands)
    lower = instruction["lower"]
    a = np.tril(a) if lower else np.triu(a)
    if instruction["transpose_a"] == "ADJOINT":
        a = a.conj()
    if instruction["transpose_a"] != "NO_TRANSPOSE":
        a, lower = a.swapaxes(-1, -2), not lower
    if instruction["left_side"]:
        return rounded(solve_triangular(a, b, lower, instruction["unit_diagonal"]), element_type)
    solved = solve_triangular(
        a.swapaxes(-1, -2), b.swapaxes(-1, -2), not lower, instruction["unit_diagonal"]
    )
    return rounded(solved.swapaxes(-1, -2), element_type)


def solve_cost(result: Shape, operands: tuple[Shape, ...], _: InstructionView) -> Cost:
    """n multiply-adds per element of the right-hand sides."""
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    return Cost(flops=result.size * operands[0].dims[-1], bytes_accessed=moved)


# fft

_FFT_TYPES = ("FFT", "IFFT", "RFFT", "IRFFT")
_COMPONENTS: Mapping[PrimitiveType, PrimitiveType] = MappingProxyType(
    {dt.F32: dt.C64, dt.F64: dt.C128, dt.C64: dt.F32, dt.C128: dt.F64}
)


def infer_fft(call: OpCall) -> Shape:
    """Shape of the operand; RFFT keeps n/2 + 1 of the last dimension, IRFFT gives n back.

    Raises:
        ShapeError: ``fft_c1`` type and rank, ``_c2`` element type, ``_c3`` length, ``_c4`` RFFT
            sizes, ``_c5`` IRFFT sizes.
    """
    require_array(call)
    operand, kind, length = call.operands[0], call["fft_type"], tuple(call["fft_length"])
    known = kind in _FFT_TYPES
    call.require(known, "fft_c1", f"fft_type must be one of {', '.join(_FFT_TYPES)}")
    call.require(1 <= len(length) <= 3, "fft_c3", "fft_length must have one to three dimensions")
    call.require(
        len(length) <= operand.rank, "fft_c1", "fft_length has more dimensions than the operand"
    )
    real = kind == "RFFT"
    fits = operand.element_type in ((dt.F32, dt.F64) if real else (dt.C64, dt.C128))
    call.require(fits, "fft_c2", f"{kind} does not take {operand.element_type}")
    _check_lengths(call, operand, kind, length)
    if kind in ("FFT", "IFFT"):
        return operand.without_layout()
    last = length[-1] // 2 + 1 if real else length[-1]
    dims = (*operand.dims[:-1], last)
    return array(_COMPONENTS[operand.element_type], dims, dynamic=operand.dynamic)


def _check_lengths(call: OpCall, operand: Shape, kind: str, length: tuple[int, ...]) -> None:
    wanted = list(length)
    if kind == "IRFFT":
        wanted[-1] = length[-1] // 2 + 1
    constraint = {"RFFT": "fft_c4", "IRFFT": "fft_c5"}.get(kind, "fft_c3")
    found = operand.dims[-len(length) :]
    for size, want in zip(found, wanted, strict=True):
        if size not in (want, UNBOUNDED):
            call.fail(constraint, f"the last dimensions must be {wanted}, not {list(found)}")


_TRANSFORMS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "FFT": np.fft.fftn,
        "IFFT": np.fft.ifftn,
        "RFFT": np.fft.rfftn,
        "IRFFT": np.fft.irfftn,
    }
)


def evaluate_fft(_: Evaluation, instruction: InstructionView, operands: Sequence[Value]) -> Value:
    """The transform over the last dimensions, in f64; inverses divide by the number of points."""
    kind, length = instruction["fft_type"], tuple(instruction["fft_length"])
    shape = instruction.shape
    if 0 in length or not operands[0].size:
        return np.zeros(shape.dims, shape.element_type.np)
    values: Array = operands[0].astype(np.float64 if kind == "RFFT" else np.complex128)
    axes = tuple(range(-len(length), 0))
    result = _TRANSFORMS[kind](values, s=length, axes=axes)
    return np.asarray(result).astype(shape.element_type.np)


def fft_cost(result: Shape, operands: tuple[Shape, ...], instruction: InstructionView) -> Cost:
    """5 n log2(n) flops per transform of n points (half of that for real ones)."""
    points = max(prod(instruction["fft_length"]), 1)
    real = instruction["fft_type"] in ("RFFT", "IRFFT")
    size = max(result.size, operands[0].size)
    flops = size * (points.bit_length() - 1) * 5 // (1 if not real else 2)
    return Cost(flops=flops, bytes_accessed=result.nbytes + operands[0].nbytes)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "cholesky",
        1,
        "Triangular factor of symmetric positive-definite matrices.",
        attrs=(Attr("lower", AttrKind.BOOL, default=False, proto="cholesky_options.lower"),),
        infer=infer_cholesky,
        evaluate=evaluate_cholesky,
        category="linalg",
        tolerance=Tolerance.SOLVER,
        differences=("The other triangle of the result is zero here; HLO leaves it unspecified.",),
        cost=cholesky_cost,
    ),
    OpDef(
        "triangular-solve",
        2,
        "Solves with triangular matrices.",
        attrs=(
            Attr("left_side", AttrKind.BOOL, default=False, proto=_SOLVE + "left_side"),
            Attr("lower", AttrKind.BOOL, default=False, proto=_SOLVE + "lower"),
            Attr("unit_diagonal", AttrKind.BOOL, default=False, proto=_SOLVE + "unit_diagonal"),
            Attr(
                "transpose_a", AttrKind.WORD, default="NO_TRANSPOSE", proto=_SOLVE + "transpose_a"
            ),
        ),
        infer=infer_triangular_solve,
        evaluate=evaluate_triangular_solve,
        category="linalg",
        tolerance=Tolerance.SOLVER,
        cost=solve_cost,
    ),
    OpDef(
        "fft",
        1,
        "Discrete Fourier transform: FFT, IFFT, RFFT, IRFFT.",
        attrs=(
            Attr("fft_type", AttrKind.WORD, required=True),
            Attr("fft_length", AttrKind.INTS, required=True),
        ),
        infer=infer_fft,
        evaluate=evaluate_fft,
        category="linalg",
        tolerance=Tolerance.SOLVER,
        cost=fft_cost,
    ),
)
