"""Custom calls of LAPACK's routines, by what LAPACK leaves no choice in.

Factors and pivots are compared as they are; of eigenvectors and singular vectors, whose signs are
open, what they make of the matrix again, and what is left of A v - lambda v. Stacks have fewer
matrices than a vector has lanes, and more.
"""

from collections.abc import Callable, Iterator

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import SliceDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import Annotations
from xladev.hlo.shape import Shape, array, tuple_of
from xladev.testing.conformance.case import Case
from xladev.testing.conformance.cells import Node, Template, cells

LETTERS = {dt.F32: "s", dt.F64: "d", dt.C64: "c", dt.C128: "z"}
TYPES = tuple(LETTERS)
LOWER, UPPER = 76, 85
STACKS = {"one": (1,), "few": (3,), "many": (21,)}
Dims = tuple[int, ...]


class Kit:
    """Instructions of one element type, on stacks of one size."""

    def __init__(self, b: HloBuilder, dtype: PrimitiveType, batch: Dims) -> None:
        self.b, self.dtype, self.batch = b, dtype, batch

    def matrix(self, rows: int, columns: int) -> Node:
        return self.b.parameter(self.shape(rows, columns))

    def shape(self, *dims: int, dtype: PrimitiveType | None = None) -> Shape:
        return array(dtype or self.dtype, (*self.batch, *dims))

    def reals(self, *dims: int) -> Shape:
        return self.shape(*dims, dtype=self.dtype.component)

    def call(self, routine: str, shapes: list[Shape], *operands: Node, config: str = "{}") -> Node:
        """The tuple of a routine's results, or its only one."""
        names = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}
        name = names.get(routine, routine) if self.dtype.is_complex else routine
        target = f"lapack_{LETTERS[self.dtype]}{name}_ffi"
        return self.b.op(
            "custom-call", *operands, shape=tuple_of(*shapes) if len(shapes) > 1 else shapes[0],
            custom_call_target=target, note=Annotations(backend_config=config),
        )  # fmt: skip

    def result(self, call: Node, index: int) -> Node:
        return self.b.op("get-tuple-element", call, index=index)

    def adjoint(self, x: Node) -> Node:
        rank = x.shape.rank
        order = (*range(rank - 2), rank - 1, rank - 2)
        turned = self.b.op("transpose", x, dimensions=order)
        if not self.dtype.is_complex:
            return turned
        real, imag = self.b.op("real", turned), self.b.op("imag", turned)
        return self.b.op("complex", real, self.b.op("negate", imag))

    def product(self, x: Node, y: Node) -> Node:
        lead = tuple(range(len(self.batch)))
        left, right = len(lead) + 1, len(lead)
        return self.b.op(
            "dot", x, y, lhs_batch_dims=lead, rhs_batch_dims=lead,
            lhs_contracting_dims=(left,), rhs_contracting_dims=(right,),
        )  # fmt: skip

    def upper(self, x: Node) -> Node:
        """The upper triangle, and zeros."""
        rank, dims = x.shape.rank, x.shape.dims
        rows, columns = (
            self.b.op("iota", shape=array(dt.S32, dims), iota_dimension=n)
            for n in (rank - 2, rank - 1)
        )
        zeros = self.b.constant(np.zeros(dims, self.dtype.np))
        return self.b.op("select", self.b.op("compare", rows, columns, direction="LE"), x, zeros)

    def lower(self, x: Node) -> Node:
        """The lower triangle, and zeros."""
        return self.adjoint(self.upper(self.adjoint(x)))

    def block(self, x: Node, rows: int, columns: int) -> Node:
        """The first rows and columns."""
        dims = (*self.batch, rows, columns)
        return self.b.op("slice", x, slice=tuple(SliceDim(0, n) for n in dims))

    def hermitian(self, n: int) -> Node:
        """A matrix and its adjoint, added: indefinite."""
        x = self.matrix(n, n)
        return self.b.op("add", x, self.adjoint(x))

    def positive(self, n: int) -> Node:
        """Eigenvalues of 1 at least."""
        x = self.matrix(n, n)
        unit = np.broadcast_to(np.eye(n), (*self.batch, n, n)).astype(self.dtype.np)
        return self.b.op("add", self.product(x, self.adjoint(x)), self.b.constant(unit))

    def scaled(self, x: Node, values: Node) -> Node:
        """Columns of a matrix times real numbers."""
        rank = x.shape.rank
        kept = (*range(rank - 2), rank - 1)
        wide = self.b.op("convert", values, shape=values.shape.with_element_type(self.dtype))
        return self.b.op(
            "multiply", x, self.b.op("broadcast", wide, shape=x.shape, dimensions=kept)
        )


Program = Callable[[Kit], Node]


