"""Packing of all columns of an operand that several blocks use: panels as `Order.PANELS` has them.

`panel.py` packs one panel, within microkernels that go through the operand themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.products.orders import Order, PanelArguments
from xladev.platforms.cpu.codegen.products.panel import call_pack


class AllPanelsArguments(NamedTuple):
    """What the function is called with; strides in bytes.

    Attributes:
        panel: where to pack: one panel after the other, each as wide as a tile.
        source: first element.
        steps: lines of each panel.
        step: from one step to the next in the source.
        column: from one column to the next there.
        columns: how many there are; after the last one, a panel is filled with zeros.
    """

    panel: Value
    source: Value
    steps: Value
    step: Value
    column: Value
    columns: Value


def call_pack_all(
    b: FunctionBuilder, kind: ProductKind, order: Order, arguments: AllPanelsArguments
) -> None:
    """Calls the function that packs all columns, which the module has once."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        _emit(inner, kind, order, AllPanelsArguments(*values))

    b.call_microkernel(kind.packed_name(f"pack_all.{order.value}"), arguments, emit)


def _emit(b: FunctionBuilder, kind: ProductKind, order: Order, a: AllPanelsArguments) -> None:
    line = kind.width * kind.size
    with b.loop(0, a.columns, kind.width) as column:
        number = b.udiv(column, kind.width)
        arguments = PanelArguments(
            panel=b.byte_address(a.panel, b.mul(number, b.mul(a.steps, line))),
            source=b.byte_address(a.source, b.mul(column, a.column)),
            positions=b.const(I64, 1),
            position=b.const(I64, 0),
            steps=a.steps,
            step=a.step,
            column=a.column,
            columns=b.intrinsic("smin", b.sub(a.columns, column), kind.width),
        )
        call_pack(b, kind, kind.vectors, order, arguments)
