"""LLVM value types: an element type and a lane count, so one emitter serves scalars and vectors."""

from __future__ import annotations

from dataclasses import dataclass, field

_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


@dataclass(frozen=True, slots=True)
class IrType:
    """Type of an SSA value.

    Attributes:
        element: LLVM spelling of the scalar type, such as ``float``, ``i32`` or ``ptr``.
        lanes: 1 for a scalar, otherwise the length of the vector.
    """

    element: str
    lanes: int = 1
    text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"
        object.__setattr__(self, "text", text)

    def __str__(self) -> str:
        return self.text

    @property
    def is_float(self) -> bool:
        """True for half, bfloat, float and double elements."""
        return self.element in _FLOAT_BITS

    @property
    def is_integer(self) -> bool:
        """True for ``iN`` elements."""
        return self.element[0] == "i"

    @property
    def bits(self) -> int:
        """Width of one element in bits; pointers count as 64, void as 0."""
        if self.is_float:
            return _FLOAT_BITS[self.element]
        if self.is_integer:
            return int(self.element[1:])
        return 64 if self.element == "ptr" else 0

    @property
    def mangled(self) -> str:
        """Suffix of overloaded intrinsic names: ``f32``, ``i8``, ``v16f32``."""
        if self.element == "bfloat":
            scalar = "bf16"
        else:
            scalar = f"f{self.bits}" if self.is_float else self.element
        return scalar if self.lanes == 1 else f"v{self.lanes}{scalar}"

    def of(self, element: IrType) -> IrType:
        """The type with this lane count and the element type of ``element``."""
        return element if self.lanes == element.lanes else IrType(element.element, self.lanes)

    def scalar(self) -> IrType:
        """The type of one lane."""
        return self if self.lanes == 1 else IrType(self.element)


VOID = IrType("void")
PTR = IrType("ptr")
I1 = IrType("i1")
I8 = IrType("i8")
I16 = IrType("i16")
I32 = IrType("i32")
I64 = IrType("i64")
I128 = IrType("i128")
HALF = IrType("half")
BFLOAT = IrType("bfloat")
FLOAT = IrType("float")
DOUBLE = IrType("double")


def integer(bits: int, lanes: int = 1) -> IrType:
    """The integer type of a width in bits."""
    return IrType(f"i{bits}", lanes)


def vector(element: IrType, lanes: int) -> IrType:
    """The vector of ``lanes`` elements; the scalar type for one lane."""
    return IrType(element.element, lanes)
