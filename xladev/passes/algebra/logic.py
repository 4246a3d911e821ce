"""Logic: bits, comparisons and choices."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.passes import pattern as m
from xladev.passes.algebra.operands import (
    Bits,
    Integer,
    is_bits,
    is_unsigned,
    splat_int,
)
from xladev.passes.pattern import Pattern
from xladev.passes.rewrite import Rewriter, RewriteRule, rewrite
from xladev.passes.splats import splat_of

_SHIFTS = ("shift-left", "shift-right-arithmetic", "shift-right-logical")
_OPPOSITE: Mapping[str, str] = MappingProxyType(
    {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
)
_TRUE_OF_EQUAL = frozenset({"EQ", "LE", "GE"})


def _all_ones(i: HloInstruction) -> bool:
    value = splat_of(i) if is_bits(i) else None
    if value is None:
        return False
    if i.shape.element_type is dt.PRED:
        return bool(value)
    return int(value) in (-1, (1 << i.shape.element_type.bits) - 1)


def Ones(capture: str = "") -> Pattern:
    """All bits set: -1, the greatest unsigned number, or true."""
    return m.Op(capture).where(_all_ones, "all ones")


# Bits


@rewrite(m.Opcode(("and", "or"), m.Op("x"), m.Op("x")))
def bits_of_itself(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x and x = x or x = x."""
    return x


@rewrite(m.And(m.Op(), m.All(0, "zero")))
def and_zero(r: Rewriter, root: HloInstruction, zero: HloInstruction) -> HloInstruction:
    """x and 0 = 0."""
    return zero


