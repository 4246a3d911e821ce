"""Mutants written by hand of LAPACK's calls: conjugates, strides, stale workspace, lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.planted import function
from tests.mutants.wrong import Plant, WrongBackend, compiled_anew, method
from xladev.codegen.llvm import I64
from xladev.platforms.cpu.codegen.lapack import (
    kernels,
    lanes_eigen,
    lanes_factors,
    lanes_singular,
    spectra,
)
from xladev.platforms.cpu.codegen.lapack.lanes import OneGroup
from xladev.platforms.cpu.codegen.lapack.movement import PARTS
from xladev.platforms.cpu.codegen.lapack.one_matrix import OneMatrix

# Conjugates


def _conjugated(m: Any, source: Any, count: int) -> Any:
    """A copy in workspace whose imaginary parts have the other sign."""
    b, place, part = m.b, m.elements(count), PARTS[m.letter]
    m.copy(place, source, count)
    with b.loop(b.const(I64, 0), b.const(I64, count)) as n:
        at = b.element_address(place, b.add(b.mul(n, 2), 1), part)
        b.store(b.fneg(b.load(part, at)), at)
    return place


def _scales_conjugated(routine: str, position: int) -> Plant:
    """The scales of reflectors, an argument of a routine for complex matrices."""

    def wrong(right: Any, m: Any, called: str, *arguments: Any) -> None:
        given = list(arguments)
        if called == routine:
            count = given[position - 3]
            given[position] = _conjugated(m, given[position], count)
        right(m, called, *given)

    return method(OneMatrix, "call", wrong)


def _hermitian_as_it_is(m: Any, o: Any, vectors: Any, values: Any, info: Any) -> None:
    """A row-major Hermitian matrix, read by columns, is its conjugate."""
    right = m.transpose
    done: list[bool] = []

    def first_copied(destination: Any, source: Any, rows: int, columns: int) -> None:
        if done:
            right(destination, source, rows, columns)
        else:
            m.copy(destination, source, rows * columns)
        done.append(True)

    m.transpose = first_copied
    _eigen(m, o, vectors, values, info)


def _never_adjoint(right: Any, m: Any, called: str, *arguments: Any) -> None:
    if called == "unmqr":
        side, _, *rest = arguments
        arguments = (side, "N", *rest)
    right(m, called, *arguments)


_eigen = spectra._eigen

# Strides


def _one_row_closer(k: Any, array: Any, batch: int, number: Any) -> Any:
    """Matrices of a stack overlap by their last row."""
    dims, distance = array.shape.dims, array.shape.nbytes // batch
    if len(dims) > 2:
        distance -= distance // dims[-2]
    return k.b.byte_address(array.base, k.e.at.value(k.e.at.mul(number, distance)))


def _exchanged(routine: str, first: int) -> Plant:
    """Two strides that follow each other in the arguments of a microkernel change places."""

    def wrong(right: Any, g: Any, name: str, emit: Any, *arguments: Any) -> None:
        given = list(arguments)
        if name == routine:
            given[first : first + 2] = given[first + 1], given[first]
        right(g, name, emit, *given)

    return method(OneGroup, "call", wrong)


def _last_group_again(k: Any, call: Any, begin: Any, end: Any) -> None:
    """What is left over of a stack: the last whole group a second time."""
    last = call.batch // call.lanes - 1
    with k.b.loop(k.e.at.value(begin), k.e.at.value(end)) as number, k.e.scope():
        first = k.b.mul(k.b.intrinsic("smin", number, k.b.const(I64, last)), call.lanes)
        kernels._emit_group(k, call, first)


def _of_half_the_columns(right: Any, m: Any, routine: str, *arguments: Any) -> None:
    """Right sides of LAPACK's triangular systems: only the first ones."""
    if routine == "trsm":
        *before, rows, columns, one, a, lda, x, ldx = arguments
        arguments = (*before, max(rows // 2, 1), columns, one, a, lda, x, ldx)
    right(m, routine, *arguments)


# Workspace that was there before


def _nothing(*_: Any) -> None:
    pass


def _second_is_stale(right: Any, g: Any, source: Any, size: int, nbytes: int = 0) -> Any:
    """The second operand of a group is what its workspace had."""
    if len(g.operands) > 1 and source is g.operands[-1]:
        return g.lines(size)
    return right(g, source, size, nbytes)


def _same_lines(g: Any, count: int) -> Any:
    g.used = max(g.used, count * 64)
    return g._workspace


class _Unwritten:
    """A matrix that keeps what its memory had."""

    def set(self, *_: Any) -> None:
        """Nothing."""


def _begins_anywhere(position: int, right: Callable[..., Any]) -> Callable[..., Any]:
    """The matrix of vectors is not made a unit matrix before it is turned."""

    def wrong(*arguments: Any) -> Any:
        given = list(arguments)
        given[position] = _Unwritten()
        return right(*given)

    return wrong


def _from_nothing(v: Any, a: tuple[Any, ...]) -> None:
    """Q of reflectors, from the reflectors themselves instead of from a unit matrix."""
    _emit_orgqr(v, (a[1], *a[1:]))


def _without_info(g: Any, o: Any, factor: Any, info: Any) -> None:
    """It goes to workspace that nobody reads."""
    _factor(g, o, factor, g.lines(1))


_emit_orgqr = lanes_factors._emit_orgqr
_factor = lanes_factors._factor


def _wrong(name: str, plant: Plant, *cases: str) -> WrongBackend:
    return WrongBackend(name, "cpu", plant, cases=tuple(f"lapack::{case}" for case in cases))


MUTANTS = (
    _wrong("heevd is given the conjugate", function(spectra, "_eigen", _hermitian_as_it_is),
           "*-c64-eigh-one", "*-c128-eigh-few"),
    _wrong("reflectors of ungqr lose their conjugates", _scales_conjugated("ungqr", 5),
           "*-c64-qr-one", "*-c128-qr-few"),
    _wrong("reflectors of unmqr lose their conjugates", _scales_conjugated("unmqr", 7),
           "*-c128-ormqr-*"),
    _wrong("unmqr never takes the adjoint", method(OneMatrix, "call", _never_adjoint),
           "*-c64-ormqr-there-*"),
    _wrong("matrices of a stack are one row closer", function(kernels, "_place", _one_row_closer),
           "*-qr-few", "*-eigh-few"),
    _wrong("systems of LAPACK lack right sides", method(OneMatrix, "call", _of_half_the_columns),
           "triangular-solve-c64-left-*"),
    _wrong("copies before LAPACK are left out", function(OneMatrix, "copy", _nothing),
           "*-potrf-one", "*-c64-left-*"),
    _wrong("results that LAPACK does not write are stale", function(OneMatrix, "clear", _nothing),
           "*-gesdd-values-*"),
    _wrong("what fills no group of small matrices is left out",
           function(kernels, "_part", _last_group_again), "*-potrf-many"),
    _wrong("strides of a small triangle change places", _exchanged("potrf", 1),
           "*-potrf-upper-many"),
    _wrong("strides of small Hermitian matrices change places", _exchanged("syevd", 1),
           "*-eigh-of-*-many"),
    _wrong("strides of small right sides change places", _exchanged("trsm", 4),
           "triangular-solve-f*"),
    _wrong("strides of small singular vectors change places", _exchanged("gesdd", 6),
           "*-gesdd-many", "*-gesdd-wide-many"),
    _wrong("workspaces of small matrices overlap", function(OneGroup, "lines", _same_lines),
           "*-getrf-many"),
    _wrong("scales of small reflectors are stale", method(OneGroup, "gathered", _second_is_stale),
           "*-qr-many"),
    _wrong("eigenvectors of small matrices begin as the workspace was",
           compiled_anew(function(lanes_eigen, "_begin", _begins_anywhere(2, lanes_eigen._begin))),
           "*-eigh-many"),
    _wrong("singular vectors of small matrices begin as the workspace was",
           compiled_anew(
               function(lanes_singular, "_begin", _begins_anywhere(2, lanes_singular._begin))),
           "*-gesdd-many"),
    _wrong("Q of small matrices does not begin as a unit matrix",
           compiled_anew(function(lanes_factors, "_emit_orgqr", _from_nothing)), "*-qr-many"),
    _wrong("info of small matrices is lost", function(lanes_factors, "_factor", _without_info),
           "*-potrf-fails-many"),
)  # fmt: skip
