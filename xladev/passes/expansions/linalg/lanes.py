"""Vocabulary of algorithms in lockstep: many small problems at once, one in each lane.

The number of the problem is the last dimension, so that a loop over what is next to each other in
memory goes over problems, and a row of a matrix is one piece of memory for all of them. A single
problem has no such dimension at all. Matrices are ``[m, n, *lanes]``, vectors ``[n, *lanes]``, and
scalars ``lanes``, which is ``()`` or ``(count,)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape, array
from xladev.passes.expansions.emit import Emitter, Operand, Values
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.matrices import Value

FEWEST = 8
"""Fewer problems are solved one after the other: so many lanes fill no vector."""
LARGEST = 64
"""Problems of more rows are solved one after the other: they fill vectors by themselves."""
_MOST_ELEMENTS = 1 << 14
"""Most elements of the matrices that run in lockstep: they stay in a processor's second cache."""
_VECTOR = 16
_SQUARE_FLOOR = {dt.F32: 2.0**-102, dt.F64: 2.0**-968}
"""Sums of squares from here on have all their digits."""


def spread(e: Emitter, x: Value, like: Value) -> Value:
    """``x`` of the last dimensions of ``like``, repeated along the first ones."""
    rank = like.shape.rank
    return e.broadcast(x, like.shape.dims, tuple(range(rank - x.shape.rank, rank)))


def column_of(e: Emitter, x: Value, like: Value) -> Value:
    """A vector as every column of a matrix."""
    return e.broadcast(x, like.shape.dims, (0, *range(2, like.shape.rank)))


def at(e: Emitter, x: Value, number: Operand, count: int = 1) -> Value:
    """``count`` rows of matrices or elements of vectors, from ``number`` on."""
    dims = x.shape.dims
    return e.dynamic_slice(x, (number, *[0] * (len(dims) - 1)), (count, *dims[1:]))


def one(e: Emitter, x: Value, number: Operand) -> Value:
    """One row of each matrix, or one element of each vector, without the dimension."""
    return e.reshape(at(e, x, number), x.shape.dims[1:])


def put(e: Emitter, x: Value, new: Value, number: Operand) -> Value:
    """With rows or elements from ``number`` on replaced; a single one may lack its dimension."""
    rank = x.shape.rank
    if new.shape.rank < rank:
        new = e.reshape(new, (1, *new.shape.dims))
    return e.dynamic_update_slice(x, new, (number, *[0] * (rank - 1)))


def each(e: Emitter, x: Value, number: Value) -> Value:
    """Of each vector the element of its own number, s32 ``lanes``."""
    if not number.shape.rank:
        return one(e, x, number)
    here = e.compare("EQ", e.iota(dt.S32, x.shape.dims, 0), spread(e, number, x))
    return e.reduce(e.select(here, x, 0), (0,))


def outermost(e: Emitter, x: Value, opcode: str, init: int) -> Value:
    """The least or largest of all lanes, a scalar."""
    return e.reduce(x, (0,), opcode, init) if x.shape.rank else x


def some(e: Emitter, x: Value) -> Value:
    """True if it is so in any lane, a scalar."""
    return e.reduce(x, (0,), "or", False) if x.shape.rank else x


# Products


def times(e: Emitter, a: Value, x: Value) -> Value:
    """A x."""
    if not x.shape.rank - 1:
        return e.reshape(e.matmul(a, e.reshape(x, (*x.shape.dims, 1))), a.shape.dims[:1])
    return e.reduce(e.multiply(a, spread(e, x, a)), (1,))


def row_times(e: Emitter, x: Value, a: Value) -> Value:
    """The row vector x times A, without conjugation."""
    if not x.shape.rank - 1:
        return e.reshape(e.matmul(e.reshape(x, (1, *x.shape.dims)), a), a.shape.dims[1:])
    return e.reduce(e.multiply(a, column_of(e, x, a)), (0,))


def outer(e: Emitter, x: Value, y: Value) -> Value:
    """``x[i] y[j]``."""
    dims = (x.shape.dims[0], *y.shape.dims)
    last = range(2, len(dims))
    return e.multiply(e.broadcast(x, dims, (0, *last)), e.broadcast(y, dims, (1, *last)))


def scaled(e: Emitter, x: Value, by: Value) -> Value:
    """Vectors or matrices times a number of each lane, real or of their type."""
    return e.multiply(x, mx.as_type_of(e, spread(e, by, x), x))


def inner(e: Emitter, x: Value, y: Value) -> Value:
    """x* y."""
    return e.reduce(e.multiply(e.conjugate(x), y), (0,))


# Reflectors


class Reflector(NamedTuple):
    """H = 1 - tau v v*, with H* x = beta e.

    Attributes:
        beta: real, ``lanes``.
        tau: of the vectors' type, ``lanes``.
        v: one at the place of e, zero before it, ``[n, *lanes]``.
    """

    beta: Value
    tau: Value
    v: Value


def reflector(e: Emitter, x: Value, number: Value) -> Reflector:
    """The reflector that turns vectors from element ``number`` on into beta e.

    For vectors that belong to matrices whose largest element is near one: what is as small as the
    root of the smallest number is taken for zero.
    """
    kind = x.shape.element_type
    place = e.iota(dt.S32, x.shape.dims, 0)
    # A number beyond the end finds nothing but zeros, and gives a reflector that does nothing.
    kept = e.select(e.compare("GE", place, number), x, 0)
    alpha, tail = one(e, kept, number), e.select(e.compare("GT", place, number), x, 0)
    rest = e.reduce(mx.square_magnitude(e, tail), (0,))
    if kind.is_complex:
        imaginary = e.op("imag", alpha)
        rest = e.add(rest, e.multiply(imaginary, imaginary))
    plain = e.compare("LT", rest, _SQUARE_FLOOR[kind.component])
    real = e.real(alpha)
    norm = e.op("sqrt", e.add(e.multiply(real, real), rest))
    turned = e.select(mx.is_negative(e, real), norm, e.op("negate", norm))
    beta = e.select(plain, real, turned)
    wide = mx.as_type_of(e, e.select(plain, 1, beta), x)
    tau = e.select(plain, 0, e.divide(e.subtract(wide, alpha), wide))
    factor = e.select(plain, 0, e.divide(e.full_like(wide, 1), e.subtract(alpha, wide)))
    v = e.multiply(tail, spread(e, factor, x))
    return Reflector(beta, tau, e.select(e.compare("EQ", place, number), 1, v))