def potrf(uplo: int) -> Program:
    def program(k: Kit) -> Node:
        n = 6
        return k.call("potrf", [k.shape(n, n), k.shape(dtype=dt.S32)], k.positive(n),
                      config=f"{{uplo = {uplo} : ui8}}")  # fmt: skip

    return program


def potrf_fails(k: Kit) -> Node:
    """Info of matrices that are not positive definite from the third row on."""
    signs = np.diag([4.0, 3, -2, 5]).astype(k.dtype.np)
    a = k.b.constant(np.broadcast_to(signs, (*k.batch, 4, 4)).copy())
    found = k.call("potrf", [k.shape(4, 4), k.shape(dtype=dt.S32)], a, config="{uplo = 85 : ui8}")
    return k.result(found, 1)


def getrf(rows: int, columns: int) -> Program:
    def program(k: Kit) -> Node:
        count = min(rows, columns)
        shapes = [k.shape(rows, columns), k.shape(count, dtype=dt.S32), k.shape(dtype=dt.S32)]
        return k.call("getrf", shapes, k.matrix(rows, columns))

    return program


def geqrf(rows: int, columns: int) -> Program:
    def program(k: Kit) -> Node:
        shapes = [k.shape(rows, columns), k.shape(min(rows, columns))]
        return k.call("geqrf", shapes, k.matrix(rows, columns))

    return program


def orgqr(k: Kit) -> Node:
    packed = geqrf(7, 4)(k)
    return k.call("orgqr", [k.shape(7, 4)], k.result(packed, 0), k.result(packed, 1))


def ormqr(left: bool, transpose: bool) -> Program:
    def program(k: Kit) -> Node:
        packed = geqrf(5, 5)(k)
        dims = (5, 3) if left else (3, 5)
        config = f"{{left = {str(left).lower()}, transpose = {str(transpose).lower()}}}"
        c = k.matrix(*dims)
        return k.call("ormqr", [k.shape(*dims)], k.result(packed, 0), k.result(packed, 1), c,
                      config=config)  # fmt: skip

    return program


def qr(rows: int, columns: int, width: int) -> Program:
    """Q* Q and Q R, of the first ``width`` columns of Q."""

    def program(k: Kit) -> Node:
        packed = geqrf(rows, columns)(k)
        vectors, taus = k.result(packed, 0), k.result(packed, 1)
        reflectors = vectors
        if width > columns:
            zeros = np.zeros((*k.batch, rows, width - columns), k.dtype.np)
            reflectors = k.b.op("concatenate", vectors, k.b.constant(zeros),
                                dimensions=(len(k.batch) + 1,))  # fmt: skip
        q = k.call("orgqr", [k.shape(rows, width)], reflectors, taus)
        r = k.upper(k.block(vectors, width, columns))
        return k.b.op("tuple", k.product(k.adjoint(q), q), k.product(q, r))

    return program


def there_and_back(left: bool) -> Program:
    """Q* (Q C), or (C Q) Q*; and the Q* first."""

    def program(k: Kit) -> Node:
        packed = geqrf(6, 5)(k)
        vectors, taus = k.result(packed, 0), k.result(packed, 1)
        dims = (6, 4) if left else (4, 6)
        c = k.matrix(*dims)

        def times(x: Node, transpose: bool) -> Node:
            config = f"{{left = {str(left).lower()}, transpose = {str(transpose).lower()}}}"
            return k.call("ormqr", [k.shape(*dims)], vectors, taus, x, config=config)

        first = times(c, transpose=True)
        return k.b.op("tuple", first, times(first, transpose=False))

    return program


def eigh(n: int, uplo: int) -> Program:
    """Eigenvalues, A V - V diag(lambda) and V* V."""

    def program(k: Kit) -> Node:
        a = k.hermitian(n)
        shapes = [k.shape(n, n), k.reals(n), k.shape(dtype=dt.S32)]
        config = f"{{mode = 86 : ui8, uplo = {uplo} : ui8}}"
        found = k.call("syevd", shapes, a, config=config)
        vectors, values = k.result(found, 0), k.result(found, 1)
        rest = k.b.op("subtract", k.product(a, vectors), k.scaled(vectors, values))
        return k.b.op("tuple", values, rest, k.product(k.adjoint(vectors), vectors))

    return program


def eigh_of_triangle(uplo: int) -> Program:
    """Eigenvalues of the matrix that one triangle stands for; the other one is of another."""

    def program(k: Kit) -> Node:
        keep = k.lower if uplo == LOWER else k.upper
        one, other = k.hermitian(6), k.matrix(6, 6)
        a = k.b.op("add", keep(one), k.b.op("subtract", other, keep(other)))
        shapes = [k.shape(6, 6), k.reals(6), k.shape(dtype=dt.S32)]
        config = f"{{mode = 86 : ui8, uplo = {uplo} : ui8}}"
        return k.result(k.call("syevd", shapes, a, config=config), 1)

    return program


