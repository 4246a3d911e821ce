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
