"""What distinguishes one set of product functions from another: types and the target's vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xladev.codegen.kernels.products.byte_products import multiply_add_quads, spread_quad
from xladev.codegen.llvm import FunctionBuilder, IrType, TargetTraits, Value, vector
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import compute_type, real_of
from xladev.codegen.scalar.storage import decode_stored, storage_type
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType

WIDEST_NBYTES = 64
"""Bytes of the longest vectors that tiles are made of."""
CACHE_LINE_NBYTES = 64
VECTORS = 2
"""Vectors of columns in a tile."""
PANEL_NBYTES = 32 << 10
"""Bytes of a panel of packed columns: as much as stays in the nearest cache, or comes from the next
one faster than it is used."""


def vector_length(nbytes: int, total: PrimitiveType) -> int:
    """Bytes of the vectors of sums, on a machine whose own have ``nbytes``; at least one sum."""
    return max(min(nbytes, WIDEST_NBYTES), total.host_nbytes)


@dataclass(frozen=True, slots=True)
class ProductKind:
    """A set of functions that compute products.

    Attributes:
        left: type of the elements of the rows, as they lie in memory.
        right: likewise of the columns.
        total: type of the sums.
        nbytes: length of a vector.
        has_quads: true if a step is four bytes of a row, which are neighbours in memory.
    """

    left: PrimitiveType
    right: PrimitiveType
    total: PrimitiveType
    nbytes: int
    has_quads: bool = False

    @staticmethod
    def of(
        target: TargetTraits, left: PrimitiveType, right: PrimitiveType, total: PrimitiveType
    ) -> ProductKind:
        """The one for a target."""
        return ProductKind(left, right, total, vector_length(target.vector_nbytes, total))

    def in_quads(self, target: TargetTraits) -> ProductKind | None:
        """The same with four bytes a step; None if there is no instruction for that."""
        types = (self.left, self.right, self.total)
        if types != (dt.S8, dt.S8, dt.S32) or not target.has_byte_products:
            return None
        return replace(self, has_quads=True) if self.nbytes == WIDEST_NBYTES else None

    def name(self, what: str) -> str:
        """Name of a function of this kind."""
        types = f"{self.left.name}.{self.right.name}.{self.total.name}"
        return f"{what}.{types}.{self.nbytes}{'.quads' if self.has_quads else ''}"

    @property
    def size(self) -> int:
        """Bytes of a sum."""
        return self.total.host_nbytes

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return max(self.nbytes // self.size, 1)

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return VECTORS * self.lanes

    @property
    def rows(self) -> int:
        """Rows of a tile: with 64-byte vectors, 16 registers of 32 hold sums; else 12 of 16."""
        return 8 if self.nbytes == WIDEST_NBYTES else 6

    @property
    def depth(self) -> int:
        """Rows of a packed panel; another one, that comes first in panels of quads, apart."""
        return PANEL_NBYTES // (self.width * self.size) - self.has_quads

    @property
    def element(self) -> IrType:
        """One sum."""
        return compute_type(self.total)

    @property
    def vector(self) -> IrType:
        """A vector of sums."""
        return vector(self.element, self.lanes)

    def read(self, b: FunctionBuilder, address: Value, dtype: PrimitiveType, lanes: int) -> Value:
        """``lanes`` neighbours in memory, in the type of the sums."""
        loaded = b.load(vector(storage_type(dtype), lanes), address)
        return self._converted(b, loaded, dtype)

    def spread(self, b: FunctionBuilder, address: Value) -> Value:
        """One element of a row in all lanes: spread as it lies in memory, and then converted."""
        if self.has_quads:
            return spread_quad(b, address)
        loaded = b.load(storage_type(self.left), address)
        return self._converted(b, b.splat(loaded, self.lanes), self.left)

    def _converted(self, b: FunctionBuilder, loaded: Value, dtype: PrimitiveType) -> Value:
        value = decode_stored(b, loaded, dtype)
        if dtype is not self.total:
            value = real_of(emit_convert(b, value, dtype, self.total), "a product")
        return value

    def multiply_add(self, b: FunctionBuilder, left: Value, right: Value, total: Value) -> Value:
        """The sum with one more product, which is not rounded where the processor can do that."""
        if self.has_quads:
            return multiply_add_quads(b, left, right, total)
        if self.element.is_float:
            return b.multiply_add(left, right, total)
        return b.add(total, b.mul(left, right))
