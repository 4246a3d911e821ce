"""Factorisations and triangular systems of many small matrices at once, one in each lane.

The unblocked algorithms of LAPACK (potf2, getf2, geqr2, org2r) and forward substitution.
"""

from __future__ import annotations

from xladev.codegen.llvm import Value
from xladev.platforms.cpu.codegen.lapack.lanes import Lanes, Matrix, OneGroup
from xladev.platforms.cpu.codegen.lapack.movement import call_keep_triangle
from xladev.platforms.cpu.codegen.lapack.options import Options

_TINY = {"float": 2.0**-126, "double": 2.0**-1022}

# Cholesky


def emit_potrf_lanes(g: OneGroup, o: Options) -> None:
    """As `factors.emit_potrf`."""
    factor, info = g.results
    _factor(g, o, factor, info)


def emit_cholesky_lanes(g: OneGroup, o: Options) -> None:
    """As `factors.emit_cholesky`."""
    (factor,) = g.results
    n, info = o.columns, g.lines(1)
    _factor(g, o, factor, info)
    with g.b.loop(0, g.lanes) as lane:
        matrix = g.b.byte_address(factor, g.b.mul(lane, n * n * g.nbytes))
        at = g.b.byte_address(info, g.b.mul(lane, 4))
        call_keep_triangle(g.b, g.letter, matrix, at, n, lower=o.uplo == "L")


def _factor(g: OneGroup, o: Options, factor: Value, info: Value) -> None:
    n = o.columns
    lines = g.gathered(g.operands[0], n * n)
    strides = (n, 1) if o.uplo == "L" else (1, n)
    g.call("potrf", _emit_potrf, lines, *strides, n, info)
    g.scatter(factor, lines, n * n)


def _emit_potrf(v: Lanes, a: tuple[Value, ...]) -> None:
    base, row, column, n, info = a
    b, m = v.b, Matrix(v, base, row, column)
    with b.carried_loop(0, n, initial=(v.count(0),)) as columns:
        j, failed = columns.index, columns.values[0]
        with v.sum(0, j, m.get(j, j)) as pivot:
            x = m.get(j, pivot.index)
            pivot.after = b.fsub(pivot.before, b.fmul(x, x))
        bad = b.fcmp("ole", pivot.total, v.number(0.0))
        first = b.and_(bad, b.icmp("eq", failed, v.count(0)))
        columns.carry(b.select(first, v.counts_of(b.add(j, 1)), failed))
        root = b.sqrt(pivot.total)
        m.set(j, j, root)
        scale = b.fdiv(v.number(1.0), root)
        with b.loop(b.add(j, 1), n) as i:
            with v.sum(0, j, m.get(i, j)) as rest:
                product = b.fneg(m.get(i, rest.index))
                rest.after = b.multiply_add(product, m.get(j, rest.index), rest.before)
            m.set(i, j, b.fmul(rest.total, scale))
    v.store_counts(columns.values[0], info, b.const(n.type, 0))


# Triangular systems


def emit_trsm_lanes(g: OneGroup, o: Options) -> None:
    """As `systems.emit_trsm`: forward substitution, by strides of whatever sign."""
    n, (rows, columns) = o.columns, o.sides
    a, x = g.gathered(g.operands[0], n * n), g.gathered(g.operands[1], rows * columns)
    is_left, is_turned = o.side == "L", o.trans != "N"
    row, column = (n, 1) if is_left != is_turned else (1, n)
    is_lower = (o.uplo == "L") == (is_left != is_turned)
    down, along = (columns, 1) if is_left else (1, columns)
    first, start = 0, 0
    if not is_lower:
        first, start = (n - 1) * (n + 1), (n - 1) * down
        row, column, down = -row, -column, -down
    count = columns if is_left else rows
    matrices = g.b.byte_address(a, 64 * first), g.b.byte_address(x, 64 * start)
    unit = int(o.diag == "U")
    g.call("trsm", _emit_trsm, *matrices, row, column, down, along, n, count, unit)
    g.scatter(g.results[0], x, rows * columns)


