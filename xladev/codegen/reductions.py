"""Reduces that can be reduced in vectors: how their elements are combined, and from what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder, IrType, Value, constant, vector
from xladev.codegen.scalar.elements import Element, compute_type, real_of
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.codegen.scalar.storage import round_to
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import Kind, PrimitiveType
from xladev.hlo.ir import HloInstruction

_INFINITY = float("inf")

_FLOAT_IDENTITIES: Mapping[str, float] = MappingProxyType(
    {"add": -0.0, "multiply": 1.0, "maximum": -_INFINITY, "minimum": _INFINITY}
)


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduce of one array by one opcode, which may take its elements in any order.

    Attributes:
        reduce: the instruction.
        opcode: what combines two elements.
        dtype: the type that they are combined in: f32 for sums of narrower floats.
        identity: what changes no element that it is combined with.
    """

    reduce: HloInstruction
    opcode: str
    dtype: PrimitiveType
    identity: float | int

    @property
    def type(self) -> IrType:
        """LLVM type of one element."""
        return compute_type(self.dtype)

    def start(self, lanes: int) -> Value:
        """The identity in every lane."""
        return constant(vector(self.type, lanes), self.identity)

    def combine(self, b: FunctionBuilder, held: Element, new: Element) -> Value:
        """Two elements or vectors as one."""
        types = (self.dtype, self.dtype)
        both = emit_elementwise(b, self.opcode, types, self.dtype, (held, new))
        return real_of(both, "a reduction in vectors")

    def by_halves(self, b: FunctionBuilder, elements: Sequence[Value]) -> Value:
        """All elements or vectors as one: the first half with the second, until one is left."""
        left = list(elements)
        while len(left) > 1:
            half = len(left) // 2
            pairs = zip(left[:half], left[half:], strict=True)
            left = [self.combine(b, *pair) for pair in pairs]
        return left[0]

    def rounded(self, b: FunctionBuilder, total: Element) -> Element:
        """What was combined, in the result's type."""
        dtype = self.reduce.shape.element_type
        return total if self.dtype is dtype else round_to(b, real_of(total, "a sum"), dtype)


def reduction_of(i: HloInstruction) -> Reduction | None:
    """How a reduce is reduced in vectors; None if its order or its type forbid that.

    A reduce-window over rows is combined in the same way.
    """
    if i.opcode not in ("reduce", "reduce-window") or len(i.operands) != 2:
        return None
    computation, dtype = i["to_apply"], i.shape.element_type
    root = computation.root
    plain = len(computation.instructions) == 3 and set(root.operands) == set(computation.parameters)
    if not plain or dtype.is_complex or root.shape.element_type is not dtype:
        return None
    identity = _identity(root.opcode, dtype)
    if identity is None:
        return None
    sums = dtype.is_narrow_float and root.opcode in ("add", "multiply")
    return Reduction(i, root.opcode, dt.F32 if sums else dtype, identity)


def _identity(opcode: str, dtype: PrimitiveType) -> float | int | None:
    if dtype.is_float:
        return _FLOAT_IDENTITIES.get(opcode)
    bits = 1 if dtype.kind is Kind.PRED else dtype.bits
    lowest = -(1 << (bits - 1)) if dtype.is_signed else 0
    highest = (1 << (bits - dtype.is_signed)) - 1
    found = {"add": 0, "multiply": 1, "and": -1, "or": 0, "xor": 0}
    return {**found, "maximum": lowest, "minimum": highest}.get(opcode)
