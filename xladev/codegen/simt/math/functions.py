"""Mathematical functions of this target: few instructions, around its approximate ones.

f32 stays within 4 units in the last place, bf16 and f16 within one. The approximations are
primitives (`xd.ex2` and so on): a GPU has an instruction for each, the emulator a model that is as
wrong as its vendor says the instruction may be (`codegen.simt.approximations`). What is not in the
table here is computed by the polynomials that all targets share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import e, log, log2
from types import MappingProxyType

from xladev.codegen.llvm import FLOAT, FunctionBuilder, Value
from xladev.codegen.llvm.target import FunctionTable
from xladev.codegen.math import coefficients as c
from xladev.codegen.math.exponential import exp_single
from xladev.codegen.math.logarithm import log1p_by, log_finite_single
from xladev.codegen.math.shared import horner, shared, with_sign
from xladev.codegen.math.trigonometric import keep_zero
from xladev.codegen.scalar.operation import FloatEmitter
from xladev.codegen.simt.math import angles
from xladev.errors import UnsupportedError

_Args = Sequence[Value]
_LOG2_E = 1.44269502162933349609375
"""log2(e) rounded to f32."""
_LOG2_E_LOW = log2(e) - _LOG2_E
_LN2 = log(2)
_FAR = 128.0
"""exp is infinite, or 0, in f32 beyond this magnitude."""


def _approximate(b: FunctionBuilder, name: str, *operands: Value) -> Value:
    """A primitive on f32, lane by lane."""
    symbol, type_ = f"xd.{name}", operands[0].type
    b.module.declare(symbol, FLOAT, ["float"] * len(operands))
    if type_.lanes == 1:
        return b.call(symbol, FLOAT, *operands)
    result = Value("poison", type_)
    for lane in range(type_.lanes):
        one = b.call(symbol, FLOAT, *(b.extract(x, lane) for x in operands))
        result = b.insert(result, one, lane)
    return result


def _exp_of(b: FunctionBuilder, x: Value) -> Value:
    """exp(x) of |x| <= 128, or of NaN.

    x log2(e) in two parts, the second a correction to the result: 2 units of ex2 and less than one
    of the rest.
    """
    high = b.fmul(x, _LOG2_E)
    low = b.fma(x, _LOG2_E_LOW, b.fma(x, _LOG2_E, b.fneg(high)))
    return b.fmul(_approximate(b, "ex2", high), b.fma(low, _LN2, 1.0))


def _exp(b: FunctionBuilder, args: _Args) -> Value:
    raised = b.intrinsic("maximum", args[0], -_FAR)
    return _exp_of(b, b.intrinsic("minimum", raised, _FAR))


def _quotient(b: FunctionBuilder, numerator: Value | float, denominator: Value) -> Value:
    """A quotient within 0.51 units, for denominators and quotients of 2**-100 to 2**100."""
    r = _approximate(b, "rcp", denominator)
    n = numerator if isinstance(numerator, Value) else b.const(denominator.type, numerator)
    q = b.fmul(n, r)
    return b.fma(b.fma(b.fneg(q), denominator, n), r, q)


def _logistic(b: FunctionBuilder, args: _Args) -> Value:
    """By exp(-|x|), so that small results keep their digits; two units of ex2 would become four."""
    x = args[0]
    falling = exp_single(b, b.fneg(b.fabs(x)))
    numerator = b.select(b.fcmp("olt", x, 0.0), falling, 1.0)
    return _quotient(b, numerator, b.fadd(falling, 1.0))


def _tanh(b: FunctionBuilder, args: _Args) -> Value:
    """A polynomial up to 5/8, then 1 - 2 / (exp(2|x|) + 1), where ex2's error hardly shows."""
    x = b.fabs(args[0])
    z = b.fmul(x, x)
    near = b.fma(b.fmul(z, horner(b, z, c.TANH_IN_F32)), x, x)
    rising = _approximate(b, "ex2", b.fmul(x, 2.0 * _LOG2_E))
    far = b.fma(_approximate(b, "rcp", b.fadd(rising, 1.0)), -2.0, 1.0)
    return with_sign(b, b.select(b.fcmp("olt", x, 0.625), near, far), args[0])


def _erf(b: FunctionBuilder, args: _Args) -> Value:
    """A polynomial up to 1, then 1 - erfc(x), with erfc(x) = exp(P(x - 2.5)) on [1, 4]."""
    x = b.fabs(args[0])
    near = b.fma(x, horner(b, b.fmul(x, x), (c.ERF_IN_F32[0] - 1.0, *c.ERF_IN_F32[1:])), x)
    bounded = b.intrinsic("minnum", x, 4.0)
    logarithm = horner(b, b.fsub(bounded, 2.5), c.LOG_ERFC_IN_F32)
    far = b.fsub(1.0, _approximate(b, "ex2", b.fmul(logarithm, _LOG2_E)))
    inside = b.fcmp("ult", x, 1.0)  # NaN too
    return with_sign(b, b.select(inside, near, far), args[0])


