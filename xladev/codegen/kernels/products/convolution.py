"""Writes convolutions as blocks of products whose rows a table gives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernels.build import KernelBuild
from xladev.codegen.kernels.products.channels import ChannelsArguments, call_channels
from xladev.codegen.kernels.products.dot import (
    BLOCK_COLUMNS,
    COLUMNS_STEP,
    LEAST_BLOCK_COLUMNS,
    LEAST_BLOCKS,
    ROWS_STEP,
    cut,
)
from xladev.codegen.kernels.products.driver import BlockArguments, call_block
from xladev.codegen.kernels.products.kinds import PANEL_NBYTES
from xladev.codegen.kernels.products.windows import WindowPlan
from xladev.codegen.llvm import I64, PTR, Value, vector


def emit_windows(k: KernelBuild, plan: WindowPlan) -> None:
    """Writes the kernel: blocks of pixels and features for each group, all of them apart."""
    _Blocks(k, plan).emit()


class _Blocks:
    def __init__(self, k: KernelBuild, plan: WindowPlan) -> None:
        self.k, self.b, self.plan = k, k.b, plan
        self.kind = plan.kind(k.b.module.target.vector_nbytes)
        self.pixels = prod(plan.pixels)
        least = LEAST_BLOCKS if k.is_shared else 1
        self.rows = cut(self.pixels, least, ROWS_STEP, ROWS_STEP, plan.block_rows)
        least = -(-least // -(-self.pixels // self.rows))
        self.columns = plan.features
        if not plan.is_depthwise:
            self.columns = cut(
                plan.features, least, COLUMNS_STEP, LEAST_BLOCK_COLUMNS, BLOCK_COLUMNS
            )

    def emit(self) -> None:
        """One loop over all blocks, in parts."""
        p, b, at = self.plan, self.b, self.k.e.at
        groups = 1 if p.is_depthwise else p.groups
        extents = (groups, -(-self.pixels // self.rows), -(-p.features // self.columns))

        def part(begin: IndexValue, end: IndexValue) -> None:
            self._clear()
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                group, row, column = at.delinear(number, extents)
                self._block(group, at.mul(row, self.rows), at.mul(column, self.columns))

        self.k.split(prod(extents), part, private_nbytes=p.workspace_nbytes)

    # The workspace

    @property
    def _table(self) -> Value:
        return self.b.byte_address(self.k.scratch, 0 if self.plan.is_depthwise else PANEL_NBYTES)

    @property
    def _starts(self) -> Value:
        return self.b.byte_address(self._table, self.plan.table_nbytes)

    @property
    def _runs(self) -> Value:
        return self.b.byte_address(self._starts, self.plan.starts_nbytes)

    @property
    def _zeros(self) -> Value:
        return self.b.byte_address(self._runs, self.plan.runs_nbytes)

    def _clear(self) -> None:
        """The row of zeros."""
        zeros = self._zeros
        with self.b.loop(0, self.plan.zeros_nbytes, 64) as x:
            self.b.store(self.b.const(vector(I64, 8), 0), self.b.byte_address(zeros, x))

    # A block

    def _block(self, group: IndexValue, row: IndexValue, column: IndexValue) -> None:
        p, b, at = self.plan, self.b, self.k.e.at
        rows = b.intrinsic("smin", b.sub(self.pixels, at.value(row)), self.rows)
        self._fill_starts(group, row, rows)
        for first in range(0, p.positions, p.group_positions):
            count = min(p.group_positions, p.positions - first)
            self._fill_table(rows, first, count)
            if p.is_depthwise:
                self._call_channels(row, rows)
            else:
                self._call_block((group, row, column), rows, first, count)

    def _fill_starts(self, group: IndexValue, row: IndexValue, rows: Value) -> None:
        """Where windows begin: addresses, and a line of coordinates for each axis.

        The last row is repeated to the end of its tile.
        """
        p, b, at = self.plan, self.b, self.k.e.at
        size = p.sides[0].host_nbytes
        base = self.k.e.arrays[self.k.root.operands[0]][0].base
        last, starts = b.sub(rows, 1), self._starts
        with b.loop(0, self._whole_tiles(rows)) as r, self.k.e.scope():
            number = at.add(row, b.intrinsic("smin", r, last))
            pixel = at.delinear(number, p.pixels)
            offset = at.mul(pixel[p.batch[0]], p.batch[1])
            offset = at.add(offset, at.mul(group, p.channels * p.channel))
            for n, axis in enumerate(p.axes):
                begin = at.mul(pixel[p.places[n]], axis.window.stride)
                begin = at.sub(begin, axis.window.pad_low)
                line = b.element_address(starts, b.add(r, (n + 1) * p.block_rows), I64)
                b.store(at.value(begin), line)
                if not axis.shift:
                    offset = at.add(offset, at.mul(begin, axis.stride))
            address = b.byte_address(base, at.value(at.mul(offset, size)))
            b.store(b.cast("ptrtoint", address, I64), b.element_address(starts, r, I64))

    def _whole_tiles(self, rows: Value) -> Value:
        most = self.kind.rows
        return self.b.mul(self.b.udiv(self.b.add(rows, most - 1), most), most)

    def _fill_table(self, rows: Value, first: int, count: int) -> None:
        """Addresses for the positions of a group, tile by tile."""
        p, b, most = self.plan, self.b, self.kind.rows
        windows = list(product(*(range(a.window.size) for a in p.axes)))[first : first + count]
        table, starts = self._table, self._starts
        zeros = b.splat(b.cast("ptrtoint", self._zeros, I64), most)
        line = vector(I64, most)
        with b.loop(0, self._whole_tiles(rows), most) as row:
            held = [
                b.load(line, b.element_address(starts, b.add(row, n * p.block_rows), I64))
                for n in range(1 + len(p.axes))
            ]
            tile = b.element_address(table, b.mul(row, count), I64)
            if p.run == 1:
                self._fill_tile(tile, held, windows, zeros)
            else:
                self._fill_runs(tile, held, windows, zeros, b.udiv(row, most))

    def _fill_tile(
        self,
        tile: Value,
        held: Sequence[Value],
        windows: Sequence[Sequence[int]],
        zeros: Value,
    ) -> None:
        """Addresses of the rows of a tile."""
        for n, window in enumerate(windows):
            address = self._addresses(held, window, zeros)
            self.b.store(address, self.b.element_address(tile, n * self.kind.rows, I64))

    def _fill_runs(
        self,
        tile: Value,
        held: Sequence[Value],
        windows: Sequence[Sequence[int]],
        zeros: Value,
        number: Value,
    ) -> None:
        """The same; of whole lines of the window where no row sees padding along them."""
        p, b = self.plan, self.b
        runs = b.element_address(self._runs, number, I64)
        most = p.axes[-1].size - p.run
        broken = b.any(b.icmp("ugt", held[-1], most))
        with b.when(broken):
            self._fill_tile(tile, held, windows, zeros)
            b.store(b.const(I64, 1), runs)
        with b.when(b.not_(broken)):
            self._fill_tile(tile, held, windows[:: p.run], zeros)
            b.store(b.const(I64, p.run), runs)

    def _addresses(self, held: Sequence[Value], window: Sequence[int], zeros: Value) -> Value:
        """Of one position of the window, for the rows of a tile."""
        p, b, size = self.plan, self.b, self.plan.sides[0].host_nbytes
        address, inside, known = held[0], list[Value](), 0
        for axis, start, x in zip(p.axes, held[1:], window, strict=True):
            w = axis.window
            offset = (w.size - 1 - x if w.reversal else x) * w.window_dilation
            at = b.add(start, offset)
            if axis.is_padded:
                extent = (axis.size - 1) * w.base_dilation + 1
                inside.append(b.icmp("ult", at, extent))
            if axis.shift:
                inside.append(b.icmp("eq", b.and_(at, w.base_dilation - 1), 0))
                address = b.add(address, b.mul(b.ashr(at, axis.shift), axis.stride * size))
            else:
                known += offset * axis.stride * size
        address = b.add(address, known)
        for condition in inside:
            address = b.select(condition, address, zeros)
        return address

    def _result(self, row: IndexValue, column: IndexValue) -> Value:
        at, p = self.k.e.at, self.plan
        offset = at.add(at.mul(row, p.groups * p.features), column)
        return self.b.byte_address(self.k.results[0].base, at.value(at.mul(offset, self.kind.size)))

    def _call_channels(self, row: IndexValue, rows: Value) -> None:
        p, b = self.plan, self.b
        arguments = ChannelsArguments(
            table=self._table,
            rows=rows,
            positions=b.const(I64, p.positions),
            right=self.k.e.arrays[self.k.root.operands[1]][0].base,
            right_position=b.const(I64, p.right[0] * p.sides[1].host_nbytes),
            result=self._result(row, 0),
            result_row=b.const(I64, p.groups * self.kind.size),
            columns=b.const(I64, p.groups),
        )
        call_channels(b, self.kind, arguments)

    def _call_block(self, at: Index, rows: Value, first: int, count: int) -> None:
        """All features of the block at some positions."""
        p, b, math = self.plan, self.b, self.k.e.at
        group, row, column = at
        size = p.sides[1].host_nbytes
        feature = math.add(math.mul(group, p.features), column)
        filters = math.add(math.mul(feature, p.right[2]), first * p.right[0])
        base = self.k.e.arrays[self.k.root.operands[1]][0].base
        left = b.sub(p.features, math.value(column))
        arguments = BlockArguments(
            table=self._table,
            rows=rows,
            positions=b.const(I64, count),
            left_step=b.const(I64, p.channel * p.sides[0].host_nbytes),
            steps=b.const(I64, p.channels),
            right=b.byte_address(base, math.value(math.mul(filters, size))),
            right_position=b.const(I64, p.right[0] * size),
            right_step=b.const(I64, p.right[1] * size),
            right_column=b.const(I64, p.right[2] * size),
            result=self._result(row, feature),
            result_row=b.const(I64, p.groups * p.features * self.kind.size),
            columns=b.intrinsic("smin", left, self.columns),
            goes_on=b.const(I64, first),
            runs=self._runs if p.run > 1 else Value("null", PTR),
            panel=self.k.scratch,
        )
        call_block(b, self.kind, p.order, arguments)