def _emit_trsm(v: Lanes, a: tuple[Value, ...]) -> None:
    base, right, row, column, down, along, n, count, unit = a
    b, m, x = v.b, Matrix(v, base, row, column), Matrix(v, right, down, along)
    is_unit = b.splat(b.icmp("ne", unit, 0), v.type.lanes)
    with b.loop(0, n) as i:
        pivot = b.select(is_unit, v.number(1.0), m.get(i, i))
        with b.loop(0, count) as k:
            with v.sum(0, i, x.get(i, k)) as rest:
                product = b.fneg(m.get(i, rest.index))
                rest.after = b.multiply_add(product, x.get(rest.index, k), rest.before)
            x.set(i, k, b.fdiv(rest.total, pivot))


# LU


def emit_getrf_lanes(g: OneGroup, o: Options) -> None:
    """As `factors.emit_getrf`."""
    packed, pivots, info = g.results
    rows, columns, count = o.rows, o.columns, min(o.rows, o.columns)
    lines = g.gathered(g.operands[0], rows * columns)
    chosen = g.lines(count)
    g.call("getrf", _emit_getrf, lines, rows, columns, count, chosen, info)
    g.scatter(packed, lines, rows * columns)
    g.scatter(pivots, chosen, count, 4)


def _emit_getrf(v: Lanes, a: tuple[Value, ...]) -> None:
    base, rows, columns, count, chosen, info = a
    b, m = v.b, Matrix(v, base, columns, 1)
    with b.carried_loop(0, count, initial=(v.count(0),)) as steps:
        k, failed = steps.index, steps.values[0]
        after = b.add(k, 1)
        place, pivot = _pivot(v, m, k, rows)
        v.store_counts(b.add(place, 1), chosen, k)
        is_zero = b.fcmp("oeq", pivot, v.number(0.0))
        first = b.and_(is_zero, b.icmp("eq", failed, v.count(0)))
        steps.carry(b.select(first, v.counts_of(after), failed))
        scale = b.fdiv(v.number(1.0), b.select(is_zero, v.number(1.0), pivot))
        with b.loop(after, rows) as i:
            taken = b.icmp("eq", place, v.counts_of(i))
            _exchange(v, m, (k, i), columns, taken)
        with b.loop(after, rows) as i:
            factor = b.fmul(m.get(i, k), scale)
            m.set(i, k, factor)
            against = b.fneg(factor)
            with b.loop(after, columns) as j:
                m.set(i, j, b.multiply_add(against, m.get(k, j), m.get(i, j)))
    v.store_counts(steps.values[0], info, b.const(rows.type, 0))


def _pivot(v: Lanes, m: Matrix, k: Value, rows: Value) -> tuple[Value, Value]:
    """The row of the largest element of column k from row k on, and that element."""
    b = v.b
    first = m.get(k, k)
    initial = (v.counts_of(k), first, b.fabs(first))
    with b.carried_loop(b.add(k, 1), rows, initial=initial) as loop:
        place, found, most = loop.values
        value = m.get(loop.index, k)
        size = b.fabs(value)
        larger = b.fcmp("ogt", size, most)
        loop.carry(
            b.select(larger, v.counts_of(loop.index), place),
            b.select(larger, value, found),
            b.select(larger, size, most),
        )
    return loop.values[0], loop.values[1]


def _exchange(v: Lanes, m: Matrix, pair: tuple[Value, Value], count: Value, taken: Value) -> None:
    """Exchanges two rows in the lanes where it is wanted, if any."""
    b, (above, below) = v.b, pair
    with b.when(b.any(taken)), b.loop(0, count) as j:
        x, y = m.get(above, j), m.get(below, j)
        m.set(above, j, b.select(taken, y, x))
        m.set(below, j, b.select(taken, x, y))


# QR


def emit_geqrf_lanes(g: OneGroup, o: Options) -> None:
    """As `factors.emit_geqrf`."""
    packed, taus = g.results
    rows, columns, count = o.rows, o.columns, min(o.rows, o.columns)
    lines = g.gathered(g.operands[0], rows * columns)
    scales = g.lines(count)
    g.call("geqrf", _emit_geqrf, lines, rows, columns, count, scales)
    g.scatter(packed, lines, rows * columns)
    g.scatter(taus, scales, count)


