"""Singular values of many small matrices at once, one in each lane: one-sided Jacobi rotations.

Hestenes's method (Golub and Van Loan, Matrix Computations, 8.6): columns of A V are turned in pairs
until all are orthogonal; their lengths are the singular values. Matrices that are wide are taken
as their transposes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import I64, Value
from xladev.platforms.cpu.codegen.lapack.lanes import Lanes, Matrix, OneGroup
from xladev.platforms.cpu.codegen.lapack.lanes_eigen import MOST_SWEEPS, rotation, turned
from xladev.platforms.cpu.codegen.lapack.movement import call_fill
from xladev.platforms.cpu.codegen.lapack.one_matrix import NOT_FINITE
from xladev.platforms.cpu.codegen.lapack.options import Options

_ORTHOGONAL: Mapping[str, float] = MappingProxyType({"float": 2.0**-21, "double": 2.0**-50})
"""Cosine of two columns that rounding of 16 products may leave."""
_NOTHING: Mapping[str, float] = MappingProxyType({"float": 2.0**-100, "double": 2.0**-900})
"""Square of the length of a column that has no direction, beside elements of 1."""
_LEAST: Mapping[str, float] = MappingProxyType({"float": 2.0**-120, "double": 2.0**-1000})
"""Size of an element that can be divided by."""


def is_thin(o: Options) -> bool:
    """Whether no vectors are wanted beside those of singular values."""
    return o.mode != "A" or o.rows == o.columns


def emit_gesdd_lanes(g: OneGroup, o: Options) -> None:
    """As `spectra.emit_gesdd`, of what `is_thin` takes."""
    kept, values, u, vt, info = g.results
    rows, columns, count = o.rows, o.columns, min(o.rows, o.columns)
    w = g.gathered(g.operands[0], rows * columns)
    v, found = g.lines(count * count), g.lines(count)
    # V* of tall matrices is row-major, and so is U of wide ones, which is V of the transpose.
    strides = (columns, 1, 1, count) if rows >= columns else (1, columns, count, 1)
    g.call("gesdd", _emit_gesdd, w, v, found, info, *strides, max(rows, columns), count)
    g.scatter(values, found, count)
    g.b.copy_bytes(kept, g.operands[0], g.lanes * rows * columns * g.nbytes)
    left, right = (w, v) if rows >= columns else (v, w)
    for place, lines, size in ((u, left, o.sizes[2]), (vt, right, o.sizes[3])):
        if o.mode == "N":
            call_fill(g.b, place, g.lanes * size * g.nbytes // 4, (0,))
        else:
            g.scatter(place, lines, size)


def _emit_gesdd(v: Lanes, a: tuple[Value, ...]) -> None:
    base, other, values, info, *strides, rows, count = a
    b = v.b
    w, q = Matrix(v, base, *strides[:2]), Matrix(v, other, *strides[2:])
    size, is_bad = _begin(v, w, q, rows, count)
    _sweeps(v, w, q, rows, count)
    _lengths(v, w, values, rows, count)
    _sort(v, (w, rows), (q, count), values, count)
    _directions(v, w, values, rows, count)
    nan = v.number(float("nan"))
    with b.loop(0, count) as j:
        length = b.fmul(b.sqrt(v.load(values, j)), size)
        v.store(b.select(is_bad, nan, length), values, j)
        for matrix, extent in ((w, rows), (q, count)):
            with b.loop(0, extent) as i:
                matrix.set(i, j, b.select(is_bad, nan, matrix.get(i, j)))
    failed = b.select(is_bad, v.count(NOT_FINITE), v.count(0))
    v.store_counts(failed, info, b.const(I64, 0))


def _begin(v: Lanes, w: Matrix, q: Matrix, rows: Value, count: Value) -> tuple[Value, Value]:
    """Scales to elements of 1 at most, and makes V a unit matrix; the scale, and what is bad."""
    b = v.b
    zero, one = v.number(0.0), v.number(1.0)
    with b.carried_loop(0, count, initial=(zero, zero)) as columns:
        j = columns.index
        with b.carried_loop(0, rows, initial=columns.values) as each:
            largest, sums = each.values
            x = w.get(each.index, j)
            size = b.fabs(x)
            larger = b.select(b.fcmp("ogt", size, largest), size, largest)
            each.carry(larger, b.multiply_add(x, zero, sums))
        columns.carry(*each.values)
        with b.loop(0, count) as i:
            q.set(i, j, b.select(b.splat(b.icmp("eq", i, j), v.type.lanes), one, zero))
    largest, sums = columns.values
    is_small = b.fcmp("olt", largest, v.number(_LEAST[v.element.element]))
    size = b.select(is_small, one, largest)
    scale = b.fdiv(one, size)
    with b.loop(0, count) as j, b.loop(0, rows) as i:
        w.set(i, j, b.fmul(w.get(i, j), scale))
    return size, b.fcmp("uno", sums, sums)


def _sweeps(v: Lanes, w: Matrix, q: Matrix, rows: Value, count: Value) -> None:
    """Sweeps over all pairs of columns, until one turns nothing in any matrix."""
    b = v.b

    def goes_on(state: Sequence[Value]) -> Value:
        return b.and_(b.icmp("ne", state[1], 0), b.icmp("slt", state[0], MOST_SWEEPS))

    def sweep(state: Sequence[Value]) -> Sequence[Value]:
        with b.carried_loop(0, count, initial=(v.count(0),)) as first:
            start = b.add(first.index, 1)
            with b.carried_loop(start, count, initial=first.values) as second:
                turns = _turn(v, (w, rows), (q, count), first.index, second.index)
                one = b.select(turns, v.count(1), v.count(0))
                second.carry(b.or_(second.values[0], one))
            first.carry(*second.values)
        any_ = b.any(b.icmp("ne", first.values[0], v.count(0)))
        return b.add(state[0], 1), b.resize(any_, I64, signed=False)

    b.while_loop((b.const(I64, 0), b.const(I64, 1)), goes_on, sweep)


def _turn(
    v: Lanes, columns: tuple[Matrix, Value], vectors: tuple[Matrix, Value], p: Value, r: Value
) -> Value:
    """Makes two columns orthogonal, where they are not; in which lanes that was."""
    b, (w, rows) = v.b, columns
    zero = v.number(0.0)
    with b.carried_loop(0, rows, initial=(zero, zero, zero)) as loop:
        x, y = w.get(loop.index, p), w.get(loop.index, r)
        first, second, both = loop.values
        loop.carry(
            b.multiply_add(x, x, first), b.multiply_add(y, y, second), b.multiply_add(x, y, both)
        )
    first, second, both = loop.values
    lengths = b.fmul(b.sqrt(first), b.sqrt(second))
    turns = b.fcmp("ogt", b.fabs(both), b.fmul(lengths, v.number(_ORTHOGONAL[v.element.element])))
    c, s, _ = rotation(v, first, second, b.select(turns, both, zero))
    with b.when(b.any(turns)):
        for matrix, extent in ((w, rows), vectors):
            with b.loop(0, extent) as i:
                left, right = turned(v, c, s, matrix.get(i, p), matrix.get(i, r))
                matrix.set(i, p, left)
                matrix.set(i, r, right)
    return turns


def _lengths(v: Lanes, w: Matrix, values: Value, rows: Value, count: Value) -> None:
    """Squares of the columns' lengths."""
    with v.b.loop(0, count) as j:
        with v.sum(0, rows, v.number(0.0)) as total:
            x = w.get(total.index, j)
            total.after = v.b.multiply_add(x, x, total.before)
        v.store(total.total, values, j)


