"""Writes convolutions as blocks of products whose rows a table gives."""

from __future__ import annotations

from math import prod

from xladev.codegen.index import Index, IndexValue
from xladev.codegen.llvm import I64, PTR, Value, vector
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.channels import ChannelsArguments, call_channels
from xladev.platforms.cpu.codegen.products.driver import BlockArguments, call_block
from xladev.platforms.cpu.codegen.products.epilogue import Finish
from xladev.platforms.cpu.codegen.products.filters import FiltersArguments, call_pack_filters
from xladev.platforms.cpu.codegen.products.kinds import WIDEST_NBYTES
from xladev.platforms.cpu.codegen.products.non_temporal import CACHED, fence_non_temporal
from xladev.platforms.cpu.codegen.products.orders import Order
from xladev.platforms.cpu.codegen.products.tables import WindowKind, WindowsArguments, call_windows
from xladev.platforms.cpu.codegen.products.window_blocks import block_sizes
from xladev.platforms.cpu.codegen.products.windows import Packing, WindowPlan

ELEMENT_NS = 0.15
"""To pack an element of the filters, about."""
SHARED_NS = 30_000.0
"""Packing that takes less stays in one thread."""
AHEAD_NBYTES = 16 << 10
"""By how much of its result a depthwise convolution fetches its base ahead; 4096 to 16384 take as
long, within the noise."""


def emit_windows(k: KernelBuild, plan: WindowPlan, finish: Finish | None = None) -> None:
    """Writes the kernel: blocks of pixels and features for each group, all of them apart.

    Args:
        k: the kernel, up to its convolution.
        plan: how that is computed.
        finish: goes on with a block of the result; None if that is all.
    """
    _Blocks(k, plan, finish).emit()


