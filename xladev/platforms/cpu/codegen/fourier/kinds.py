"""What the functions of transforms have in common: the element type and the lanes of a vector."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.codegen.llvm import DOUBLE, FLOAT, FunctionBuilder, IrType, TargetTraits, Value, vector
from xladev.hlo.dtype import F64, PrimitiveType

Complex = tuple[Value, Value]
"""Real and imaginary parts, scalars or vectors."""


@dataclass(frozen=True, slots=True)
class FourierKind:
    """An element type, FLOAT or DOUBLE, and how many elements are computed at once."""

    element: IrType
    lanes: int

    @staticmethod
    def of(target: TargetTraits, dtype: PrimitiveType, extent: int) -> FourierKind:
        """The longest vectors of a target that ``extent`` elements fill, of a real type."""
        element = DOUBLE if dtype is F64 else FLOAT
        most = max(target.vector_nbytes * 8 // element.bits, 1)
        return FourierKind(element, most).narrowed(extent)

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return self.element.bits // 8

    @property
    def vector(self) -> IrType:
        """Type of a vector."""
        return vector(self.element, self.lanes)

    def narrowed(self, extent: int) -> FourierKind:
        """Vectors that ``extent`` elements, at least one, fill."""
        return replace(self, lanes=min(self.lanes, 1 << (extent.bit_length() - 1)))

    def name(self, what: str) -> str:
        """Of a microkernel."""
        dtype = "f64" if self.element == DOUBLE else "f32"
        return f"fft.{what}.{dtype}x{self.lanes}"

    def splat(self, b: FunctionBuilder, address: Value, number: int = 0) -> Value:
        """An element of memory, in every lane."""
        place = b.byte_address(address, number * self.nbytes)
        return b.splat(b.load(self.element, place), self.lanes)

    def load(self, b: FunctionBuilder, address: Value) -> Value:
        """A vector of memory."""
        return b.load(self.vector, address)


def times(b: FunctionBuilder, x: Complex, w: Complex) -> Complex:
    """The product of two complex numbers."""
    real = b.multiply_add(x[0], w[0], b.fneg(b.fmul(x[1], w[1])))
    return real, b.multiply_add(x[0], w[1], b.fmul(x[1], w[0]))
