"""Sums of the lanes of several vectors at once."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value


def lane_sums(b: FunctionBuilder, vectors: Sequence[Value]) -> list[Value]:
    """The sum of each vector's lanes, by halves.

    Two vectors become one that holds halves of both, until every lane is a sum.

    Args:
        b: where to write.
        vectors: a power of two of them, of equal type, whose lanes are a power of two.
    """
    lanes = width = vectors[0].lanes
    held = [(v, [n]) for n, v in enumerate(vectors)]
    while width > 1:
        half = width // 2
        if len(held) > 1:
            pairs = zip(held[::2], held[1::2], strict=True)
            held = [(_merged(b, x, y, width), [*m, *n]) for (x, m), (y, n) in pairs]
        else:
            ((x, numbers),) = held
            low = tuple(s * width + j for s in range(len(numbers)) for j in range(half))
            high = tuple(j + half for j in low)
            held = [(_add(b, _picked(b, x, low), _picked(b, x, high)), numbers)]
        width = half
    found: dict[int, Value] = {}
    for vector, numbers in held:
        for lane, number in enumerate(numbers):
            found[number] = vector if vector.lanes == 1 else b.extract(vector, lane)
    return [found[n] for n in range(len(vectors))] if lanes > 1 else list(vectors)


def _merged(b: FunctionBuilder, x: Value, y: Value, width: int) -> Value:
    """Both halves of each sum of two vectors, which have ``width`` lanes for a sum."""
    lanes = x.lanes
    low = tuple(n for n in range(2 * lanes) if n % width < width // 2)
    high = tuple(n + width // 2 for n in low)
    return _add(b, b.shuffle(x, y, low), b.shuffle(x, y, high))


def _picked(b: FunctionBuilder, x: Value, lanes: tuple[int, ...]) -> Value:
    return b.extract(x, lanes[0]) if len(lanes) == 1 else b.shuffle(x, x, lanes)


def _add(b: FunctionBuilder, x: Value, y: Value) -> Value:
    return b.fadd(x, y) if x.type.is_float else b.add(x, y)
