"""Factorisations: Cholesky, LU, QR, and products with the Q that its reflectors stand for."""

from __future__ import annotations

from xladev.codegen.llvm import Value
from xladev.platforms.cpu.codegen.lapack.movement import call_exchanges, call_keep_triangle
from xladev.platforms.cpu.codegen.lapack.one_matrix import OneMatrix
from xladev.platforms.cpu.codegen.lapack.options import Options
from xladev.platforms.cpu.lapack.workspace import ARRAY, QUERY, SIZE

OTHER = {"L": "U", "U": "L"}
"""A triangle as LAPACK sees it in the transpose."""


def emit_potrf(m: OneMatrix, o: Options) -> None:
    """The factor in its triangle, what was there in the other; info."""
    (a,), (factor, info) = m.operands, m.results
    _factor(m, factor, a, info, o)


def emit_cholesky(m: OneMatrix, o: Options) -> None:
    """The opcode: zero in the other triangle; NaN where there is no factor."""
    (a,), (factor,) = m.operands, m.results
    info = m.integers(1)
    _factor(m, factor, a, info, o)
    call_keep_triangle(m.b, m.letter, factor, info, o.columns, lower=o.uplo == "L")


def _factor(m: OneMatrix, factor: Value, a: Value, info: Value, o: Options) -> None:
    """L L* = A is U^T conj(U) with U = L^T: the other triangle of the transpose."""
    n = o.columns
    m.copy(factor, a, n * n)
    m.call("potrf", OTHER[o.uplo], n, factor, n, info)


def emit_getrf(m: OneMatrix, o: Options) -> None:
    """Packed factors, pivots from 1, info."""
    packed, pivots, info = m.results
    _lu(m, o, packed, pivots, info)


def emit_lu(m: OneMatrix, o: Options) -> None:
    """Packed factors, pivots from 0, the order of rows."""
    packed, pivots, order = m.results
    _lu(m, o, packed, pivots, m.integers(1))
    call_exchanges(m.b, pivots, min(o.rows, o.columns), order, o.rows)


def _lu(m: OneMatrix, o: Options, packed: Value, pivots: Value, info: Value) -> None:
    (a,) = m.operands
    work = m.transposed(a, o.rows, o.columns)
    m.call("getrf", o.rows, o.columns, work, o.rows, pivots, info)
    m.transpose(packed, work, o.columns, o.rows)


def emit_geqrf(m: OneMatrix, o: Options) -> None:
    """Packed factors, tau."""
    (a,), (packed, taus) = m.operands, m.results
    rows, columns = o.rows, o.columns
    (length,) = m.sizes("geqrf", rows, columns, ARRAY, rows, ARRAY, SIZE, QUERY, ARRAY)
    work, info = m.elements(length), m.integers(1)
    matrix = m.transposed(a, rows, columns)
    m.call("geqrf", rows, columns, matrix, rows, taus, work, length, info)
    m.transpose(packed, matrix, columns, rows)


def emit_geqp3(m: OneMatrix, o: Options) -> None:
    """Packed factors, columns from 1, tau."""
    (a, fixed), (packed, order, taus) = m.operands, m.results
    rows, columns = o.rows, o.columns
    extra = (ARRAY,) if m.is_complex else ()
    (length,) = m.sizes(
        "geqp3", rows, columns, ARRAY, rows, ARRAY, ARRAY, SIZE, QUERY, *extra, ARRAY
    )
    work, info = m.elements(length), m.integers(1)
    reals = (m.reals(2 * columns),) if m.is_complex else ()
    matrix = m.transposed(a, rows, columns)
    m.b.copy_bytes(order, fixed, 4 * columns)
    m.call("geqp3", rows, columns, matrix, rows, order, taus, work, length, *reals, info)
    m.transpose(packed, matrix, columns, rows)


def emit_orgqr(m: OneMatrix, o: Options) -> None:
    """The first columns of Q."""
    (a, taus), (q,) = m.operands, m.results
    rows, columns, count = o.rows, o.columns, o.reflectors
    routine = "ungqr" if m.is_complex else "orgqr"
    (length,) = m.sizes(routine, rows, columns, count, ARRAY, rows, ARRAY, SIZE, QUERY, ARRAY)
    work, info = m.elements(length), m.integers(1)
    matrix = m.transposed(a, rows, columns)
    m.call(routine, rows, columns, count, matrix, rows, taus, work, length, info)
    m.transpose(q, matrix, columns, rows)


def emit_ormqr(m: OneMatrix, o: Options) -> None:
    """Q C, Q* C, C Q or C Q*."""
    (a, taus, c), (product,) = m.operands, m.results
    (rows, columns), count = o.sides, o.reflectors
    routine, adjoint = ("unmqr", "C") if m.is_complex else ("ormqr", "T")
    how = o.side, adjoint if o.transpose else "N"
    sizes = rows, columns, count
    (length,) = m.sizes(
        routine, *how, *sizes, ARRAY, o.rows, ARRAY, ARRAY, rows, SIZE, QUERY, ARRAY
    )
    work, info = m.elements(length), m.integers(1)
    reflectors = m.transposed(a, o.rows, o.columns)
    matrix = m.transposed(c, rows, columns)
    m.call(routine, *how, *sizes, reflectors, o.rows, taus, matrix, rows, work, length, info)
    m.transpose(product, matrix, columns, rows)
