"""Emulated cuBLASLt and cuBLAS: the rules that their manuals state, and NumPy's products.

Statuses as the libraries give them: a layout whose columns overlap is an invalid value, types that
do not go together are not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from xladev.platforms.cuda.driver.emulated_calls import Array, Buffers, Emulation
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.driver.tf32 import cut_to_tf32
from xladev.platforms.cuda.libraries.calls import Matmul, MatrixOperand, TriangularSolve

INVALID = "CUBLAS_STATUS_INVALID_VALUE"
NOT_SUPPORTED = "CUBLAS_STATUS_NOT_SUPPORTED"
_MATMUL = "cublasLtMatmul"
_HEURISTIC = "cublasLtMatmulAlgoGetHeuristic"

_FP8 = ("f8e4m3fn", "f8e5m2")
_COMPUTE: Mapping[str, frozenset[tuple[str, str]]] = MappingProxyType(
    {
        "32F": frozenset({
            ("f32", "f32"), ("c64", "c64"), ("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"),
            ("f16", "f32"), *((a, d) for a in _FP8 for d in ("bf16", "f16", "f32")),
        }),
        "32F_FAST_TF32": frozenset({("f32", "f32"), ("c64", "c64")}),
        "64F": frozenset({("f64", "f64"), ("c128", "c128")}),
        "32I": frozenset({("s8", "s32")}),
    }
)  # fmt: skip
"""Types of operands and result that go together, by what is accumulated in."""
_WIDE: Mapping[str, type] = MappingProxyType(
    {"f64": np.float64, "c128": np.complex128, "c64": np.complex64, "s8": np.int32}
)
_EPILOGUES = ("DEFAULT", "BIAS", "RELU", "RELU_BIAS", "GELU", "GELU_BIAS")


def _check(call: Matmul) -> None:
    for which, matrix in (("A", call.a), ("B", call.b), ("D", call.d)):
        _check_layout(which, matrix, call.batch)
    m, n = call.d.rows, call.d.columns
    k = call.inner
    wanted = ((m, k), (k, n))
    stored = ((call.a, call.transpose_a), (call.b, call.transpose_b))
    for which, (rows, columns), (matrix, transpose) in zip("AB", wanted, stored, strict=True):
        size = (matrix.rows, matrix.columns)
        if (size if transpose == "N" else size[::-1]) != (rows, columns):
            raise LibraryError(_HEURISTIC, INVALID, f"op({which}) is not {rows} x {columns}")
    _check_types(call, (m, n, k))


def _check_layout(which: str, matrix: MatrixOperand, batch: int) -> None:
    if min(matrix.rows, matrix.columns, batch) < 1:
        raise LibraryError(_HEURISTIC, INVALID, f"{which} has no elements")
    if matrix.leading < matrix.rows:
        why = f"leading dimension {matrix.leading} of {which} is less than {matrix.rows} rows"
        raise LibraryError(_HEURISTIC, INVALID, why)
    span = (matrix.columns - 1) * matrix.leading + matrix.rows
    if which == "D" and batch > 1 and matrix.stride < span:
        raise LibraryError(_HEURISTIC, INVALID, "matrices of D overlap")


def _check_types(call: Matmul, sizes: tuple[int, int, int]) -> None:
    operand, result = call.a.dtype, call.d.dtype
    both = {operand, call.b.dtype}
    mixed = len(both) > 1 and not both <= set(_FP8)
    if mixed or (operand, result) not in _COMPUTE.get(call.compute, ()):
        why = f"{operand} x {call.b.dtype} -> {result} in {call.compute}"
        raise LibraryError(_HEURISTIC, NOT_SUPPORTED, why)
    if both == {"f8e5m2"}:
        raise LibraryError(_HEURISTIC, NOT_SUPPORTED, "two operands of f8e5m2")
    if call.epilogue not in _EPILOGUES:
        raise LibraryError(_HEURISTIC, INVALID, f"epilogue {call.epilogue}")
    if call.epilogue != "DEFAULT" and result not in ("f32", "bf16", "f16"):
        raise LibraryError(_HEURISTIC, NOT_SUPPORTED, f"epilogue {call.epilogue} of {result}")
    multiple = 16 if both <= set(_FP8) else 4 if operand == "s8" else 1
    leading = (call.a.leading, call.b.leading, call.d.leading)
    if multiple > 1 and (call.transpose_a, call.transpose_b) != ("T", "N"):
        raise LibraryError(_HEURISTIC, NOT_SUPPORTED, f"{operand} wants A transposed, B not")
    if any(n % multiple for n in (*sizes, *leading)):
        why = f"{operand} wants dimensions in multiples of {multiple}"
        raise LibraryError(_HEURISTIC, NOT_SUPPORTED, why)


def _run(call: Matmul, buffers: Buffers) -> None:
    a, b = (
        _operand(buffers, number, matrix, transpose, call.batch)
        for number, matrix, transpose in (
            (0, call.a, call.transpose_a), (1, call.b, call.transpose_b)
        )
    )  # fmt: skip
    place = 3 if call.has_bias else 2
    d = _matrices(buffers, place, call.d, call.batch)
    wide = _WIDE.get(call.a.dtype, np.float32)
    if "TF32" in call.compute:
        a, b = cut_to_tf32(a), cut_to_tf32(b)
    found = np.matmul(a.astype(wide), b.astype(wide))
    if call.has_bias:
        bias = buffers.array(2, call.d.dtype, call.d.rows)
        found = found + bias.astype(wide)[:, None]
    d[...] = _ACTIVATIONS[call.epilogue.removesuffix("_BIAS")](found).astype(d.dtype)


def _operand(
    buffers: Buffers, number: int, matrix: MatrixOperand, transpose: str, batch: int
) -> Array:
    found = _matrices(buffers, number, matrix, batch)
    return found if transpose == "N" else found.swapaxes(1, 2)


def _matrices(buffers: Buffers, number: int, m: MatrixOperand, batch: int) -> Array:
    return buffers.matrices(number, m.dtype, batch, m.rows, m.columns, m.leading, m.stride)


def _gelu(x: Array) -> Array:
    cube = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    made: Array = 0.5 * x * (1 + np.tanh(cube))
    return made


_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "DEFAULT": lambda x: x,
        "BIAS": lambda x: x,
        "RELU": lambda x: np.maximum(x, 0),
        "GELU": _gelu,
    }
)

MATMUL = Emulation(_MATMUL, INVALID, lambda call: 4 if call.has_bias else 3, _check, _run)


def _check_solve(call: TriangularSolve) -> None:
    if min(call.rows, call.columns, call.batch) < 1:
        raise LibraryError("cublasStrsm", INVALID, "there is nothing to solve")


def _run_solve(call: TriangularSolve, buffers: Buffers) -> None:
    order, rows, columns = call.order, call.rows, call.columns
    each = order * order
    a = buffers.matrices(0, call.dtype, call.batch, order, order, order, each)
    b = buffers.matrices(1, call.dtype, call.batch, rows, columns, rows, rows * columns)
    x = buffers.matrices(2, call.dtype, call.batch, rows, columns, rows, rows * columns)
    triangle = np.triu(a) if call.upper else np.tril(a)
    if call.unit:
        triangle = np.where(np.eye(order, dtype=bool), a.dtype.type(1), triangle)
    upper = call.upper == (call.transpose == "N")
    if call.transpose != "N":
        triangle = triangle.swapaxes(1, 2)
        triangle = triangle.conj() if call.transpose == "C" else triangle
    if call.left:
        x[...] = _substituted(triangle, b, upper)
    else:
        turned = _substituted(triangle.swapaxes(1, 2), b.swapaxes(1, 2), not upper)
        x[...] = turned.swapaxes(1, 2)


def _substituted(a: Array, b: Array, upper: bool) -> Array:
    """x of a x = b, row by row; zeros on the diagonal give infinities, as in the library."""
    x = np.array(b)
    order = a.shape[1]
    with np.errstate(all="ignore"):
        for k in reversed(range(order)) if upper else range(order):
            x[:, k] /= a[:, k, k, None]
            rest = slice(0, k) if upper else slice(k + 1, order)
            x[:, rest] -= a[:, rest, k, None] * x[:, k, None]
    return x


TRIANGULAR_SOLVE = Emulation("cublasStrsm", INVALID, lambda call: 3, _check_solve, _run_solve)
