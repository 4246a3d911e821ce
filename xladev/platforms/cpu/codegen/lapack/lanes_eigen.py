"""Eigenvalues of many small symmetric matrices at once, one in each lane: Jacobi's method.

Cyclic by rows (Golub and Van Loan, Matrix Computations, 8.5), until no element beside the diagonal
of any matrix counts; each sweep squares them. Eigenvalues then are put in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import Value
from xladev.platforms.cpu.codegen.lapack.lanes import Lanes, Matrix, OneGroup
from xladev.platforms.cpu.codegen.lapack.one_matrix import NOT_FINITE
from xladev.platforms.cpu.codegen.lapack.options import Options

MOST_SWEEPS = 30
"""Six or seven are enough for matrices of 16 rows."""
_NEGLIGIBLE: Mapping[str, float] = MappingProxyType({"float": 2.0**-27, "double": 2.0**-56})
"""An eighth of a rounding error, of the largest element."""


def emit_syevd_lanes(g: OneGroup, o: Options) -> None:
    """As `spectra.emit_syevd`."""
    vectors, values, info = g.results
    _eigen(g, o, vectors, values, info)


def emit_eigh_lanes(g: OneGroup, o: Options) -> None:
    """As `spectra.emit_eigh`."""
    vectors, values = g.results
    _eigen(g, o, vectors, values, g.lines(1))


def _eigen(g: OneGroup, o: Options, vectors: Value, values: Value, info: Value) -> None:
    n = o.columns
    a = g.gathered(g.operands[0], n * n)
    turned, found = g.lines(n * n), g.lines(n)
    strides = (n, 1) if o.uplo == "L" else (1, n)
    g.call("syevd", _emit_syevd, a, *strides, turned, found, n, info)
    g.scatter(vectors, turned, n * n)
    g.scatter(values, found, n)


def _emit_syevd(v: Lanes, a: tuple[Value, ...]) -> None:
    base, row, column, vectors, values, n, info = a
    b, m, q = v.b, Matrix(v, base, row, column), Matrix(v, vectors, n, 1)
    largest, is_bad = _begin(v, m, q, n)
    least = b.fmul(largest, v.number(_NEGLIGIBLE[v.element.element]))
    _sweeps(v, m, q, n, least)
    with b.loop(0, n) as i:
        v.store(m.get(i, i), values, i)
    _sort(v, q, values, n)
    nan = v.number(float("nan"))
    with b.loop(0, n) as i:
        v.store(b.select(is_bad, nan, v.load(values, i)), values, i)
        with b.loop(0, n) as j:
            q.set(i, j, b.select(is_bad, nan, q.get(i, j)))
    failed = b.select(is_bad, v.count(NOT_FINITE), v.count(0))
    v.store_counts(failed, info, b.const(n.type, 0))


def _begin(v: Lanes, m: Matrix, q: Matrix, n: Value) -> tuple[Value, Value]:
    """Copies the triangle to the other one and makes Q a unit matrix.

    Returns:
        The largest size of an element, and where one is not finite.
    """
    b = v.b
    zero, one = v.number(0.0), v.number(1.0)
    with b.carried_loop(0, n, initial=(zero, zero)) as rows:
        i = rows.index
        with b.carried_loop(0, b.add(i, 1), initial=rows.values) as columns:
            j, (largest, sums) = columns.index, columns.values
            x = m.get(i, j)
            m.set(j, i, x)
            q.set(i, j, zero)
            q.set(j, i, zero)
            size = b.fabs(x)
            larger = b.select(b.fcmp("ogt", size, largest), size, largest)
            columns.carry(larger, b.multiply_add(x, zero, sums))
        rows.carry(*columns.values)
        q.set(i, i, one)
    largest, sums = rows.values
    return largest, b.fcmp("uno", sums, sums)


def _sweeps(v: Lanes, m: Matrix, q: Matrix, n: Value, least: Value) -> None:
    """Sweeps while an element beside a diagonal counts; NaN does not."""
    b = v.b

    def goes_on(state: Sequence[Value]) -> Value:
        with b.carried_loop(0, n, initial=(v.number(0.0),)) as rows:
            with b.carried_loop(0, rows.index, initial=rows.values) as columns:
                size = b.fabs(m.get(rows.index, columns.index))
                most = columns.values[0]
                columns.carry(b.select(b.fcmp("ogt", size, most), size, most))
            rows.carry(*columns.values)
        counts = b.any(b.fcmp("ogt", rows.values[0], least))
        return b.and_(counts, b.icmp("slt", state[0], MOST_SWEEPS))

    def sweep(state: Sequence[Value]) -> Sequence[Value]:
        with b.loop(0, n) as p, b.loop(b.add(p, 1), n) as r:
            _rotate(v, m, q, (p, r, n))
        return (b.add(state[0], 1),)

    b.while_loop((b.const(n.type, 0),), goes_on, sweep)


def _rotate(v: Lanes, m: Matrix, q: Matrix, where: tuple[Value, Value, Value]) -> None:
    """The rotation of rows and columns p and r that makes element (p, r) zero."""
    b, (p, r, n) = v.b, where
    zero = v.number(0.0)
    x, y, z = m.get(p, p), m.get(r, r), m.get(p, r)
    c, s, t = rotation(v, x, y, z)
    with b.loop(0, n) as k:
        left, right = turned(v, c, s, m.get(k, p), m.get(k, r))
        for i, j, value in ((k, p, left), (p, k, left), (k, r, right), (r, k, right)):
            m.set(i, j, value)
        left, right = turned(v, c, s, q.get(k, p), q.get(k, r))
        q.set(k, p, left)
        q.set(k, r, right)
    m.set(p, p, b.fsub(x, b.fmul(t, z)))
    m.set(r, r, b.multiply_add(t, z, y))
    m.set(p, r, zero)
    m.set(r, p, zero)


def rotation(v: Lanes, x: Value, y: Value, z: Value) -> tuple[Value, Value, Value]:
    """Cosine, sine and tangent of the rotation that makes [[x, z], [z, y]] diagonal."""
    b, one = v.b, v.number(1.0)
    is_null = b.fcmp("oeq", z, v.number(0.0))
    theta = b.fdiv(b.fmul(b.fsub(y, x), v.number(0.5)), b.select(is_null, one, z))
    root = b.sqrt(b.multiply_add(theta, theta, one))
    t = b.copysign(b.fdiv(one, b.fadd(b.fabs(theta), root)), theta)
    t = b.select(is_null, v.number(0.0), t)
    c = b.fdiv(one, b.sqrt(b.multiply_add(t, t, one)))
    return c, b.fmul(t, c), t


def turned(v: Lanes, c: Value, s: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """Two elements of a row after a rotation of their columns."""
    b = v.b
    return (
        b.multiply_add(c, x, b.fneg(b.fmul(s, y))),
        b.multiply_add(s, x, b.fmul(c, y)),
    )


def _sort(v: Lanes, q: Matrix, values: Value, n: Value) -> None:
    """Eigenvalues ascending, with their vectors: neighbours change places, n times."""
    b = v.b
    with b.loop(0, n) as turn:
        start = b.and_(turn, 1)
        with b.loop(start, b.sub(n, 1), 2) as i:
            after = b.add(i, 1)
            x, y = v.load(values, i), v.load(values, after)
            larger = b.fcmp("ogt", x, y)
            v.store(b.select(larger, y, x), values, i)
            v.store(b.select(larger, x, y), values, after)
            with b.when(b.any(larger)), b.loop(0, n) as k:
                left, right = q.get(k, i), q.get(k, after)
                q.set(k, i, b.select(larger, right, left))
                q.set(k, after, b.select(larger, left, right))
