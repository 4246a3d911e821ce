"""Triangular and tridiagonal systems."""

from __future__ import annotations

from xladev.codegen.llvm import DOUBLE, FLOAT, Value
from xladev.platforms.cpu.codegen.lapack.factors import OTHER
from xladev.platforms.cpu.codegen.lapack.one_matrix import OneMatrix
from xladev.platforms.cpu.codegen.lapack.options import Options

_OTHER_SIDE = {"L": "R", "R": "L"}


def emit_trsm(m: OneMatrix, o: Options) -> None:
    """x with op(a) x = b or x op(a) = b: of the transposes, the other side and triangle."""
    (a, b), (x,) = m.operands, m.results
    rows, columns = o.sides
    m.copy(x, b, rows * columns)
    how = _OTHER_SIDE[o.side], OTHER[o.uplo], o.trans, o.diag
    m.call("trsm", *how, columns, rows, _one(m), a, o.columns, x, columns)


def _one(m: OneMatrix) -> Value:
    """Address of the element 1."""
    type_ = FLOAT if m.letter in "sc" else DOUBLE
    bits = 0x3F800000 if type_ == FLOAT else 0x3FF0000000000000
    return m.words(f"one.{type_.mangled}", (bits, 0))


def emit_gtsv(m: OneMatrix, o: Options) -> None:
    """The diagonals as they came, x, info. The first of the lower one is no element."""
    (below, diagonal, above, b), (*kept, x, info) = m.operands, m.results
    (n, sides) = o.sides
    diagonals = (below, diagonal, above)
    works = [m.elements(n) for _ in diagonals]
    for work, source in zip(works, diagonals, strict=True):
        m.copy(work, source, n)
    lower = m.b.byte_address(works[0], m.nbytes)
    matrix = m.transposed(b, n, sides)
    m.call("gtsv", n, sides, lower, works[1], works[2], matrix, n, info)
    m.transpose(x, matrix, sides, n)
    for result, source in zip(kept, diagonals, strict=True):
        m.copy(result, source, n)
