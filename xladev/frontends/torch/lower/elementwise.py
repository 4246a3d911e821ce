"""Arithmetic and functions of each element."""

from __future__ import annotations

import math
from typing import Any

from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.table import Family, Function
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import Shape, array

ELEMENTWISE = Family("elementwise", "Arithmetic and functions of each element.", wide=True)
_lowers = ELEMENTWISE.lowers

Operand = Value | Number


def both(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> tuple[Value, Value]:
    """Two operands in the type and sizes of the result."""
    to = out.element_type
    return operand(b, left, to, out.dims), operand(b, right, to, out.dims)


# Arithmetic

_LOGICAL = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}


def _binary(opcode: str, what: str) -> Function:
    def lower(
        b: TensorBuilder, out: Shape, left: Operand, right: Operand, alpha: Number = 1
    ) -> Value:
        x, y = both(b, out, left, right)
        if alpha != 1:
            y = y * alpha
        on_bools = out.element_type is dt.PRED
        return x.op(_LOGICAL.get(opcode, opcode) if on_bools else opcode, y)

    lower.__doc__ = what
    return lower


_BINARY: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "add": ("add", "Sum; the second times alpha.", ("Tensor", "Scalar")),
    "sub": ("subtract", "Difference; the second times alpha.", ("Tensor", "Scalar")),
    "mul": ("multiply", "Product.", ("Tensor", "Scalar")),
    "maximum": ("maximum", "The larger of two; NaN if one is.", ("default",)),
    "minimum": ("minimum", "The smaller of two; NaN if one is.", ("default",)),
    "atan2": ("atan2", "Angle of (x, y).", ("default",)),
    "bitwise_and": ("and", "And of bits.", ("Tensor", "Scalar")),
    "bitwise_or": ("or", "Or of bits.", ("Tensor", "Scalar")),
    "bitwise_xor": ("xor", "Exclusive or of bits.", ("Tensor", "Scalar")),
    "bitwise_left_shift": ("shift-left", "Bits moved up.", ("Tensor", "Tensor_Scalar")),
}
for _name, (_opcode, _what, _overloads) in _BINARY.items():
    for _overload in _overloads:
        ELEMENTWISE.add(f"{_name}.{_overload}", _binary(_opcode, _what))


@_lowers("rsub.Tensor", "rsub.Scalar")
def _rsub(b: TensorBuilder, out: Shape, left: Operand, right: Operand, alpha: Number = 1) -> Value:
    """Second less first times alpha."""
    x, y = both(b, out, left, right)
    return y - x * alpha if alpha != 1 else y - x


