"""An HLO array in memory, as kernels see it: base pointer, shape with layout, alias metadata."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.codegen.index import Index, IndexMath, IndexValue
from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.storage import load_element, store_element
from xladev.hlo.shape import Shape


def element_strides(shape: Shape) -> tuple[int, ...]:
    """Distance, in elements, between neighbours along each dimension of a dense array."""
    strides = [0] * shape.rank
    step = 1
    for dimension in shape.minor_to_major:
        strides[dimension] = step
        step *= shape.dims[dimension]
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class IrArray:
    """A dense array at a pointer.

    Attributes:
        base: pointer to its first byte.
        shape: its static shape; row-major where no layout was chosen.
        metadata: alias metadata of every access, such as ``!alias.scope !1, !noalias !2``.
    """

    base: Value
    shape: Shape
    metadata: str = ""

    def offset(self, b: FunctionBuilder, index: Index) -> IndexValue:
        """Position of an element, in elements from the base."""
        kept = tuple(0 if size == 1 else i for i, size in zip(index, self.shape.dims, strict=True))
        return IndexMath(b).strided(kept, element_strides(self.shape))

    def load(self, b: FunctionBuilder, index: Index) -> Element:
        """Reads one element."""
        return self.load_linear(b, self.offset(b, index))

    def load_linear(self, b: FunctionBuilder, offset: IndexValue) -> Element:
        """Reads the element at a position from the base."""
        dtype = self.shape.element_type
        return load_element(b, self.base, offset, dtype, metadata=self.metadata)

    def store(self, b: FunctionBuilder, index: Index, element: Element) -> None:
        """Writes one element."""
        offset = self.offset(b, index)
        dtype = self.shape.element_type
        store_element(b, self.base, offset, dtype, element, metadata=self.metadata)
