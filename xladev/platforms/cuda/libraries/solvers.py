"""Cholesky factors and triangular systems for cuSOLVER and cuBLAS, from row-major to column-major.

A row-major matrix is the transpose of the column-major one in the same memory: lower becomes
upper, and a system that is solved from the left is solved from the right.
"""

from __future__ import annotations

from math import prod

from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cuda.libraries.calls import Cholesky, TriangularSolve

SOLVER_TYPES = frozenset({"f32", "f64", "c64", "c128"})
_TRANSPOSES = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}


def solver_support(i: HloInstruction) -> Support:
    """Whether the libraries have a cholesky or triangular-solve of these types."""
    name = i.shape.element_type.name
    if name not in SOLVER_TYPES:
        return no(f"cuSOLVER has no {i.opcode} of {name}")
    if not i.shape.size:
        return no("there is nothing to solve")
    if i.opcode == "triangular-solve" and i["transpose_a"] not in _TRANSPOSES:
        return no(f"no transpose_a={i['transpose_a']}")
    return YES


def as_cholesky(i: HloInstruction) -> Cholesky:
    """The call that computes a supported cholesky."""
    *batch, order, _ = i.shape.dims
    return Cholesky(i.shape.element_type.name, order, prod(batch), upper=bool(i["lower"]))


def as_triangular_solve(i: HloInstruction) -> TriangularSolve:
    """The call that computes a supported triangular-solve."""
    *batch, down, across = i.shape.dims
    return TriangularSolve(
        i.shape.element_type.name,
        rows=across,
        columns=down,
        left=not i["left_side"],
        upper=bool(i["lower"]),
        transpose=_TRANSPOSES[i["transpose_a"]],
        unit=bool(i["unit_diagonal"]),
        batch=prod(batch),
    )
