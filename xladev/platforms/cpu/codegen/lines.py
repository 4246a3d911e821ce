"""Lines of vectors that are transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import FunctionBuilder, Value


def transposed_lines(b: FunctionBuilder, lines: Sequence[Value]) -> list[Value]:
    """Lane m of line n as lane n of line m, of as many lines as a line has lanes, a power of two.

    Blocks of half the lines change places, then of a quarter, and so on.
    """
    found, count = list(lines), len(lines)
    side = count // 2
    while side:
        low = tuple(n if not n & side else n - side + count for n in range(count))
        high = tuple(n + side if not n & side else n + count for n in range(count))
        for n in range(count):
            if not n & side:
                pair = found[n], found[n + side]
                found[n], found[n + side] = b.shuffle(*pair, low), b.shuffle(*pair, high)
        side //= 2
    return found


def interleaved_lines(b: FunctionBuilder, lines: Sequence[Value]) -> list[Value]:
    """All lanes 0 of at least two lines, then all lanes 1, and so on: as many vectors as lines."""
    count, lanes = len(lines), lines[0].lanes
    return [_interleaved(b, lines, range(n * lanes, (n + 1) * lanes)) for n in range(count)]


def _interleaved(b: FunctionBuilder, lines: Sequence[Value], numbers: range) -> Value:
    """The lanes of some numbers in the order of interleaved lines."""
    count, lanes = len(lines), len(numbers)
    held = lines[0]
    for line in range(1, count):
        taken = [n // count if n % count == 0 else lane for lane, n in enumerate(numbers)]
        kept = taken if line == 1 else range(lanes)
        pairs = zip(numbers, kept, strict=True)
        order = tuple(lanes + n // count if n % count == line else lane for n, lane in pairs)
        held = b.shuffle(held, lines[line], order)
    return held
