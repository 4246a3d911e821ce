"""Integer and pred arithmetic with HLO's answers where hardware has none.

x / 0 is all ones, x % 0 is x, INT_MIN / -1 is INT_MIN, INT_MIN % -1 is 0; shifts by the width or
more shift everything out. On pred, add and maximum are "or", multiply and minimum are "and".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder, Value, constant, integer
from xladev.codegen.scalar.operation import IntegerEmitter
from xladev.hlo.dtype import PrimitiveType

_Args = Sequence[Value]


def _instruction(name: str) -> IntegerEmitter:
    def emit(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
        return b.binary(name, args[0], args[1])

    return emit


def _by_sign(signed: str, unsigned: str) -> IntegerEmitter:
    def emit(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
        return b.intrinsic(signed if dtype.is_signed else unsigned, args[0], args[1])

    return emit


def _divide(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    divisor, zero, wraps = _safe_divisor(b, dtype, args)
    if not dtype.is_signed:
        return b.select(zero, -1, b.udiv(args[0], divisor))
    quotient = b.select(wraps, args[0], b.sdiv(args[0], divisor))
    return b.select(zero, -1, quotient)


def _remainder(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    divisor, zero, wraps = _safe_divisor(b, dtype, args)
    if not dtype.is_signed:
        return b.select(zero, args[0], b.urem(args[0], divisor))
    rest = b.select(wraps, 0, b.srem(args[0], divisor))
    return b.select(zero, args[0], rest)


def _safe_divisor(
    b: FunctionBuilder, dtype: PrimitiveType, args: _Args
) -> tuple[Value, Value, Value]:
    """The divisor, replaced where division would trap; whether it is zero; whether it overflows.

    A divisor of one serves both cases: what it yields is not used. In one-bit signed integers one
    is minus one, so there zero serves nothing and every trap reads "overflow".
    """
    dividend, divisor = args
    zero = b.icmp("eq", divisor, 0)
    if not dtype.is_signed:
        return b.select(zero, 1, divisor), zero, zero
    smallest = -(1 << (dtype.bits - 1))
    wraps = b.and_(b.icmp("eq", dividend, smallest), b.icmp("eq", divisor, -1))
    return b.select(b.or_(zero, wraps), 1, divisor), zero, wraps


def _negate(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    return b.neg(args[0])


def _abs(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    return b.intrinsic("abs", args[0]) if dtype.is_signed else args[0]


def _sign(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    nonzero = b.resize(b.icmp("ne", args[0], 0), integer(dtype.bits), signed=False)
    if not dtype.is_signed:
        return nonzero
    return b.or_(b.ashr(args[0], dtype.bits - 1), nonzero)


def _not(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    return b.not_(args[0])


def _clz(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    return b.intrinsic("ctlz", args[0])


def _popcnt(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    return b.intrinsic("ctpop", args[0])


def _mulhi(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    wide = integer(2 * dtype.bits)
    left, right = (b.resize(x, wide, signed=dtype.is_signed) for x in args)
    return b.resize(b.lshr(b.mul(left, right), dtype.bits), integer(dtype.bits), signed=False)


def _shift(name: str, arithmetic: bool = False) -> IntegerEmitter:
    def emit(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
        value, amount = args
        widest = dtype.bits - 1
        inside = b.icmp("ule", amount, widest)
        if arithmetic:
            return b.binary(name, value, b.select(inside, amount, widest))
        # Masked, not chosen: LLVM joins a choice with a shift that may read 32 bits of it.
        shifted = b.binary(name, value, b.and_(amount, widest))
        return b.select(inside, shifted, 0)

    return emit


def _power(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    """Wrapping power; with a negative exponent, 1/x**|y| truncated: nonzero for x = 1 and -1."""
    symbol = f"power.{dtype}"
    return b.call_shared(symbol, args[0].type, args, lambda inner, a: _emit_power(inner, dtype, a))


def _emit_power(b: FunctionBuilder, dtype: PrimitiveType, args: _Args) -> Value:
    base, exponent = args
    one = constant(base.type, 1)
    result, square, left = b.while_loop(
        (one, base, exponent),
        lambda now: b.any(b.icmp("ne", now[2], 0)),
        lambda now: (
            b.select(b.icmp("eq", b.and_(now[2], 1), 1), b.mul(now[0], now[1]), now[0]),
            b.mul(now[1], now[1]),
            b.lshr(now[2], 1) if dtype.bits > 1 else b.sub(now[2], now[2]),
        ),
    )
    if not dtype.is_signed:
        return result
    odd = b.icmp("eq", b.and_(exponent, 1), 1)
    minus_one = b.select(odd, -1, one)
    other = b.select(b.icmp("eq", base, 1), one, 0)
    inverse = b.select(b.icmp("eq", base, -1), minus_one, other)
    return b.select(b.icmp("slt", exponent, 0), inverse, result)


INTEGER_EMITTERS: Mapping[str, IntegerEmitter] = MappingProxyType(
    {
        "add": _instruction("add"),
        "subtract": _instruction("sub"),
        "multiply": _instruction("mul"),
        "and": _instruction("and"),
        "or": _instruction("or"),
        "xor": _instruction("xor"),
        "maximum": _by_sign("smax", "umax"),
        "minimum": _by_sign("smin", "umin"),
        "divide": _divide,
        "remainder": _remainder,
        "negate": _negate,
        "abs": _abs,
        "sign": _sign,
        "not": _not,
        "count-leading-zeros": _clz,
        "popcnt": _popcnt,
        "mulhi": _mulhi,
        "shift-left": _shift("shl"),
        "shift-right-logical": _shift("lshr"),
        "shift-right-arithmetic": _shift("ashr", arithmetic=True),
        "power": _power,
    }
)

PRED_EMITTERS: Mapping[str, IntegerEmitter] = MappingProxyType(
    {
        "add": _instruction("or"),
        "multiply": _instruction("and"),
        "maximum": _instruction("or"),
        "minimum": _instruction("and"),
        "and": _instruction("and"),
        "or": _instruction("or"),
        "xor": _instruction("xor"),
        "subtract": _instruction("xor"),
        "not": _not,
    }
)