def trsm(left: bool, lower: bool, transpose: str) -> Program:
    """The opcode, of a factor of a positive definite matrix."""

    def program(k: Kit) -> Node:
        factor = k.b.op("cholesky", k.positive(5), lower=lower)
        x = k.matrix(*((5, 3) if left else (3, 5)))
        return k.b.op("triangular-solve", factor, x, left_side=left, lower=lower,
                      unit_diagonal=False, transpose_a=transpose)  # fmt: skip

    return program


def syevd(k: Kit) -> Node:
    """Eigenvalues, and the matrix that their vectors make again."""
    n, a = 6, k.hermitian(6)
    shapes = [k.shape(n, n), k.reals(n), k.shape(dtype=dt.S32)]
    found = k.call("syevd", shapes, a, config="{mode = 86 : ui8, uplo = 76 : ui8}")
    vectors, values = k.result(found, 0), k.result(found, 1)
    again = k.product(k.scaled(vectors, values), k.adjoint(vectors))
    return k.b.op("tuple", values, again, k.result(found, 2))


def gesdd(rows: int, columns: int) -> Program:
    def program(k: Kit) -> Node:
        count = min(rows, columns)
        shapes = [k.shape(rows, columns), k.reals(count), k.shape(rows, count),
                  k.shape(count, columns), k.shape(dtype=dt.S32)]  # fmt: skip
        found = k.call("gesdd", shapes, k.matrix(rows, columns), config="{mode = 83 : ui8}")
        values, left, right = (k.result(found, n) for n in (1, 2, 3))
        again = k.product(k.scaled(left, values), right)
        return k.b.op("tuple", values, again, k.result(found, 4))

    return program


def gesdd_values(k: Kit) -> Node:
    """Without vectors, zeros are in their places."""
    shapes = [k.shape(5, 4), k.reals(4), k.shape(5, 4), k.shape(4, 4), k.shape(dtype=dt.S32)]
    return k.call("gesdd", shapes, k.matrix(5, 4), config="{mode = 78 : ui8}")


def gehrd(k: Kit) -> Node:
    shapes = [k.shape(6, 6), k.shape(5), k.shape(dtype=dt.S32)]
    return k.call("gehrd", shapes, k.matrix(6, 6), config="{low = 1 : i32, high = 6 : i32}")


def sytrd(k: Kit) -> Node:
    shapes = [k.shape(6, 6), k.reals(6), k.reals(5), k.shape(5), k.shape(dtype=dt.S32)]
    return k.call("sytrd", shapes, k.hermitian(6), config="{uplo = 76 : ui8}")


PROGRAMS: dict[str, Program] = {
    "potrf": potrf(LOWER), "potrf-upper": potrf(UPPER), "potrf-fails": potrf_fails,
    "getrf": getrf(6, 6), "getrf-tall": getrf(7, 4), "getrf-wide": getrf(4, 7),
    "geqrf": geqrf(7, 4), "geqrf-wide": geqrf(4, 7), "orgqr": orgqr,
    "qr": qr(7, 4, 4), "qr-square": qr(5, 5, 5), "qr-full": qr(7, 4, 7),
    "ormqr": ormqr(left=True, transpose=True), "ormqr-right": ormqr(left=False, transpose=False),
    "ormqr-there-and-back": there_and_back(left=True),
    "ormqr-right-there-and-back": there_and_back(left=False),
    "syevd": syevd, "eigh": eigh(6, LOWER), "eigh-upper": eigh(6, UPPER),
    "eigh-large": eigh(20, LOWER),
    "eigh-of-lower": eigh_of_triangle(LOWER), "eigh-of-upper": eigh_of_triangle(UPPER),
    "gesdd": gesdd(6, 4), "gesdd-wide": gesdd(4, 6), "gesdd-values": gesdd_values,
    "gehrd": gehrd, "sytrd": sytrd,
}  # fmt: skip


def template(program: Program, batch: Dims) -> Template:
    return lambda b, dtype: program(Kit(b, dtype, batch))


def calls() -> Iterator[Case]:
    for name, program in PROGRAMS.items():
        for stack, batch in STACKS.items():
            types = TYPES if stack != "many" else (dt.F32, dt.F64)
            yield from cells("custom-call", template(program, batch), types=types,
                             suffix=f"-{name}-{stack}")  # fmt: skip


def systems() -> Iterator[Case]:
    """The opcode on stacks: sides, triangles, adjoints."""
    for side in ("left", "right"):
        for triangle in ("lower", "upper"):
            for turn in ("NO_TRANSPOSE", "ADJOINT"):
                program = trsm(side == "left", triangle == "lower", turn)
                word = "" if turn == "NO_TRANSPOSE" else "-adjoint"
                yield from cells("triangular-solve", template(program, STACKS["many"]), types=TYPES,
                                 suffix=f"-{side}-{triangle}{word}")  # fmt: skip


CASES = (*calls(), *systems())