@_lowers("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar")
def _shift_right(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """Bits moved down; the sign fills the gap."""
    x, y = both(b, out, left, right)
    signed = out.element_type.is_signed
    return x.op("shift-right-arithmetic" if signed else "shift-right-logical", y)


@_lowers("div.Tensor", "div.Scalar", "true_divide.Tensor", sample="div.no_rounding_mode")
def _div(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """Quotient; of integers, a float."""
    x, y = both(b, out, left, right)
    return x / y


def floor_divide(x: Value, y: Value) -> Value:
    """Quotient rounded down, as torch defines it: exact for floats even where x / y rounds up."""
    if x.dtype.is_integral:
        quotient = x / y
        if not x.dtype.is_signed:
            return quotient
        inexact = x.op("remainder", y).ne(0) & (x.lt(0) ^ y.lt(0))
        return inexact.where(quotient - 1, quotient)
    rest = x.op("remainder", y)
    quotient = (x - rest) / y
    lower = rest.ne(0) & (y.lt(0) ^ rest.lt(0))
    whole = lower.where(quotient - 1, quotient)
    floor = whole.floor()
    near = (whole - floor).gt(0.5).where(floor + 1, floor)
    zero = (x / y) * 0
    signed = whole.eq(0).where(zero, near)
    return y.eq(0).where(x / y, signed)


def truncated(x: Value) -> Value:
    """Rounded towards zero."""
    if not x.dtype.is_float:
        return x
    return x.lt(0).where(x.op("ceil"), x.floor())


@_lowers("div.Tensor_mode", "div.Scalar_mode", sample="div.floor_rounding")
def _div_mode(
    b: TensorBuilder, out: Shape, left: Operand, right: Operand, *, rounding_mode: str | None
) -> Value:
    """Quotient, rounded down or towards zero where asked for."""
    x, y = both(b, out, left, right)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    return truncated(x / y) if rounding_mode == "trunc" else x / y


@_lowers("floor_divide.default", "floor_divide.Scalar")
def _floor_divide(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """Quotient rounded down."""
    return floor_divide(*both(b, out, left, right))


@_lowers("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def _remainder(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """What is left of a division rounded down; has the sign of the divisor."""
    x, y = both(b, out, left, right)
    rest = x.op("remainder", y)
    if not (x.dtype.is_float or x.dtype.is_signed):
        return rest
    return (rest.ne(0) & (rest.lt(0) ^ y.lt(0))).where(rest + y, rest)


@_lowers("fmod.Tensor", "fmod.Scalar")
def _fmod(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """What is left of a division rounded towards zero; has the sign of the dividend."""
    x, y = both(b, out, left, right)
    return x.op("remainder", y)


@_lowers("fmax.default")
def _fmax(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """The larger of two; a NaN gives way to a number."""
    x, y = both(b, out, left, right)
    return x.is_nan().where(y, y.is_nan().where(x, x.maximum(y)))


@_lowers("fmin.default")
def _fmin(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """The smaller of two; a NaN gives way to a number."""
    x, y = both(b, out, left, right)
    return x.is_nan().where(y, y.is_nan().where(x, x.minimum(y)))


@_lowers("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(b: TensorBuilder, out: Shape, base: Operand, exponent: Operand) -> Value:
    """Power."""
    if not isinstance(exponent, Value) and isinstance(base, Value):
        short = _SHORT_POWERS.get(complex(exponent))
        x = base.cast(out.element_type)
        if short is not None and not out.element_type.is_complex:
            return short(x)
        return x.power(exponent)
    x, y = both(b, out, base, exponent)
    return x.power(y)


_SHORT_POWERS: dict[complex, Any] = {
    0: lambda x: x.like(1),
    1: lambda x: x,
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    0.5: lambda x: x.sqrt(),
    -1: lambda x: 1 / x,
    -2: lambda x: 1 / (x * x),
}


@_lowers("copysign.Tensor", "copysign.Scalar")
def _copysign(b: TensorBuilder, out: Shape, size: Operand, sign: Operand) -> Value:
    """The size of one number with the sign of another, of zeros too."""
    x, y = both(b, out, size, sign)
    return has_sign(y).where(-x.abs(), x.abs())


def has_sign(x: Value) -> Value:
    """Whether the sign bit is set; for negative zero too."""
    if not x.dtype.is_float:
        return x.lt(0) if x.dtype is not dt.PRED else x.like(False)
    word = {16: dt.S16, 32: dt.S32, 64: dt.S64}[x.dtype.bits]
    return x.op("bitcast-convert", shape=array(word, x.dims)).lt(0)


@_lowers("hypot.default")
def _hypot(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """Length of (x, y), without overflow on the way."""
    x, y = (each.abs() for each in both(b, out, left, right))
    large, small = x.maximum(y), x.minimum(y)
    ratio = large.eq(0).where(0.0, small / large)
    length = large * (ratio * ratio + 1).sqrt()
    infinite = x.eq(math.inf) | y.eq(math.inf)
    return infinite.where(math.inf, length)


@_lowers("ldexp.Tensor")
def _ldexp(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """First times 2 to the power of the second."""
    x, y = both(b, out, left, right)
    return x * y.op("exp2")


@_lowers("nextafter.default", wide=False)
def _nextafter(b: TensorBuilder, out: Shape, left: Operand, right: Operand) -> Value:
    """The next number in the direction of another."""
    x, y = both(b, out, left, right)
    word = {16: dt.S16, 32: dt.S32, 64: dt.S64}[x.dtype.bits]
    bits = x.op("bitcast-convert", shape=array(word, x.dims))
    up = (x.lt(y)).eq(x.gt(0)).where(bits + 1, bits - 1)
    least = has_sign(y).where(bits.like(_sign_bit(word) + 1), bits.like(1))
    moved = x.eq(0).where(least, up).op("bitcast-convert", shape=array(x.dtype, x.dims))
    return (x.is_nan() | y.is_nan()).where(math.nan, x.eq(y).where(y, moved))


def _sign_bit(word: PrimitiveType) -> int:
    return -(1 << (word.bits - 1))


@_lowers("heaviside.default")
def _heaviside(b: TensorBuilder, out: Shape, x: Value, values: Value) -> Value:
    """0 below zero, 1 above, and the second operand at zero."""
    left, right = both(b, out, x, values)
    step = left.gt(0).cast(left.dtype)
    return left.eq(0).where(right, left.is_nan().where(left, step) if left.dtype.is_float else step)


# Functions of one operand

_UNARY: dict[str, tuple[str, str]] = {
    "exp": ("exponential", "e to a power."),
    "exp2": ("exp2", "2 to a power."),
    "expm1": ("exponential-minus-one", "e to a power, less 1."),
    "log": ("log", "Natural logarithm."),
    "log2": ("log2", "Logarithm of base 2."),
    "log1p": ("log-plus-one", "Logarithm of 1 more."),
    "sqrt": ("sqrt", "Square root."),
    "rsqrt": ("rsqrt", "1 over the square root."),
    "sin": ("sine", "Sine."),
    "cos": ("cosine", "Cosine."),
    "tan": ("tan", "Tangent."),
    "sinh": ("sinh", "Hyperbolic sine."),
    "cosh": ("cosh", "Hyperbolic cosine."),
    "tanh": ("tanh", "Hyperbolic tangent."),
    "asin": ("asin", "Inverse sine."),
    "acos": ("acos", "Inverse cosine."),
    "asinh": ("asinh", "Inverse hyperbolic sine."),
    "acosh": ("acosh", "Inverse hyperbolic cosine."),
    "atanh": ("atanh", "Inverse hyperbolic tangent."),
    "sigmoid": ("logistic", "1 / (1 + exp(-x))."),
    "erf": ("erf", "Gauss error function."),
}


def _unary(opcode: str, what: str) -> Function:
    def lower(b: TensorBuilder, out: Shape, x: Value) -> Value:
        return x.cast(out.element_type).op(opcode)

    lower.__doc__ = what
    return lower


for _name, (_opcode, _what) in _UNARY.items():
    ELEMENTWISE.add(f"{_name}.default", _unary(_opcode, _what))


@_lowers("atan.default")
def _atan(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Inverse tangent."""
    wanted = x.cast(out.element_type)
    if not wanted.dtype.is_complex:
        return wanted.op("atan2", wanted.like(1))
    turned = (wanted * 1j).op("atanh")
    return turned * -1j


@_lowers("log10.default")
def _log10(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Logarithm of base 10."""
    return x.cast(out.element_type).log() * (1 / math.log(10))


@_lowers("reciprocal.default")
def _reciprocal(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """1 over each element."""
    return 1 / x.cast(out.element_type)


@_lowers("neg.default")
def _neg(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Negated."""
    return -x


@_lowers("abs.default")
def _abs(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Size; of complex numbers, real."""
    return x.abs() if x.dtype.is_complex or x.dtype.is_float or x.dtype.is_signed else x


@_lowers("sign.default", "sgn.default")
def _sign(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """-1, 0 or 1; of complex numbers, the direction."""
    if x.dtype is dt.PRED:
        return x
    if not (x.dtype.is_float or x.dtype.is_complex or x.dtype.is_signed):
        return x.ne(0).cast(x.dtype)
    found = x.op("sign")
    return x.is_nan().where(0.0, found) if x.dtype.is_float else found


@_lowers("signbit.default", wide=False)
def _signbit(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Whether the sign bit is set."""
    return has_sign(x)


_ROUNDING = {
    "floor": ("floor", "Rounded down."),
    "ceil": ("ceil", "Rounded up."),
    "round": ("round-nearest-even", "Rounded to the nearest whole number, ties to even."),
}


def _rounding(opcode: str, what: str) -> Function:
    def lower(b: TensorBuilder, out: Shape, x: Value) -> Value:
        return x.op(opcode) if x.dtype.is_float else x

    lower.__doc__ = what
    return lower


for _name, (_opcode, _what) in _ROUNDING.items():
    ELEMENTWISE.add(f"{_name}.default", _rounding(_opcode, _what))


@_lowers("round.decimals", sample="round.decimals_0")
def _round_decimals(b: TensorBuilder, out: Shape, x: Value, *, decimals: int) -> Value:
    """Rounded to so many decimals."""
    if not x.dtype.is_float:
        return x
    if decimals == 0:
        return x.op("round-nearest-even")
    tens = 10.0 ** abs(decimals)
    if decimals > 0:
        return (x * tens).op("round-nearest-even") / tens
    return (x / tens).op("round-nearest-even") * tens


@_lowers("trunc.default", "fix.default", sample="trunc")
def _trunc(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Rounded towards zero."""
    return truncated(x)


@_lowers("frac.default")
def _frac(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """What is behind the point."""
    return x - truncated(x)


@_lowers("frexp.Tensor")
def _frexp(b: TensorBuilder, out: tuple[Shape, Shape], x: Value) -> tuple[Value, Value]:
    """Mantissa from 0.5 to 1, and exponent of 2."""
    if x.dtype is dt.F64:
        word, places, bias, mask = dt.S64, 52, 1022, 0x7FF
    else:
        word, places, bias, mask = dt.S32, 23, 126, 0xFF
    scaled = x.abs().lt(2.0**-bias).where(x * 2.0 ** (places + 1), x)
    lifted = x.abs().lt(2.0**-bias).where(x.like(places + 1, word), x.like(0, word))
    bits = scaled.op("bitcast-convert", shape=array(word, x.dims))
    exponent = (bits.op("shift-right-logical", bits.like(places)) & mask) - bias
    kept = bits & ~(mask << places) | (bias << places)
    mantissa = kept.op("bitcast-convert", shape=array(x.dtype, x.dims))
    special = x.eq(0) | ~x.op("is-finite")
    return special.where(x, mantissa), special.where(0, exponent - lifted)


@_lowers("bitwise_not.default")
def _bitwise_not(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Each bit turned over."""
    return ~x


# Complex numbers


@_lowers("_conj.default", "_conj_physical.default", "conj_physical.default", sample="conj")
def _conj(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """The conjugate."""
    return conjugate(x)


def conjugate(x: Value) -> Value:
    """The conjugate; a real array stays as it is."""
    return x.op("real").op("complex", -x.op("imag")) if x.dtype.is_complex else x


@_lowers("_neg_view.default", sample="imag")
def _neg_view(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """Negated; torch puts it off until it is read."""
    return -x


@_lowers("complex.default")
def _complex(b: TensorBuilder, out: Shape, real: Value, imaginary: Value) -> Value:
    """A complex number of its parts."""
    part = out.element_type.component
    x = operand(b, real, part, out.dims)
    return x.op("complex", operand(b, imaginary, part, out.dims))


@_lowers("polar.default")
def _polar(b: TensorBuilder, out: Shape, size: Value, angle: Value) -> Value:
    """A complex number of its size and angle."""
    r, a = size.pair(angle)
    return (r * a.op("cosine")).op("complex", r * a.op("sine"))


@_lowers("angle.default")
def _angle(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """The angle of a complex number; 0 or pi of a real one."""
    if x.dtype.is_complex:
        return x.op("imag").op("atan2", x.op("real"))
    wanted = x.cast(out.element_type)
    found = wanted.lt(0).where(wanted.like(math.pi), wanted.like(0))
    return wanted.is_nan().where(wanted, found)


@_lowers("real.default")
def _real(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """The real part."""
    return x.op("real") if x.dtype.is_complex else x


@_lowers("imag.default")
def _imag(b: TensorBuilder, out: Shape, x: Value) -> Value:
    """The imaginary part."""
    return x.op("imag") if x.dtype.is_complex else x.like(0)


# Ternary


@_lowers("addcmul.default")
def _addcmul(
    b: TensorBuilder, out: Shape, x: Value, y: Value, z: Value, *, value: Number = 1
) -> Value:
    """First and the product of the others times value."""
    first, second = both(b, out, x, y)
    third = operand(b, z, out.element_type, out.dims)
    return first + (second * third if value == 1 else second * third * value)


@_lowers("addcdiv.default")
def _addcdiv(
    b: TensorBuilder, out: Shape, x: Value, y: Value, z: Value, *, value: Number = 1
) -> Value:
    """First and the quotient of the others times value."""
    first, second = both(b, out, x, y)
    third = operand(b, z, out.element_type, out.dims)
    return first + (second if value == 1 else second * value) / third


@_lowers("lerp.Tensor", "lerp.Scalar")
def _lerp(b: TensorBuilder, out: Shape, start: Value, end: Value, weight: Operand) -> Value:
    """A point on the way from one to another, exact at both ends."""
    x, y = both(b, out, start, end)
    w = operand(b, weight, out.element_type, out.dims)
    near = w.abs().lt(0.5) if not w.dtype.is_complex else w.abs().lt(0.5)
    return near.where(x + w * (y - x), y - (y - x) * (1 - w))


@_lowers("prims.fma.default", sample="addcmul")
def _fma(b: TensorBuilder, out: Shape, x: Operand, y: Operand, z: Operand) -> Value:
    """Product of two and a third."""
    first, second = both(b, out, x, y)
    return first * second + operand(b, z, out.element_type, out.dims)


@_lowers("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar", wide=False)
def _where(b: TensorBuilder, out: Shape, choice: Value, yes: Operand, no: Operand) -> Value:
    """One operand where the choice is true, the other elsewhere."""
    x, y = both(b, out, yes, no)
    return choice.cast(dt.PRED).where(x, y)


@_lowers("clamp.default", "clamp.Tensor")
def _clamp(
    b: TensorBuilder, out: Shape, x: Value, low: Operand | None = None, high: Operand | None = None
) -> Value:
    """Kept between two bounds; NaN stays."""
    found = operand(b, x, out.element_type, out.dims)
    if low is not None:
        found = found.maximum(operand(b, low, out.element_type, out.dims))
    if high is not None:
        found = found.minimum(operand(b, high, out.element_type, out.dims))
    return found


@_lowers("clamp_min.default", "clamp_min.Tensor", sample="clamp")
def _clamp_min(b: TensorBuilder, out: Shape, x: Value, low: Operand) -> Value:
    """Kept above a bound."""
    return _clamp(b, out, x, low)


@_lowers("clamp_max.default", "clamp_max.Tensor", sample="clamp")
def _clamp_max(b: TensorBuilder, out: Shape, x: Value, high: Operand) -> Value:
    """Kept below a bound."""
    return _clamp(b, out, x, None, high)