class _Blocks:
    def __init__(self, k: KernelBuild, plan: WindowPlan, finish: Finish | None) -> None:
        self.k, self.b, self.plan, self.finish = k, k.b, plan, finish
        self.kind = plan.kind(k.b.module.target.vector_nbytes)
        self.pixels = prod(plan.pixels)
        self.rows, self.columns = block_sizes(
            plan, self.kind, k.is_shared, goes_on=finish is not None
        )

    def emit(self) -> None:
        """One loop over all blocks, in parts; before it, filters that are packed at once."""
        p, b, at = self.plan, self.b, self.k.e.at
        packed = []
        if p.packing is Packing.ALL:
            self.packed = b.byte_address(self.k.scratch, p.private_nbytes)
            packed.append(self.packed)
            self._pack_all()
        groups = 1 if p.is_depthwise else p.groups
        extents = (groups, -(-self.pixels // self.rows), -(-p.features // self.columns))

        def part(begin: IndexValue, end: IndexValue) -> None:
            self._clear()
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                group, row, column = at.delinear(number, extents)
                begins = b.icmp("eq", number, at.value(begin))
                has_table = b.or_(begins, b.icmp("eq", at.value(column), 0))
                self._block(group, at.mul(row, self.rows), at.mul(column, self.columns), has_table)
            if p.is_non_temporal and self.finish is None:
                fence_non_temporal(b)

        self.k.split(prod(extents), part, captures=packed, private_nbytes=p.private_nbytes)

    # Filters that are packed

    @property
    def _panel_nbytes(self) -> int:
        """Bytes of a panel of all the depth."""
        return self.plan.positions * self.plan.channels * self.kind.width * self.kind.size

    def _pack_all(self) -> None:
        """Panels of all groups, by several threads where that takes long."""
        p, b, at, width = self.plan, self.b, self.k.e.at, self.kind.width
        extents = p.groups, -(-p.features // width)

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                group, panel = at.delinear(number, extents)
                column = at.value(at.mul(panel, width))
                columns = b.intrinsic("smin", b.sub(p.features, column), width)
                place = b.byte_address(self.packed, at.value(at.mul(number, self._panel_nbytes)))
                self._pack(place, self._source(group, column), columns)

        elements = p.groups * p.features * p.positions * p.channels
        if elements * ELEMENT_NS < SHARED_NS:
            part(0, prod(extents))
        else:
            self.k.split(prod(extents), part, captures=[self.packed])

    def _pack(self, panel: Value, source: Value, columns: Value) -> None:
        p, b = self.plan, self.b
        positions, channels = b.const(I64, p.positions), b.const(I64, p.channels)
        column = b.const(I64, p.right[2] * self.kind.size)
        arguments = FiltersArguments(panel, source, positions, channels, column, columns)
        call_pack_filters(b, self.kind, arguments)

    def _source(self, group: IndexValue, column: IndexValue) -> Value:
        """Filter of a feature, as it is in memory."""
        p, math = self.plan, self.k.e.at
        feature = self._feature(group, column)
        base = self.k.e.arrays[self.k.root.operands[1]][0].base
        offset = math.value(math.mul(feature, p.right[2] * self.kind.size))
        return self.b.byte_address(base, offset)

    # The workspace

    @property
    def _table(self) -> Value:
        return self.b.byte_address(self.k.scratch, self.plan.panel_nbytes)

    @property
    def _starts(self) -> Value:
        return self.b.byte_address(self._table, self.plan.table_nbytes)

    @property
    def _runs(self) -> Value:
        if self.plan.run == 1:
            return Value("null", PTR)
        return self.b.byte_address(self._starts, self.plan.starts_nbytes)

    @property
    def _zeros(self) -> Value:
        return self.b.byte_address(self._starts, self.plan.starts_nbytes + self.plan.runs_nbytes)

    def _clear(self) -> None:
        """The row of zeros."""
        zeros = self._zeros
        with self.b.loop(0, self.plan.zeros_nbytes, 64) as x:
            self.b.store(self.b.const(vector(I64, 8), 0), self.b.byte_address(zeros, x))

    # A block

    def _block(
        self, group: IndexValue, row: IndexValue, column: IndexValue, has_table: Value
    ) -> None:
        """A block whose table is filled unless the block before it had the same."""
        p, b, at = self.plan, self.b, self.k.e.at
        rows = b.intrinsic("smin", b.sub(self.pixels, at.value(row)), self.rows)
        if p.positions <= p.group_positions:
            with b.when(has_table):
                self._fill_table(group, at.value(row), rows, (0, p.positions))
        for first in range(0, p.positions, p.group_positions):
            count = min(p.group_positions, p.positions - first)
            if count < p.positions:
                self._fill_table(group, at.value(row), rows, (first, count))
            if p.is_depthwise:
                self._call_channels(row, rows)
            elif p.packing is Packing.PANEL:
                self._call_panels((group, row, column), rows)
            elif self.finish is None or count < p.positions:
                self._call_block((group, row, column), rows, first, count)
            else:
                self._call_and_finish((group, row, column), rows)
        if self.finish is None:
            return
        if p.is_depthwise:
            self.finish(row, rows, 0, b.const(I64, p.groups))
        elif p.packing is Packing.PANEL or p.positions > p.group_positions:
            self.finish(row, rows, self._feature(group, column), self._columns(column))

    def _feature(self, group: IndexValue, column: IndexValue) -> IndexValue:
        """Number of a feature among those of all groups."""
        math = self.k.e.at
        return math.add(math.mul(group, self.plan.features), column)

    def _fill_table(
        self, group: IndexValue, row: Value, rows: Value, positions: tuple[int, int]
    ) -> None:
        """Addresses for the positions of a group."""
        p, b, at, name = self.plan, self.b, self.k.e.at, self.k.spec.name
        size = p.sides[0].host_nbytes
        base = self.k.e.arrays[self.k.root.operands[0]][0].base
        offset = at.value(at.mul(group, p.channels * p.channel * size))
        windows = b.table(f"{name}.windows", I64, p.window_numbers)
        arguments = WindowsArguments(
            table=self._table,
            starts=self._starts,
            line=b.const(I64, 8 * p.block_rows),
            zeros=self._zeros,
            base=b.byte_address(base, offset),
            first=row,
            rows=rows,
            facts=b.table(f"{name}.facts", I64, p.facts),
            windows=b.element_address(windows, positions[0] * (1 + len(p.axes)), I64),
            positions=b.const(I64, positions[1]),
            run=b.const(I64, p.run),
            runs=self._runs,
        )
        is_dilated = any(a.shift for a in p.axes)
        kind = WindowKind(self.kind.rows, len(p.axes), is_dilated, p.has_edges)
        call_windows(b, kind, arguments)

    def _result(self, row: IndexValue, column: IndexValue) -> Value:
        at, p = self.k.e.at, self.plan
        offset = at.add(at.mul(row, p.groups * p.features), column)
        return self.b.byte_address(self.k.results[0].base, at.value(at.mul(offset, self.kind.size)))

    def _is_non_temporal(self) -> Value:
        """Whether the result goes past the caches: not if it is not aligned."""
        if self.finish is not None or not self.plan.is_non_temporal:
            return CACHED
        b = self.b
        offset = b.and_(b.cast("ptrtoint", self.k.results[0].base, I64), WIDEST_NBYTES - 1)
        return b.resize(b.icmp("eq", offset, 0), I64, signed=False)

    def _call_channels(self, row: IndexValue, rows: Value) -> None:
        p, b, kind = self.plan, self.b, self.kind
        fetched = p.new_positions if p.is_fetched else ()
        tiles = AHEAD_NBYTES // (p.groups * kind.rows * kind.size)
        arguments = ChannelsArguments(
            table=self._table,
            rows=rows,
            positions=b.const(I64, p.positions),
            right=self.k.e.arrays[self.k.root.operands[1]][0].base,
            right_position=b.const(I64, p.right[0] * p.sides[1].host_nbytes),
            result=self._result(row, 0),
            result_row=b.const(I64, p.groups * self.kind.size),
            columns=b.const(I64, p.groups),
            is_non_temporal=self._is_non_temporal(),
            fetched=b.table(f"{self.k.spec.name}.fetched", I64, fetched or (0,)),
            fetched_count=b.const(I64, len(fetched)),
            ahead=b.const(I64, (tiles + 1) * kind.rows),
        )
        call_channels(b, self.kind, arguments)

    def _call_panels(self, at: Index, rows: Value) -> None:
        """Panel by panel: it is packed, and used while it is near and the next one is fetched."""
        p, b, math, width = self.plan, self.b, self.k.e.at, self.kind.width
        group, row, column = at
        left = self._columns(column)
        with b.loop(0, left, width) as n, self.k.e.scope():
            first = math.add(column, n)
            columns = b.intrinsic("smin", b.sub(left, n), width)
            source = self._source(group, first)
            self._pack(self.k.scratch, source, columns)
            arguments = self._arguments((group, row, first), rows, 0, p.positions)
            following = b.byte_address(source, p.right[2] * width * self.kind.size)
            call_block(
                b, self.kind, Order.PANELS, arguments._replace(columns=columns, panel=following)
            )

    def _columns(self, column: IndexValue) -> Value:
        """Features of the block that begins with one."""
        left = self.b.sub(self.plan.features, self.k.e.at.value(column))
        return self.b.intrinsic("smin", left, self.columns)

    def _call_and_finish(self, at: Index, rows: Value) -> None:
        """All features of the block, as many at once as a panel has: these are still near."""
        p, b, math, width = self.plan, self.b, self.k.e.at, self.kind.width
        group, row, column = at
        left = self._columns(column)
        order = Order.PANELS if p.packing is Packing.ALL else p.order
        with b.loop(0, left, width) as n, self.k.e.scope():
            first = math.add(column, n)
            columns = b.intrinsic("smin", b.sub(left, n), width)
            arguments = self._arguments((group, row, first), rows, 0, p.positions)
            call_block(b, self.kind, order, arguments._replace(columns=columns))
            if self.finish is not None:
                self.finish(row, rows, self._feature(group, first), columns)

    def _call_block(self, at: Index, rows: Value, first: int, count: int) -> None:
        """All features of the block at some positions."""
        p = self.plan
        order = Order.PANELS if p.packing is Packing.ALL else p.order
        call_block(self.b, self.kind, order, self._arguments(at, rows, first, count))

    def _arguments(self, at: Index, rows: Value, first: int, count: int) -> BlockArguments:
        p, b = self.plan, self.b
        group, row, column = at
        feature = self._feature(group, column)
        right, strides = self._right(group, column, first)
        packs = p.panels is None and p.packing is Packing.PARTS
        return BlockArguments(
            table=self._table,
            rows=rows,
            positions=b.const(I64, count),
            left_step=b.const(I64, p.channel * p.sides[0].host_nbytes),
            steps=b.const(I64, p.channels),
            right=right,
            right_position=b.const(I64, strides[0]),
            right_step=b.const(I64, strides[1]),
            right_column=b.const(I64, strides[2]),
            result=self._result(row, feature),
            result_row=b.const(I64, p.groups * p.features * self.kind.size),
            columns=self._columns(column),
            goes_on=b.const(I64, first),
            runs=self._runs,
            panel=self.k.scratch if packs else Value("null", PTR),
            most_lines=b.const(I64, self.kind.depth),
            is_non_temporal=self._is_non_temporal() if count == p.positions else CACHED,
        )

    def _right(
        self, group: IndexValue, column: IndexValue, first: int
    ) -> tuple[Value, tuple[int, int, int]]:
        """Where filters begin at a position; bytes between positions, channels and features."""
        p, math, size = self.plan, self.k.e.at, self.plan.sides[1].host_nbytes
        if p.panels is None and p.packing is Packing.PARTS:
            strides = p.right
            base = self.k.e.arrays[self.k.root.operands[1]][0].base
            feature = self._feature(group, column)
        else:
            width, lines = self.kind.width, p.positions * p.channels
            strides, count = (p.channels * width, width, lines), -(-p.features // width)
            base = self._panels
            feature = math.add(math.mul(group, count * width), column)
        if p.packing is Packing.PANEL:
            feature = 0
        place = math.add(math.mul(feature, strides[2]), first * strides[0])
        position, step, along = (n * size for n in strides)
        address = self.b.byte_address(base, math.value(math.mul(place, size)))
        return address, (position, step, along)

    @property
    def _panels(self) -> Value:
        """The first panel."""
        p = self.plan
        if p.panels is not None:
            return self.k.e.arrays[p.panels.parameter][0].base
        return self.packed if p.packing is Packing.ALL else self.k.scratch
