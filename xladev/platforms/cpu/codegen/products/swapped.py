"""Dots whose operands change places: columns that lie along memory are rows of tiles, as they are.

Packing such a right operand goes through all of it in short pieces, which memory takes longer for
than tiles take for their products, if rows are not very many. As rows of tiles nothing is packed of
it; the left operand is, which is smaller, once for all. Sums come out turned, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I64, Value
from xladev.codegen.matrices import Matrices, Side, matrices_of
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import LONG_PANEL_NBYTES
from xladev.platforms.cpu.codegen.products.few_rows import MOST_ROWS
from xladev.platforms.cpu.codegen.products.kinds import VECTORS, WIDEST_NBYTES, ProductKind
from xladev.platforms.cpu.codegen.products.orders import Order, PanelArguments
from xladev.platforms.cpu.codegen.products.panel import call_pack
from xladev.platforms.cpu.codegen.products.swapped_block import (
    SwappedArguments,
    TurningArguments,
    call_swapped,
    call_turning,
)
from xladev.platforms.cpu.codegen.products.tables import LinesArguments, call_lines

LEAST_COLUMNS, LEAST_DEPTH = 96, 64
"""Sizes below which a block is hardly one."""
MOST_PACKED_NBYTES = 2 << 20
"""Of the left operand: each block goes through all that is packed."""
LEAST_GAIN = 2
"""How many times as many elements the right operand has as are packed, and turned of the result."""
LEAST_ROWS = MOST_ROWS + 1
LEAST_FULL = 15
"""Rows for each one that fills the last vector without being one: vectors of zeros take as long."""
BLOCK_COLUMNS = 48
"""Columns that one thread takes at once; tiles of 8 and of 6 divide them."""


@dataclass(frozen=True, slots=True)
class SwappedPlan:
    """A dot whose operands change places.

    Attributes:
        matrices: the operands and the result, as the dot has them.
        batch: sizes of the batch dimensions.
    """

    matrices: Matrices
    batch: tuple[int, ...]

    @property
    def total(self) -> PrimitiveType:
        """Type of the operands, the sums and the result."""
        return self.matrices.total

    @property
    def padded_rows(self) -> int:
        """Rows in whole tiles of the longest vectors."""
        widest = VECTORS * WIDEST_NBYTES // self.total.host_nbytes
        return -(-self.matrices.left.extent // widest) * widest

    @property
    def panel_nbytes(self) -> int:
        """Bytes of the left operand of one batch index, packed."""
        return self.padded_rows * self.matrices.left.depth * self.total.host_nbytes

    @property
    def private_nbytes(self) -> int:
        """What each thread needs: the table of a block's columns, and its sums."""
        return BLOCK_COLUMNS * (8 + self.padded_rows * self.total.host_nbytes)

    @property
    def workspace_nbytes(self) -> int:
        """What all need together."""
        return self.private_nbytes + prod(self.batch) * self.panel_nbytes


def swapped_plan(i: HloInstruction) -> SwappedPlan | None:
    """How a dot is computed with its operands swapped; None if it is not."""
    found = matrices_of(i)
    if found is None or any(x.shape.element_type is not found.total for x in (i, *i.operands)):
        return None
    _, left, right, result = found
    if right.step != 1 or right.free == 1 or result.column != 1:
        return None
    plan = SwappedPlan(found, i.shape.dims[: len(i["lhs_batch_dims"])])
    is_near = prod(plan.batch) * plan.panel_nbytes <= MOST_PACKED_NBYTES
    return plan if is_near and _pays(left, right, found.total) else None


def _pays(left: Side, right: Side, total: PrimitiveType) -> bool:
    """Whether the right operand is large beside all that is moved, and rows fill vectors."""
    rows, lanes = left.extent, WIDEST_NBYTES // total.host_nbytes
    is_full = -rows % lanes * LEAST_FULL <= rows
    is_large = right.extent >= LEAST_COLUMNS and right.depth >= LEAST_DEPTH
    moved = rows * (left.depth + right.extent)
    pays = LEAST_GAIN * moved <= right.extent * right.depth
    return rows >= LEAST_ROWS and is_full and is_large and pays


def emit_swapped(k: KernelBuild, plan: SwappedPlan) -> None:
    """Writes the kernel: packs the left operand, then blocks of columns, all of them apart."""
    _Swapped(k, plan).emit()