def short_reflector(
    e: Emitter, x: Value, others: Sequence[Value], inside: Value
) -> tuple[Value, ...]:
    """tau, and of v what is behind its one, for vectors whose elements are values of their own.

    Args:
        e: where instructions go.
        x: the first element, real, ``lanes``.
        others: those that become zero.
        inside: where there is a reflector at all, pred ``lanes``; elsewhere tau is zero.
    """
    rest = e.multiply(others[0], others[0])
    for other in others[1:]:
        rest = e.add(rest, e.multiply(other, other))
    does = mx.both(e, inside, e.compare("GE", rest, _SQUARE_FLOOR[x.shape.element_type]))
    norm = e.op("sqrt", e.add(e.multiply(x, x), rest))
    beta = e.select(mx.is_negative(e, x), norm, e.op("negate", norm))
    tau = e.select(does, e.divide(e.subtract(beta, x), beta), 0)
    factor = e.select(does, e.divide(e.full_like(x, 1), e.subtract(x, beta)), 0)
    return tau, *(e.multiply(factor, other) for other in others)


# From stacks to lanes, and back


def in_lanes(
    e: Emitter,
    stacks: Sequence[Value],
    rows: int,
    solve: Callable[[Emitter, list[Value]], Values],
) -> list[Value]:
    """What ``solve`` gives for lanes, for stacks ``[batch, ...]``; gives stacks.

    Few or large problems are solved one after the other, many small ones in groups.

    Args:
        e: where instructions go.
        stacks: operands.
        rows: of the largest matrix of a problem.
        solve: given operands ``[..., *lanes]``, gives results ``[..., *lanes]``.
    """
    batch = stacks[0].shape.dims[0]
    if batch == 1:
        alone = [e.reshape(x, x.shape.dims[1:]) for x in stacks]
        return [e.reshape(x, (1, *x.shape.dims)) for x in solve(e, alone)]
    width = _lanes(batch, rows)
    groups = -(-batch // (width or 1))
    padded = [
        e.pad(x, ((0, groups * (width or 1) - batch, 0), *[(0, 0, 0)] * (x.shape.rank - 1)))
        for x in stacks
    ]
    grouped = [_grouped(e, x, groups, width) for x in padded]
    if groups == 1:
        results = [
            e.reshape(x, (1, *x.shape.dims)) for x in solve(e, [_first(e, x) for x in grouped])
        ]
    else:
        results = _one_by_one(e, grouped, groups, solve)
    whole = [_ungrouped(e, x, width) for x in results]
    return [e.slice_in(x, 0, 0, batch) for x in whole]


def _lanes(batch: int, rows: int) -> int:
    """How many problems run in lockstep; 0 for one without lanes."""
    if batch < FEWEST or rows > LARGEST:
        return 0
    most = max(_VECTOR, _MOST_ELEMENTS // (rows * rows) // _VECTOR * _VECTOR)
    groups = -(-batch // most)
    width = -(-batch // groups)
    return width if groups == 1 else -(-width // _VECTOR) * _VECTOR


def _first(e: Emitter, x: Value) -> Value:
    return e.reshape(x, x.shape.dims[1:])


def _grouped(e: Emitter, x: Value, groups: int, width: int) -> Value:
    """``[groups, ..., *lanes]``."""
    if not width:
        return x
    dims = x.shape.dims[1:]
    apart = e.reshape(x, (groups, width, *dims))
    return e.transpose(apart, (0, *range(2, 2 + len(dims)), 1))


def _ungrouped(e: Emitter, x: Value, width: int) -> Value:
    if not width:
        return x
    rank = x.shape.rank
    turned = e.transpose(x, (0, rank - 1, *range(1, rank - 1)))
    return e.reshape(turned, (turned.shape.dims[0] * width, *turned.shape.dims[2:]))


def _one_by_one(
    e: Emitter,
    grouped: Sequence[Value],
    groups: int,
    solve: Callable[[Emitter, list[Value]], Values],
) -> list[Value]:
    shapes = _result_shapes(e, grouped, solve)
    held = [e.full(0, s.element_type, (groups, *s.dims)) for s in shapes]

    def step(e: Emitter, number: Value, state: list[Value]) -> Values:
        given, results = state[: len(grouped)], state[len(grouped) :]
        solved = solve(e, [one(e, x, number) for x in given])
        return *given, *(put(e, r, x, number) for r, x in zip(results, solved, strict=True))

    return e.repeat(groups, (*grouped, *held), step)[len(grouped) :]


def _result_shapes(
    e: Emitter, grouped: Sequence[Value], solve: Callable[[Emitter, list[Value]], Values]
) -> list[Shape]:
    """Of what ``solve`` gives for one group, from a builder that is thrown away."""
    trial = Emitter(f"{e.name}.trial")
    given = [trial.parameter(array(x.shape.element_type, x.shape.dims[1:])) for x in grouped]
    return [x.shape for x in solve(trial, given)]
