"""Arithmetic, comparison, selection and casts on values of any lane count."""

from __future__ import annotations

from xladev.codegen.llvm.emitter import InstructionEmitter
from xladev.codegen.llvm.instructions import BinaryOperator, CastInst, IntrinsicInst
from xladev.codegen.llvm.intrinsics import lookup
from xladev.codegen.llvm.types import I1, I32, I64, IrType
from xladev.codegen.llvm.values import Operand, Value, constant, poison
from xladev.errors import CompileError


class Arithmetic(InstructionEmitter):
    """Instructions without memory or control flow.

    Operands may be Python numbers where the other operand fixes the type. No fast-math flag is
    ever implied: ``flags`` (such as ``"contract nsz"``) are those given at the call.
    """

    # -- binary ---------------------------------------------------------------------------------

    def binary(self, instruction: str, left: Operand, right: Operand) -> Value:
        """Any two-operand instruction; at least one operand must be a value."""
        if isinstance(left, Value):
            right = self.like(right, left)
        elif isinstance(right, Value):
            left = self.like(left, right)
        else:
            raise CompileError(f"{instruction} of two Python numbers", hint="fold it in Python")
        if left.type != right.type:
            raise CompileError(
                f"{instruction} of {left.type} and {right.type}", where=f"@{self.name}"
            )
        made = self.emit(left.type, f"{instruction} {left.type.text} {left.text}, {right.text}")
        if self._keeps:
            self._note(BinaryOperator(instruction, left, right, made.text))
        return made

    def fadd(self, left: Operand, right: Operand, flags: str = "") -> Value:
        """Floating-point sum."""
        return self.binary(f"fadd {flags}" if flags else "fadd", left, right)

    def fsub(self, left: Operand, right: Operand, flags: str = "") -> Value:
        """Floating-point difference."""
        return self.binary(f"fsub {flags}" if flags else "fsub", left, right)

    def fmul(self, left: Operand, right: Operand, flags: str = "") -> Value:
        """Floating-point product."""
        return self.binary(f"fmul {flags}" if flags else "fmul", left, right)

    def fdiv(self, left: Operand, right: Operand, flags: str = "") -> Value:
        """Floating-point quotient."""
        return self.binary(f"fdiv {flags}" if flags else "fdiv", left, right)

    def add(self, left: Operand, right: Operand) -> Value:
        """Integer sum, wrapping."""
        return self.binary("add", left, right)

    def sub(self, left: Operand, right: Operand) -> Value:
        """Integer difference, wrapping."""
        return self.binary("sub", left, right)

    def mul(self, left: Operand, right: Operand) -> Value:
        """Low half of the integer product."""
        return self.binary("mul", left, right)

    def udiv(self, left: Operand, right: Operand) -> Value:
        """Unsigned quotient; the divisor must not be zero."""
        return self.binary("udiv", left, right)

    def sdiv(self, left: Operand, right: Operand) -> Value:
        """Signed quotient; neither a zero divisor nor overflow is allowed."""
        return self.binary("sdiv", left, right)

    def urem(self, left: Operand, right: Operand) -> Value:
        """Unsigned remainder; the divisor must not be zero."""
        return self.binary("urem", left, right)

    def srem(self, left: Operand, right: Operand) -> Value:
        """Signed remainder; neither a zero divisor nor overflow is allowed."""
        return self.binary("srem", left, right)

    def and_(self, left: Operand, right: Operand) -> Value:
        """Bitwise and."""
        return self.binary("and", left, right)

    def or_(self, left: Operand, right: Operand) -> Value:
        """Bitwise or."""
        return self.binary("or", left, right)

    def xor(self, left: Operand, right: Operand) -> Value:
        """Bitwise exclusive or."""
        return self.binary("xor", left, right)

    def shl(self, left: Operand, right: Operand) -> Value:
        """Left shift by less than the width."""
        return self.binary("shl", left, right)

    def lshr(self, left: Operand, right: Operand) -> Value:
        """Logical right shift by less than the width."""
        return self.binary("lshr", left, right)

    def ashr(self, left: Operand, right: Operand) -> Value:
        """Arithmetic right shift by less than the width."""
        return self.binary("ashr", left, right)

    # -- unary ----------------------------------------------------------------------------------

    def fneg(self, value: Value) -> Value:
        """Flips the sign bit, of NaNs too."""
        return self.emit(value.type, f"fneg {value}")

    def neg(self, value: Value) -> Value:
        """Integer negation, wrapping."""
        return self.sub(0, value)

    def not_(self, value: Value) -> Value:
        """Bitwise complement."""
        return self.xor(value, -1)

    # -- comparison and selection ---------------------------------------------------------------

    def _compare(self, instruction: str, left: Operand, right: Operand) -> Value:
        result = self.binary(instruction, left, right)
        return Value(result.text, result.type.of(I1))

    def icmp(self, predicate: str, left: Operand, right: Operand) -> Value:
        """Integer comparison: ``eq ne slt sle sgt sge ult ule ugt uge``."""
        return self._compare(f"icmp {predicate}", left, right)

    def fcmp(self, predicate: str, left: Operand, right: Operand) -> Value:
        """Float comparison: ``oeq olt ole ogt oge one ord`` and ``u..``, true if unordered."""
        return self._compare(f"fcmp {predicate}", left, right)

    def select(self, condition: Value, true: Operand, false: Operand) -> Value:
        """Lane by lane choice; a scalar condition chooses whole vectors."""
        if isinstance(true, Value):
            false = self.like(false, true)
        elif isinstance(false, Value):
            true = self.like(true, false)
        else:
            raise CompileError("select of two Python numbers", hint="make one a constant value")
        return self.emit(true.type, f"select {condition}, {true}, {false}")

    # -- casts ----------------------------------------------------------------------------------

    def cast(self, instruction: str, value: Value, element: IrType) -> Value:
        """Any conversion instruction to ``element``, lane by lane."""
        target = value.type.of(element)
        made = self.emit(target, f"{instruction} {value} to {target.text}")
        if self._keeps:
            self._note(CastInst(instruction, value, target, made.text))
        return made

    def bitcast(self, value: Value, element: IrType) -> Value:
        """The same bits as another type of the same width."""
        return (
            value if value.type.element == element.element else self.cast("bitcast", value, element)
        )

    def resize(self, value: Value, element: IrType, signed: bool) -> Value:
        """Integer to integer: truncates, or extends by sign or zeros."""
        have, want = value.type.bits, element.bits
        if have == want:
            return value
        return self.cast("trunc" if have > want else "sext" if signed else "zext", value, element)

    def refloat(self, value: Value, element: IrType) -> Value:
        """Float to float, rounding to nearest even."""
        have, want = value.type.bits, element.bits
        if have == want:
            return value
        if have < want:
            return self.cast("fpext", value, element)
        if have == 64:
            # LLVM takes a copysign through the conversions, and then rounds the sign's operand
            # from double to half at once: a call of a function nobody provides.
            value = self.intrinsic("arithmetic.fence", value)
        return self.cast("fptrunc", value, element)

    # -- intrinsics -----------------------------------------------------------------------------

    def intrinsic(self, name: str, *operands: Operand, result: IrType | None = None) -> Value:
        """Calls ``llvm.<name>``; only those of `INTRINSICS` are allowed.

        Args:
            name: without ``llvm.`` and without the type suffix.
            operands: at least one value; numbers take its type.
            result: element type of the result, for conversions alone.
        """
        row = lookup(name)
        first = next(o for o in operands if isinstance(o, Value))
        row.check(name, first.type, len(operands))
        values = [self.like(operand, first) for operand in operands]
        returned = {"same": first.type, "element": first.type.scalar()}.get(row.result)
        suffix = first.type.mangled
        if returned is None:
            returned = first.type.of(result or first.type)
            suffix = f"{returned.mangled}.{suffix}"
        arguments = ", ".join([str(v) for v in values] + ([row.suffix] if row.suffix else []))
        symbol = f"llvm.{name}.{suffix}"
        kinds = [v.type.text for v in values] + ([row.suffix.split()[0]] if row.suffix else [])
        self.module.declare_intrinsic(symbol, returned, kinds)
        made = self.emit(returned, f"call {returned.text} @{symbol}({arguments})")
        if self._keeps:
            self._note(IntrinsicInst(name, tuple(values), made.text))
        return made

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """``x * y + z``, rounded once."""
        return self.intrinsic("fma", x, y, z)

    def multiply_add(self, x: Operand, y: Operand, z: Operand) -> Value:
        """``x * y + z``, rounded once where the processor can do that and twice elsewhere."""
        if self.module.target.has_fma:
            return self.fma(x, y, z)
        return self.fadd(self.fmul(x, y), z)

    def fabs(self, value: Value) -> Value:
        """Clears the sign bit."""
        return self.intrinsic("fabs", value)

    def sqrt(self, value: Value) -> Value:
        """Correctly rounded square root."""
        return self.intrinsic("sqrt", value)

    def copysign(self, magnitude: Operand, sign: Operand) -> Value:
        """Magnitude of one with the sign bit of the other."""
        if isinstance(sign, Value):
            sign = self.intrinsic("arithmetic.fence", sign)  # see `refloat`
        return self.intrinsic("copysign", magnitude, sign)

    def scaled(self, value: Value, exponent: Value) -> Value:
        """``value * 2**exponent``, rounded once, of 16 f32; only for targets with `has_scaling`.

        The exponent is a float; LLVM has no intrinsic for this that all targets know.
        """
        kind, symbol = value.type.text, "llvm.x86.avx512.mask.scalef.ps.512"
        self.module.declare_intrinsic(symbol, value.type, (kind, kind, kind, "i16", "i32"))
        operands = f"{value}, {exponent}, {kind} poison, i16 -1, i32 4"
        return self.emit(value.type, f"call {kind} @{symbol}({operands})")

    def look_up(self, table: Value, numbers: Value) -> Value:
        """Lanes of a table by the lowest bits of their numbers; for targets with `has_lookups`.

        The table and the numbers fill a vector of 64 bytes each: 16 f32, or 32 integers of 16 bits.
        """
        kind = "sf" if table.type.is_float else "hi"
        symbol = f"llvm.x86.avx512.permvar.{kind}.512"
        self.module.declare_intrinsic(symbol, table.type, (table.type.text, numbers.type.text))
        return self.emit(table.type, f"call {table.type} @{symbol}({table}, {numbers})")

    # -- lanes ----------------------------------------------------------------------------------

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if lanes == 1:
            return value
        type_ = IrType(value.type.element, lanes)
        one = self.insert(poison(type_), value, 0)
        mask = constant(IrType("i32", lanes), 0)
        return self.emit(type_, f"shufflevector {one}, {poison(type_)}, {mask}")

    def extract(self, vector: Value, lane: Value | int) -> Value:
        """One lane of a vector; a scalar is its own only lane."""
        if vector.lanes == 1:
            return vector
        index = lane if isinstance(lane, Value) else constant(I64, lane)
        return self.emit(vector.type.scalar(), f"extractelement {vector}, {index}")

    def insert(self, vector: Value, scalar: Value, lane: Value | int) -> Value:
        """The vector with one lane replaced."""
        if vector.lanes == 1:
            return scalar
        index = lane if isinstance(lane, Value) else constant(I64, lane)
        return self.emit(vector.type, f"insertelement {vector}, {scalar}, {index}")

    def shuffle(self, left: Value, right: Value, lanes: tuple[int, ...]) -> Value:
        """Picks lanes out of two vectors laid end to end."""
        type_ = IrType(left.type.element, len(lanes))
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        operands = f"shufflevector {left}, {right}, <{len(lanes)} x i32> <{mask}>"
        return self.emit(type_, operands)

    def compress(self, vector: Value, mask: Value) -> Value:
        """The lanes of a mask, one behind the other; what is behind them is arbitrary."""
        if vector.lanes == 1:
            return vector
        kind, chosen = vector.type.text, mask.type.text
        symbol = f"llvm.experimental.vector.compress.{vector.type.mangled}"
        self.module.declare_intrinsic(symbol, vector.type, (kind, chosen, kind))
        return self.emit(vector.type, f"call {kind} @{symbol}({vector}, {mask}, {kind} poison)")

    def any(self, mask: Value) -> Value:
        """A scalar i1: true if any lane of the mask is."""
        return mask if mask.lanes == 1 else self.intrinsic("vector.reduce.or", mask)

    def lane_numbers(self, lanes: int, element: IrType = I32) -> Value:
        """The vector 0, 1, 2, ..."""
        items = ", ".join(f"{element} {i}" for i in range(lanes))
        return Value(f"<{items}>" if lanes > 1 else "0", IrType(element.element, lanes))