@rewrite(m.Opcode(("or", "xor"), m.Op("x"), m.All(0)))
def or_zero(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x or 0 = x xor 0 = x."""
    return x


@rewrite(m.And(m.Op("x"), Ones()))
def and_ones(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x and ones = x."""
    return x


@rewrite(m.Or(m.Op(), Ones("ones")))
def or_ones(r: Rewriter, root: HloInstruction, ones: HloInstruction) -> HloInstruction:
    """x or ones = ones."""
    return ones


@rewrite(m.Xor(m.Op("x"), Ones()))
def xor_ones(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x xor ones = not x."""
    return r.op("not", x)


@rewrite(m.Xor(m.Op("x"), m.Op("x")))
def xor_itself(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x xor x = 0."""
    return r.full_like(x, 0)


@rewrite(m.Xor(m.Op("x"), m.Xor(m.Op("x"), m.Op("y"))))
def xor_again(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """x xor (x xor y) = y."""
    return y


@rewrite(
    m.Opcode(("and", "or"), m.Op("x"), m.Opcode(("and", "or"), m.Op("x"), m.Op(), capture="y"))
)
def absorb(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """x and (x and z) = x and z, x and (x or z) = x; likewise for or."""
    return y if y.opcode == root.opcode else x


@rewrite(m.Not(m.Not(m.Op("x"))))
def not_twice(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """not not x = x."""
    return x


@rewrite(m.Opcode(_SHIFTS, m.Op("x"), m.All(0)))
def shift_by_nothing(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """A shift by 0 bits."""
    return x


@rewrite(m.Opcode(_SHIFTS, m.All(0, "zero"), m.Op()))
def shift_of_nothing(r: Rewriter, root: HloInstruction, zero: HloInstruction) -> HloInstruction:
    """A shift of 0."""
    return zero


@rewrite(m.Opcode(("shift-left", "shift-right-logical"), Integer("x"), Integer("n")))
def shift_everything_out(
    r: Rewriter, root: HloInstruction, x: HloInstruction, n: HloInstruction
) -> HloInstruction | None:
    """A shift by the width or more gives 0; a negative number of bits is a large one."""
    number = splat_int(n)
    if number is None or 0 <= number < x.shape.element_type.bits:
        return None
    return r.full_like(x, 0)


# Comparisons


@rewrite(m.Compare(Bits("x"), m.Op("x")))
def compare_with_itself(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x = x, x <= x and x >= x hold for integers; the opposites do not."""
    return r.full(root["direction"] in _TRUE_OF_EQUAL, dt.PRED, x.shape.dims)


_KNOWN_OF_ZERO: Mapping[str, bool] = MappingProxyType({"LT": False, "GE": True})
_ZERO_FIRST: Mapping[str, bool] = MappingProxyType({"GT": False, "LE": True})


@rewrite(m.Compare(m.Op("x").where(is_unsigned, "unsigned"), m.Op("y")))
def compare_unsigned_with_zero(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction | None:
    """x < 0 never holds for unsigned integers, x >= 0 always."""
    known = _KNOWN_OF_ZERO if splat_int(y) == 0 else _ZERO_FIRST if splat_int(x) == 0 else {}
    answer = known.get(root["direction"])
    return None if answer is None else r.full(answer, dt.PRED, x.shape.dims)


@rewrite(m.Compare(m.Op("x").typed(dt.PRED), m.Op("y")))
def compare_pred(
    r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction | None:
    """x = true is x, x = false is not x."""
    if root["direction"] not in ("EQ", "NE"):
        return None
    if splat_of(y) is None:
        x, y = y, x
    value = splat_of(y)
    if value is None:
        return None
    return x if bool(value) == (root["direction"] == "EQ") else r.op("not", x)


@rewrite(m.Not(m.Compare(m.Op("x"), m.Op("y"), capture="test")))
def not_compare(
    r: Rewriter, root: HloInstruction, test: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction | None:
    """not (x < y) = x >= y where all values are ordered; not (x = y) = (x != y) for all."""
    ordered = is_bits(x) or test["type"] == "TOTALORDER"
    if not ordered and test["direction"] not in ("EQ", "NE"):
        return None
    return r.op("compare", x, y, **{**test.attrs, "direction": _OPPOSITE[test["direction"]]})


# Choices


@rewrite(m.Select(m.Op("p"), m.Op("x"), m.Op("y")))
def select_known(
    r: Rewriter, root: HloInstruction, p: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction | None:
    """select(true, x, y) = x, select(false, x, y) = y."""
    value = splat_of(p)
    return None if value is None else x if bool(value) else y


@rewrite(m.Select(m.Op(), m.Op("x"), m.Op("x")))
def select_same(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """select(p, x, x) = x."""
    return x


@rewrite(m.Select(m.Not(m.Op("p")), m.Op("x"), m.Op("y")))
def select_not(
    r: Rewriter, root: HloInstruction, p: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """select(not p, x, y) = select(p, y, x)."""
    return r.op("select", p, y, x)


@rewrite(m.Select(m.Op("p"), m.All(1), m.All(0)).typed(dt.PRED))
def select_true(r: Rewriter, root: HloInstruction, p: HloInstruction) -> HloInstruction:
    """select(p, true, false) = p."""
    return p


@rewrite(m.Select(m.Op("p"), m.All(0), m.All(1)).typed(dt.PRED))
def select_false(r: Rewriter, root: HloInstruction, p: HloInstruction) -> HloInstruction:
    """select(p, false, true) = not p."""
    return r.op("not", p)


@rewrite(m.Select(m.Op("p"), m.Op("x"), m.Select(m.Op("p"), m.Op(), m.Op("y"))))
def select_else_again(
    r: Rewriter, root: HloInstruction, p: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """select(p, x, select(p, z, y)) = select(p, x, y)."""
    return r.op("select", p, x, y)


@rewrite(m.Select(m.Op("p"), m.Select(m.Op("p"), m.Op("x"), m.Op()), m.Op("y")))
def select_then_again(
    r: Rewriter, root: HloInstruction, p: HloInstruction, x: HloInstruction, y: HloInstruction
) -> HloInstruction:
    """select(p, select(p, x, z), y) = select(p, x, y)."""
    return r.op("select", p, x, y)


@rewrite(
    m.Clamp(m.Op("low"), m.Clamp(m.Op("low"), m.Op(), m.Op("high"), capture="x"), m.Op("high"))
)
def clamp_again(
    r: Rewriter,
    root: HloInstruction,
    x: HloInstruction,
    low: HloInstruction,
    high: HloInstruction,
) -> HloInstruction | None:
    """clamp(a, clamp(a, x, b), b) = clamp(a, x, b) for constants a <= b."""
    least, greatest = splat_of(low), splat_of(high)
    if least is None or greatest is None or not is_bits(x):
        return None
    return x if int(least) <= int(greatest) else None


LOGIC: tuple[RewriteRule, ...] = (
    bits_of_itself, and_zero, or_zero, and_ones, or_ones, xor_ones, xor_itself, xor_again, absorb,
    not_twice, shift_by_nothing, shift_of_nothing, shift_everything_out, compare_with_itself,
    compare_unsigned_with_zero, compare_pred, not_compare, select_known, select_same, select_not,
    select_true, select_false, select_else_again, select_then_again, clamp_again,
)  # fmt: skip
"""Rules of this file, in the order in which they are tried."""
