"""Vectors laid into each other, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value

Vectors = list[Value]


def interleaved(b: FunctionBuilder, vectors: Sequence[Value]) -> Vectors:
    """The first lanes of all, then the second ones, and so on: as many vectors."""
    count, lanes = len(vectors), vectors[0].lanes
    if lanes == 1 or count == 1:
        return list(vectors)
    if count & (count - 1):
        return [_gathered(b, vectors, [(i % count, i // count) for i in _block(o, lanes)])
                for o in range(count)]  # fmt: skip
    sequences = [[v] for v in vectors]
    while len(sequences) > 1:
        half = len(sequences) // 2
        sequences = [
            [
                z
                for x, y in zip(sequences[i], sequences[i + half], strict=True)
                for z in _zip(b, x, y)
            ]
            for i in range(half)
        ]
    return sequences[0]


def deinterleaved(
    b: FunctionBuilder, vectors: Sequence[Value], count: int | None = None
) -> Vectors:
    """The opposite: lanes ``i``, ``i + count`` and so on of all vectors laid end to end."""
    count, lanes = count or len(vectors), vectors[0].lanes
    if lanes == 1 or count == 1:
        return list(vectors)
    if count & (count - 1):
        return [_gathered(b, vectors, [divmod(i + count * n, lanes) for n in range(lanes)])
                for i in range(count)]  # fmt: skip
    sequences = [list(vectors)]
    while len(sequences) < count:
        parts = [[_unzip(b, x, y, odd) for x, y in zip(s[::2], s[1::2], strict=True)]
                 for odd in (0, 1) for s in sequences]  # fmt: skip
        sequences = parts
    return [s[0] for s in sequences]


def reverse(b: FunctionBuilder, x: Value) -> Value:
    """The last lane first."""
    return x if x.lanes == 1 else b.shuffle(x, x, tuple(range(x.lanes))[::-1])


def _block(number: int, lanes: int) -> range:
    return range(number * lanes, (number + 1) * lanes)


def _zip(b: FunctionBuilder, x: Value, y: Value) -> Vectors:
    lanes, half = x.lanes, x.lanes // 2
    order = [lane for i in range(lanes) for lane in (i, lanes + i)]
    return [b.shuffle(x, y, tuple(order[:lanes])), b.shuffle(x, y, tuple(order[2 * half :]))]


def _unzip(b: FunctionBuilder, x: Value, y: Value, odd: int) -> Value:
    return b.shuffle(x, y, tuple(range(odd, 2 * x.lanes, 2)))


def _gathered(b: FunctionBuilder, vectors: Sequence[Value], wanted: list[tuple[int, int]]) -> Value:
    """A vector whose lanes are (number of a vector, lane) of some vectors."""
    lanes = len(wanted)
    sources = sorted({number for number, _ in wanted})
    made, placed = vectors[sources[0]], {sources[0]}
    order = [lane if number in placed else 0 for number, lane in wanted]
    if len(sources) == 1:
        return b.shuffle(made, made, tuple(order))
    is_first = True
    for source in sources[1:]:
        mask = [
            lanes + lane
            if number == source
            else (lane if is_first else i)
            if number in placed
            else 0
            for i, (number, lane) in enumerate(wanted)
        ]
        made, is_first = b.shuffle(made, vectors[source], tuple(mask)), False
        placed.add(source)
    return made