class _Swapped:
    def __init__(self, k: KernelBuild, plan: SwappedPlan) -> None:
        self.k, self.b, self.plan = k, k.b, plan
        total = plan.total
        self.kind = ProductKind.of(k.b.module.target, total, total, total)
        self.size = total.host_nbytes

    def emit(self) -> None:
        """Packs, and then shares blocks among threads."""
        k, b, at, p = self.k, self.b, self.k.e.at, self.plan
        panels = b.byte_address(k.scratch, p.private_nbytes)
        count = prod(p.batch)
        with b.loop(0, count) as number, k.e.scope():
            self._pack(tuple(at.delinear(number, p.batch)), self._panels(panels, number))
        extents = (count, -(-p.matrices.right.extent // BLOCK_COLUMNS))

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as unit, k.e.scope():
                number, block = at.delinear(unit, extents)
                batch = tuple(at.delinear(number, p.batch))
                first = at.value(at.mul(block, BLOCK_COLUMNS))
                self._block(batch, self._panels(panels, at.value(number)), first)

        k.split(prod(extents), part, captures=[panels], private_nbytes=p.private_nbytes)

    def _panels(self, panels: Value, number: Value) -> Value:
        """Those of a batch index."""
        return self.b.byte_address(panels, self.b.mul(number, self.plan.panel_nbytes))

    def _pack(self, batch: Index, panels: Value) -> None:
        """The left operand's rows as columns of panels; the last one has as few vectors as it
        needs."""
        b, kind, side, size = self.b, self.kind, self.plan.matrices.left, self.size
        base = self._address(0, batch, side, b.const(I64, 0))
        order = Order.COLUMNS if side.step == 1 else Order.APART
        if side.free == 1:
            order = Order.ROWS
        whole = side.extent - side.extent % kind.width

        def pack(row: Value, rows: int) -> None:
            panel = PanelArguments(
                panel=b.byte_address(panels, b.mul(row, side.depth * size)),
                source=b.byte_address(base, b.mul(row, side.free * size)),
                positions=b.const(I64, 1),
                position=b.const(I64, 0),
                steps=b.const(I64, side.depth),
                step=b.const(I64, side.step * size),
                column=b.const(I64, side.free * size),
                columns=b.const(I64, rows),
            )
            call_pack(b, kind, -(-rows // kind.lanes), order, panel)

        with b.loop(0, whole, kind.width) as row:
            pack(row, kind.width)
        if side.extent > whole:
            pack(b.const(I64, whole), side.extent - whole)

    def _block(self, batch: Index, panels: Value, column: Value) -> None:
        """The products of some columns with all rows, then the result's part."""
        k, b, p, kind = self.k, self.b, self.plan, self.kind
        _, left, right, result = p.matrices
        columns = b.intrinsic("smin", b.sub(b.const(I64, right.extent), column), BLOCK_COLUMNS)
        table = k.scratch
        sums = b.byte_address(table, 8 * BLOCK_COLUMNS)
        base = self._address(1, batch, right, column)
        stride = b.const(I64, right.free * self.size)
        call_lines(b, kind.rows, LinesArguments(table, base, stride, columns))
        sums_row = b.const(I64, p.padded_rows * self.size)
        arguments = SwappedArguments(
            table=table,
            rows=columns,
            steps=b.const(I64, right.depth),
            most_steps=b.const(I64, LONG_PANEL_NBYTES // (kind.width * kind.size)),
            panels=panels,
            columns=b.const(I64, left.extent),
            sums=sums,
            sums_row=sums_row,
            following=b.byte_address(base, b.mul(columns, stride)),
        )
        call_swapped(b, kind, arguments)
        at = k.e.at
        place = at.add(at.strided(batch, result.batch), column)
        kept = b.byte_address(k.results[0].base, at.value(at.mul(place, self.size)))
        row = b.const(I64, result.row * self.size)
        rows = b.const(I64, left.extent)
        call_turning(b, kind, TurningArguments(sums, sums_row, columns, rows, kept, row))

    def _address(self, number: int, batch: Index, side: Side, first: Value) -> Value:
        """Of a row or a column of an operand."""
        at = self.k.e.at
        base = self.k.e.arrays[self.k.root.operands[number]][0].base
        place = at.add(at.strided(batch, side.batch), at.mul(first, side.free))
        return self.b.byte_address(base, at.value(at.mul(place, self.size)))