def _emit_geqrf(v: Lanes, a: tuple[Value, ...]) -> None:
    base, rows, columns, count, taus = a
    b, m = v.b, Matrix(v, base, columns, 1)
    with b.loop(0, count) as k:
        tau = _reflector(v, m, k, rows)
        v.store(tau, taus, k)
        with b.loop(b.add(k, 1), columns) as j:
            _reflect(v, m, (m, k), (j, rows), tau)


def _reflector(v: Lanes, m: Matrix, k: Value, rows: Value) -> Value:
    """Writes beta and the vector of the reflector of column k; its tau (larfg)."""
    b = v.b
    alpha, zero, one = m.get(k, k), v.number(0.0), v.number(1.0)
    after = b.add(k, 1)
    with v.sum(after, rows, zero) as most:
        size = b.fabs(m.get(most.index, k))
        most.after = b.select(b.fcmp("ole", size, most.before), most.before, size)
    largest = b.fabs(alpha)
    largest = b.select(b.fcmp("ole", largest, most.total), most.total, largest)
    is_tiny = b.fcmp("olt", largest, v.number(_TINY[v.element.element]))
    scale = b.fdiv(one, b.select(is_tiny, one, largest))
    with v.sum(after, rows, zero) as squares:
        x = b.fmul(m.get(squares.index, k), scale)
        squares.after = b.multiply_add(x, x, squares.before)
    y = b.fmul(alpha, scale)
    norm = b.sqrt(b.multiply_add(y, y, squares.total))
    beta = b.fneg(b.copysign(b.fmul(norm, b.select(is_tiny, one, largest)), alpha))
    is_null = b.fcmp("oeq", most.total, zero)
    beta = b.select(is_null, alpha, beta)
    divisor = b.select(is_null, one, beta)
    tau = b.select(is_null, zero, b.fdiv(b.fsub(beta, alpha), divisor))
    factor = b.fdiv(one, b.select(is_null, one, b.fsub(alpha, beta)))
    with b.loop(after, rows) as i:
        m.set(i, k, b.fmul(m.get(i, k), factor))
    m.set(k, k, beta)
    return tau


def _reflect(
    v: Lanes, m: Matrix, reflector: tuple[Matrix, Value], where: tuple[Value, Value], tau: Value
) -> None:
    """Applies H = 1 - tau v v^T to column j of ``m``, where v is below 1 in column k."""
    b, (vectors, k), (j, rows) = v.b, reflector, where
    after = b.add(k, 1)
    with v.sum(after, rows, m.get(k, j)) as product:
        x = vectors.get(product.index, k)
        product.after = b.multiply_add(x, m.get(product.index, j), product.before)
    amount = b.fneg(b.fmul(tau, product.total))
    m.set(k, j, b.fadd(m.get(k, j), amount))
    with b.loop(after, rows) as i:
        m.set(i, j, b.multiply_add(amount, vectors.get(i, k), m.get(i, j)))


def emit_orgqr_lanes(g: OneGroup, o: Options) -> None:
    """As `factors.emit_orgqr`."""
    rows, columns, count = o.rows, o.columns, o.reflectors
    vectors = g.gathered(g.operands[0], rows * columns)
    taus = g.gathered(g.operands[1], count)
    q = g.lines(rows * columns)
    g.call("orgqr", _emit_orgqr, q, vectors, taus, rows, columns, count)
    g.scatter(g.results[0], q, rows * columns)


def _emit_orgqr(v: Lanes, a: tuple[Value, ...]) -> None:
    base, packed, taus, rows, columns, count = a
    b = v.b
    m, vectors = Matrix(v, base, columns, 1), Matrix(v, packed, columns, 1)
    zero, one = v.number(0.0), v.number(1.0)
    with b.loop(0, rows) as i, b.loop(0, columns) as j:
        is_unit = b.splat(b.icmp("eq", i, j), v.type.lanes)
        m.set(i, j, b.select(is_unit, one, zero))
    with b.loop(0, count) as step:
        k = b.sub(b.sub(count, step), 1)
        tau = v.load(taus, k)
        with b.loop(k, columns) as j:
            _reflect(v, m, (vectors, k), (j, rows), tau)
