"""Emission of one element of any elementwise HLO opcode on any element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder, Value, constant
from xladev.codegen.math.functions import MATH
from xladev.codegen.scalar.compare import emit_compare
from xladev.codegen.scalar.complex import COMPLEX_EMITTERS
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import (
    ComplexValue,
    Element,
    complex_of,
    real_of,
)
from xladev.codegen.scalar.floats import EXACT, ROUNDED
from xladev.codegen.scalar.integers import INTEGER_EMITTERS, PRED_EMITTERS
from xladev.codegen.scalar.operation import FloatEmitter, GeneralEmitter, ScalarOperation
from xladev.codegen.scalar.precision import emit_reduce_precision
from xladev.codegen.scalar.stochastic import emit_stochastic_convert
from xladev.codegen.scalar.storage import from_bits, round_to, round_to_bf16, to_bits
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import BF16, F8E8M0FNU, F16, Kind, PrimitiveType

_Args = Sequence[Element]

_LEAST_SCALE = 2.0**-127
_NEVER_ZERO = frozenset({"multiply", "divide"})
"""Opcodes that give no zero of scales, which are positive; in f32, where they run, some vanish."""

_ARITHMETIC = frozenset({"add", "divide", "multiply", "subtract"})
"""Opcodes that are one instruction, whose NaN is the default one or that of an operand."""

FLOAT_EMITTERS: Mapping[str, FloatEmitter] = MappingProxyType({**EXACT, **ROUNDED, **MATH})


def emit_elementwise(
    b: FunctionBuilder,
    opcode: str,
    operand_types: Sequence[PrimitiveType],
    result_type: PrimitiveType,
    operands: Sequence[Element],
    attributes: Mapping[str, object] | None = None,
) -> Element:
    """One element (or vector of elements) of an elementwise HLO instruction.

    Args:
        b: where to emit.
        opcode: as spelled in HLO text.
        operand_types: element types of the operands.
        result_type: element type of the result.
        operands: in compute representation (`elements`), all of one lane count.
        attributes: the instruction's attributes by their text spelling, such as ``direction``.

    Returns:
        The result in the compute representation of ``result_type``.

    Raises:
        UnsupportedError: the opcode is not elementwise, or not defined on these types.
    """
    operation = ScalarOperation(opcode, tuple(operand_types), result_type, attributes or {})
    general = GENERAL_EMITTERS.get(opcode)
    if general is not None:
        return general(b, operation, operands)
    kind = operation.dtype.kind
    if kind is Kind.COMPLEX:
        return _emit_complex(b, operation, operands)
    values = [real_of(operand, opcode) for operand in operands]
    if kind is Kind.FLOAT:
        return _emit_float(b, operation, values)
    return _emit_integer(b, operation, values)


def is_elementwise(opcode: str) -> bool:
    """True if `emit_elementwise` knows the opcode, on some type."""
    return any(opcode in table for table in _TABLES)


def _emit_float(b: FunctionBuilder, operation: ScalarOperation, values: Sequence[Value]) -> Value:
    own = b.module.target.functions(operation.opcode, operation.dtype.name)
    emitter = own or FLOAT_EMITTERS.get(operation.opcode)
    if emitter is None:
        raise _unsupported(operation)
    result = emitter(b, values)
    if operation.dtype is F8E8M0FNU and operation.opcode in _NEVER_ZERO:
        result = b.intrinsic("maximum", result, _LEAST_SCALE)
    if operation.opcode in EXACT and operation.dtype in (F16, BF16):
        return result
    if operation.dtype is BF16 and operation.opcode in _ARITHMETIC:
        return round_to_bf16(b, result)
    return round_to(b, result, operation.dtype)


def _emit_integer(b: FunctionBuilder, operation: ScalarOperation, values: Sequence[Value]) -> Value:
    table = PRED_EMITTERS if operation.dtype.kind is Kind.PRED else INTEGER_EMITTERS
    emitter = table.get(operation.opcode)
    if emitter is None:
        raise _unsupported(operation)
    return emitter(b, operation.dtype, values)


def _emit_complex(b: FunctionBuilder, operation: ScalarOperation, operands: _Args) -> Element:
    emitter = COMPLEX_EMITTERS.get(operation.opcode)
    if emitter is None:
        raise _unsupported(operation)
    return emitter(b, [complex_of(x, operation.opcode) for x in operands])


def _unsupported(operation: ScalarOperation) -> UnsupportedError:
    return UnsupportedError(
        f"no elementwise code for {operation}",
        why=f"{operation.opcode} has no code for {operation.dtype}",
    )


def _select(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    condition, true, false = real_of(args[0], "a select condition"), args[1], args[2]
    if isinstance(true, ComplexValue) and isinstance(false, ComplexValue):
        return ComplexValue(
            b.select(condition, true.real, false.real), b.select(condition, true.imag, false.imag)
        )
    return b.select(condition, real_of(true, "select"), real_of(false, "select"))


def _clamp(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    """min(max(x, low), high); a NaN among the operands wins."""
    types = operation.operands[1:]
    raised = emit_elementwise(b, "maximum", types, operation.result, (args[1], args[0]))
    return emit_elementwise(b, "minimum", types, operation.result, (raised, args[2]))


def _convert(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    return emit_convert(b, args[0], operation.dtype, operation.result)


def _bitcast_convert(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    if operation.dtype.bits != operation.result.bits:
        raise UnsupportedError(
            f"{operation} changes the width of elements",
            hint="read or write the bits with to_bits and from_bits",
        )
    return from_bits(b, to_bits(b, args[0], operation.dtype), operation.result)


def _is_finite(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    magnitude = b.fabs(real_of(args[0], "is-finite"))
    return b.fcmp("olt", magnitude, float("inf"))


def _complex(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    return ComplexValue(real_of(args[0], "complex"), real_of(args[1], "complex"))


def _real(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    return args[0].real if isinstance(args[0], ComplexValue) else args[0]


def _imag(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    if isinstance(args[0], ComplexValue):
        return args[0].imag
    return constant(args[0].type, 0.0 if operation.dtype.is_float else 0)


def _copy(b: FunctionBuilder, operation: ScalarOperation, args: _Args) -> Element:
    return args[0]


GENERAL_EMITTERS: Mapping[str, GeneralEmitter] = MappingProxyType(
    {
        "compare": emit_compare,
        "select": _select,
        "clamp": _clamp,
        "convert": _convert,
        "bitcast-convert": _bitcast_convert,
        "reduce-precision": emit_reduce_precision,
        "stochastic-convert": emit_stochastic_convert,
        "is-finite": _is_finite,
        "complex": _complex,
        "real": _real,
        "imag": _imag,
        "copy": _copy,
    }
)

_TABLES = (GENERAL_EMITTERS, FLOAT_EMITTERS, INTEGER_EMITTERS, PRED_EMITTERS, COMPLEX_EMITTERS)