def _sort(
    v: Lanes,
    columns: tuple[Matrix, Value],
    vectors: tuple[Matrix, Value],
    values: Value,
    count: Value,
) -> None:
    """Lengths descending, with their columns: neighbours change places, ``count`` times."""
    b = v.b
    with b.loop(0, count) as turn, b.loop(b.and_(turn, 1), b.sub(count, 1), 2) as i:
        after = b.add(i, 1)
        x, y = v.load(values, i), v.load(values, after)
        less = b.fcmp("olt", x, y)
        v.store(b.select(less, y, x), values, i)
        v.store(b.select(less, x, y), values, after)
        with b.when(b.any(less)):
            for matrix, extent in (columns, vectors):
                with b.loop(0, extent) as k:
                    left, right = matrix.get(k, i), matrix.get(k, after)
                    matrix.set(k, i, b.select(less, right, left))
                    matrix.set(k, after, b.select(less, left, right))


def _directions(v: Lanes, w: Matrix, values: Value, rows: Value, count: Value) -> None:
    """Columns of length 1; those that have no direction get one that no other has."""
    b, one = v.b, v.number(1.0)
    with b.loop(0, count) as j:
        square = v.load(values, j)
        is_nothing = b.fcmp("ole", square, v.number(_NOTHING[v.element.element]))
        scale = b.fdiv(one, b.sqrt(b.select(is_nothing, one, square)))
        with b.loop(0, rows) as i:
            w.set(i, j, b.fmul(w.get(i, j), scale))
        with b.when(b.any(is_nothing)):
            place = _freest_row(v, w, rows, j)
            with b.loop(0, rows) as i:
                is_there = b.icmp("eq", place, v.counts_of(i))
                unit = b.select(is_there, one, v.number(0.0))
                w.set(i, j, b.select(is_nothing, unit, w.get(i, j)))
            for _ in range(2):
                _orthogonalise(v, w, rows, j, is_nothing)


def _freest_row(v: Lanes, w: Matrix, rows: Value, j: Value) -> Value:
    """The row in which the columns before have least: a unit vector there has most besides them."""
    b, zero = v.b, v.number(0.0)
    initial = (v.count(0), v.number(float("inf")))
    with b.carried_loop(0, rows, initial=initial) as loop:
        with v.sum(0, j, zero) as total:
            x = w.get(loop.index, total.index)
            total.after = b.multiply_add(x, x, total.before)
        place, least = loop.values
        less = b.fcmp("olt", total.total, least)
        loop.carry(
            b.select(less, v.counts_of(loop.index), place), b.select(less, total.total, least)
        )
    return loop.values[0]


def _orthogonalise(v: Lanes, w: Matrix, rows: Value, j: Value, where: Value) -> None:
    """Takes the columns before out of column j, and makes its length 1, in some lanes."""
    b, zero = v.b, v.number(0.0)
    with b.loop(0, j) as k:
        with v.sum(0, rows, zero) as product:
            x = w.get(product.index, k)
            product.after = b.multiply_add(x, w.get(product.index, j), product.before)
        amount = b.select(where, b.fneg(product.total), zero)
        with b.loop(0, rows) as i:
            w.set(i, j, b.multiply_add(amount, w.get(i, k), w.get(i, j)))
    with v.sum(0, rows, zero) as total:
        x = w.get(total.index, j)
        total.after = b.multiply_add(x, x, total.before)
    scale = b.select(where, b.fdiv(v.number(1.0), b.sqrt(total.total)), v.number(1.0))
    with b.loop(0, rows) as i:
        w.set(i, j, b.fmul(w.get(i, j), scale))