def _log1p(b: FunctionBuilder, args: _Args) -> Value:
    """As all targets do, but that a reciprocal is enough for the correction."""

    def log(u: Value, error: Value) -> Value:
        low = b.fmul(error, _approximate(b, "rcp", u))
        return log_finite_single(b, u, low)

    return log1p_by(b, args[0], log)


def _rsqrt(b: FunctionBuilder, args: _Args) -> Value:
    return _approximate(b, "rsqrt", args[0])


def _tan(b: FunctionBuilder, args: _Args) -> Value:
    numerator, denominator = angles.tangent(b, args)
    return keep_zero(b, args[0], _quotient(b, numerator, denominator))


def _only_single(name: str, emitter: FloatEmitter) -> FloatEmitter:
    """The module's own function of f32, made once."""

    def double(b: FunctionBuilder, args: _Args) -> Value:
        raise UnsupportedError(f"{name} of this target is one of f32")

    return shared(f"gpu.{name}", emitter, double)


# Narrow results: f32 in, a result that is to be rounded to 8 or 11 bits.


def narrow_exp(b: FunctionBuilder, x: Value) -> Value:
    """exp of f32, for results of f16 and bf16: there x log2(e) is off by 2**-17 at most."""
    return _approximate(b, "ex2", b.fmul(x, _LOG2_E))


def _narrow_exp(b: FunctionBuilder, args: _Args) -> Value:
    return narrow_exp(b, args[0])


def _half_logistic(b: FunctionBuilder, args: _Args) -> Value:
    """1 / (1 + exp(-x)): where that overflows, f16 has nothing but 0."""
    rising = _approximate(b, "ex2", b.fmul(args[0], -_LOG2_E))
    return _approximate(b, "rcp", b.fadd(rising, 1.0))


def _bfloat_logistic(b: FunctionBuilder, args: _Args) -> Value:
    """By exp(-|x|), since bf16 has results where exp(-x) overflows."""
    falling = _approximate(b, "ex2", b.fmul(b.fabs(args[0]), -_LOG2_E))
    numerator = b.select(b.fcmp("olt", args[0], 0.0), falling, 1.0)
    return b.fmul(numerator, _approximate(b, "rcp", b.fadd(falling, 1.0)))


def _bfloat_log(b: FunctionBuilder, args: _Args) -> Value:
    """lg2 is off by 2**-22 near 1, where bf16 has no logarithm below 2**-9 but that of 1 itself."""
    found = b.fmul(_approximate(b, "lg2", args[0]), _LN2)
    return b.select(b.fcmp("oeq", args[0], 1.0), 0.0, found)


def _narrow_tanh(b: FunctionBuilder, args: _Args) -> Value:
    return _approximate(b, "tanh", args[0])


def _narrow_sqrt(b: FunctionBuilder, args: _Args) -> Value:
    return _approximate(b, "sqrt", args[0])


def _narrow_divide(b: FunctionBuilder, args: _Args) -> Value:
    return _approximate(b, "div", *args)


_Choice = tuple[FloatEmitter, str]
"""Code, and the approximations that it asks for."""
_SINGLE: Mapping[str, _Choice] = MappingProxyType(
    {
        "cosine": (_only_single("cos", angles.cosine), ""),
        "erf": (_only_single("erf", _erf), "ex2"),
        "exponential": (_only_single("exp", _exp), "ex2"),
        "log-plus-one": (_only_single("log1p", _log1p), "rcp"),
        "logistic": (_only_single("logistic", _logistic), "rcp"),
        "rsqrt": (_rsqrt, "rsqrt"),
        "sine": (_only_single("sin", angles.sine), ""),
        "tan": (_only_single("tan", _tan), "rcp"),
        "tanh": (_only_single("tanh", _tanh), "ex2 rcp"),
    }
)
_NARROW: Mapping[str, _Choice] = MappingProxyType(
    {
        "divide": (_narrow_divide, "div"),
        "exponential": (_narrow_exp, "ex2"),
        "logistic": (_half_logistic, "ex2 rcp"),
        "sqrt": (_narrow_sqrt, "sqrt"),
    }
)
_BFLOAT: Mapping[str, _Choice] = MappingProxyType(
    {
        "log": (_bfloat_log, "lg2"),
        "logistic": (_bfloat_logistic, "ex2 rcp"),
        "tanh": (_narrow_tanh, "tanh"),
    }
)
_TABLES: Mapping[str, tuple[Mapping[str, _Choice], ...]] = MappingProxyType(
    {"f32": (_SINGLE,), "f16": (_NARROW, _SINGLE), "bf16": (_BFLOAT, _NARROW, _SINGLE)}
)
"""By HLO type; what comes first is chosen, if the target has what it asks for."""


def functions_with(primitives: Collection[str]) -> FunctionTable:
    """A target's own code for opcodes on HLO float types; what is in no table is shared code.

    Args:
        primitives: approximations that the target defines, such as ``xd.ex2``. They may be as wrong
            as docs/reference/simt.md says.
    """
    known = frozenset(primitives)

    def function(opcode: str, dtype: str) -> FloatEmitter | None:
        for table in _TABLES.get(dtype, ()):
            emitter, needed = table.get(opcode, (None, ""))
            if emitter and known.issuperset(f"xd.{name}" for name in needed.split()):
                return emitter
        return None

    return function
