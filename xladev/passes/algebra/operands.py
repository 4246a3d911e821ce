"""Patterns of operands that rules of algebra share, and questions they ask of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.passes import pattern as m
from xladev.passes.pattern import Pattern
from xladev.passes.splats import splat_of

STANDARD_FLOATS = frozenset({dt.F16, dt.BF16, dt.F32, dt.F64})
"""Floats with infinities, NaN and both zeros, whose arithmetic is rounded once.

Identities of float arithmetic are used for these only: some eight-bit formats have no zero, no sign
or one zero, and ``-(-x)`` is then not ``x``.
"""


def is_integer(i: HloInstruction) -> bool:
    """True for arrays of signed or unsigned integers."""
    return i.shape.element_type.is_integral


def is_unsigned(i: HloInstruction) -> bool:
    """True for arrays of unsigned integers."""
    return is_integer(i) and not i.shape.element_type.is_signed


def is_bits(i: HloInstruction) -> bool:
    """True for arrays of integers or pred."""
    return is_integer(i) or i.shape.element_type is dt.PRED


def is_real_float(i: HloInstruction) -> bool:
    """True for arrays of standard floats."""
    return i.shape.element_type in STANDARD_FLOATS


def is_number(i: HloInstruction) -> bool:
    """True for arrays of integers or standard floats."""
    return is_integer(i) or is_real_float(i)


def Integer(capture: str = "") -> Pattern:
    """Integers."""
    return m.Op(capture).where(is_integer, "an integer")


def Unsigned(capture: str = "") -> Pattern:
    """Unsigned integers."""
    return m.Op(capture).where(is_unsigned, "an unsigned integer")


def Bits(capture: str = "") -> Pattern:
    """Integers or pred."""
    return m.Op(capture).where(is_bits, "an integer or pred")


def RealFloat(capture: str = "") -> Pattern:
    """Standard floats."""
    return m.Op(capture).where(is_real_float, "a standard float")


def Number(capture: str = "") -> Pattern:
    """Integers or standard floats."""
    return m.Op(capture).where(is_number, "an integer or standard float")


def Splat(capture: str = "") -> Pattern:
    """A constant, or a broadcast of one, all of whose elements are equal."""
    return m.Op(capture).where(lambda i: splat_of(i) is not None, "one constant everywhere")


def together(root: HloInstruction, *others: HloInstruction) -> bool:
    """True if all are assigned to the device of ``root``; rules look no further than that."""
    device = root.note.device
    return all(i.note.device == device for i in others)


def wide_dims(dims: Sequence[int]) -> list[int]:
    """Numbers of the dimensions whose size is not 1."""
    return [d for d, size in enumerate(dims) if size != 1]


def same_but_for_ones(a: Sequence[int], b: Sequence[int]) -> bool:
    """True if two arrays differ only by dimensions of size 1."""
    return [n for n in a if n != 1] == [n for n in b if n != 1]


def dim_map(source: Sequence[int], target: Sequence[int]) -> dict[int, int]:
    """For arrays that differ by dimensions of size 1: where each other dimension went."""
    return dict(zip(wide_dims(source), wide_dims(target), strict=True))


def splat_int(i: HloInstruction) -> int | None:
    """The integer that every element is; None if not known."""
    value = splat_of(i) if is_integer(i) else None
    return None if value is None else int(value)


def constant_starts(starts: Sequence[HloInstruction]) -> list[int] | None:
    """Values of scalar indices; None unless all are known."""
    found = [splat_int(i) if i.shape.is_scalar else None for i in starts]
    known = [v for v in found if v is not None]
    return known if len(known) == len(found) else None


def other_dims(rank: int, dims: Sequence[int]) -> Iterator[int]:
    """The dimensions that are not among ``dims``, ascending."""
    return (d for d in range(rank) if d not in dims)
