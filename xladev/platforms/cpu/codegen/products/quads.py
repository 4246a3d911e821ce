"""Packing of bytes, four to a step, for the instruction that multiplies them.

It takes bytes without a sign and bytes with one. So 128 is added to the elements of rows, and each
panel begins with what that adds to the sums of its columns, negated.
"""

from __future__ import annotations

from xladev.codegen.llvm import I8, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.products.byte_products import multiply_add_quads
from xladev.platforms.cpu.codegen.products.groups import GroupPacking
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.orders import Order, PanelArguments

ONES = 0x01010101


def emit_pack_quads(
    b: FunctionBuilder, kind: ProductKind, vectors: int, order: Order, a: PanelArguments
) -> None:
    """Writes the function that packs; see `call_pack`."""
    _Quads(b, kind, vectors, a, I8).emit_with_corrections(order)


class _Quads(GroupPacking):
    def emit_with_corrections(self, order: Order) -> None:
        """All positions after the first line; then that one."""
        first = self.b.byte_address(self.a.panel, self.line)
        self.emit(order, first)
        self._corrections(first)

    def _corrections(self, first: Value) -> None:
        """What rows with 128 added to their elements sum up too much, negated."""
        b, kind = self.b, self.kind
        ones = b.const(kind.vector, ONES)
        zeros = [b.const(kind.vector, 0)] * self.vectors
        with b.carried_loop(0, b.mul(self.a.positions, self.a.steps), initial=zeros) as loop:
            line = b.byte_address(first, b.mul(loop.index, self.line))
            columns = [
                b.load(kind.vector, b.byte_address(line, v * kind.nbytes))
                for v in range(self.vectors)
            ]
            loop.carry(*(
                multiply_add_quads(b, ones, x, total)
                for x, total in zip(columns, loop.values, strict=True)
            ))  # fmt: skip
        for v, total in enumerate(loop.values):
            place = b.byte_address(self.a.panel, v * kind.nbytes)
            b.store(b.mul(total, -128), place)
