"""Writes convolutions whose rows are features: blocks of filters times panels of patches."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xladev.codegen.index import IndexValue
from xladev.codegen.llvm import I64, PTR, Value
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import LEAST_BLOCK_ROWS, LEAST_BLOCKS, ROWS_STEP, cut
from xladev.platforms.cpu.codegen.products.driver import BlockArguments, call_block
from xladev.platforms.cpu.codegen.products.orders import Order, PanelArguments
from xladev.platforms.cpu.codegen.products.panel import call_pack
from xladev.platforms.cpu.codegen.products.patches import (
    LanesArguments,
    PatchesArguments,
    call_lanes,
    call_patches,
)
from xladev.platforms.cpu.codegen.products.planar import PlanarPlan
from xladev.platforms.cpu.codegen.products.runs import RunsArguments, call_runs
from xladev.platforms.cpu.codegen.products.tables import LinesArguments, call_lines

_ENDLESS = 1 << 40
"""More lines than any panel has."""


def emit_planar(k: KernelBuild, plan: PlanarPlan) -> None:
    """Writes the kernel: blocks of features and pixels for each group and image, all apart."""
    _Blocks(k, plan).emit()


@dataclass(frozen=True, slots=True)
class _Unit:
    """A block of the result.

    Attributes:
        base, left: first elements of the operands, of its group, image and features.
        result: first element.
        column: number of its first column.
        rows, columns: how many.
    """

    base: Value
    left: Value
    result: Value
    column: Value
    rows: Value
    columns: Value


class _Blocks:
    def __init__(self, k: KernelBuild, plan: PlanarPlan) -> None:
        self.k, self.b, self.plan = k, k.b, plan
        self.kind = plan.kind(k.b.module.target.vector_nbytes)
        self.size = plan.total.host_nbytes
        self.columns = plan.block_columns
        others = plan.groups * plan.matrices * -(-plan.columns // self.columns)
        least = -(-LEAST_BLOCKS // others) if k.is_shared else 1
        self.rows = cut(plan.features, least, ROWS_STEP, LEAST_BLOCK_ROWS, plan.block_rows)

    def emit(self) -> None:
        """One loop over all blocks, in parts."""
        p, b, at = self.plan, self.b, self.k.e.at
        columns, rows = -(-p.columns // self.columns), -(-p.features // self.rows)
        extents = (p.groups, p.matrices, columns, rows)

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                self._block(*map(at.value, at.delinear(number, extents)))

        self.k.split(prod(extents), part, private_nbytes=p.workspace_nbytes)

    # The workspace

    @property
    def _turned(self) -> Value:
        return self.b.byte_address(self.k.scratch, self.plan.panels_nbytes)

    @property
    def _gathered(self) -> Value:
        return self.b.byte_address(self._turned, self.plan.turned_nbytes)

    @property
    def _kept(self) -> Value:
        return self.b.byte_address(self._gathered, self.plan.gathered_nbytes)

    @property
    def _table(self) -> Value:
        return self.b.byte_address(self._kept, self.plan.kept_nbytes)

    @property
    def _lanes(self) -> Value:
        return self.b.byte_address(self._table, self.plan.table_nbytes)

    @property
    def _panel_nbytes(self) -> int:
        return self.plan.lines * self.kind.width * self.size

    # A block

    def _block(self, group: Value, image: Value, column: Value, row: Value) -> None:
        p, b, arrays = self.plan, self.b, self.k.e.arrays
        base, filters = (arrays[o][0].base for o in self.k.root.operands)
        row, column = b.mul(row, self.rows), b.mul(column, self.columns)
        feature = b.add(b.mul(group, p.features), row)
        seen = b.add(b.mul(image, p.batch[0]), b.mul(group, p.channels * p.channel))
        kept = b.add(b.mul(image, p.batch[1]), b.mul(feature, p.row_stride))
        if p.is_joined:
            first = b.udiv(column, prod(p.pixels))
            kept = b.add(b.mul(first, p.batch[1]), b.mul(feature, p.row_stride))
        else:
            kept = b.add(kept, column)
        unit = _Unit(
            base=self._place(base, seen),
            left=self._place(filters, b.mul(feature, p.left[0])),
            result=self._place(self.k.results[0].base, kept),
            column=column,
            rows=b.intrinsic("smin", b.sub(p.features, row), self.rows),
            columns=b.intrinsic("smin", b.sub(p.columns, column), self.columns),
        )
        self._turned_block(unit) if p.is_turned else self._plain_block(unit)
        if p.is_joined:
            self._put(unit)

    def _place(self, base: Value, elements: Value) -> Value:
        return self.b.byte_address(base, self.b.mul(elements, self.size))

    def _plain_block(self, unit: _Unit) -> None:
        """Lanes are pixels: parts of the channels."""
        p, b = self.plan, self.b
        self._fill_lanes(unit.column, unit.columns)
        with b.loop(0, p.channels, p.part_channels) as channel:
            count = b.intrinsic("smin", b.sub(p.channels, channel), p.part_channels)
            base = self._place(unit.base, b.mul(channel, p.channel))
            width = self.kind.width
            with b.loop(0, unit.columns, self.kind.lanes) as lane:
                panel = b.mul(b.udiv(lane, width), self._panel_nbytes)
                target = b.byte_address(self.k.scratch, panel)
                target = b.byte_address(target, b.mul(b.urem(lane, width), self.size))
                line = width * self.size
                self._write(target, line, lane, base, count, p.channel)
            left = self._place(unit.left, b.mul(channel, p.left[1]))
            self._multiply(unit, left, b.mul(count, p.window), channel)

    def _turned_block(self, unit: _Unit) -> None:
        """Lanes are places in the window: parts of them, and in each all channels."""
        p, b, kind = self.plan, self.b, self.kind
        plane = b.udiv(unit.column, p.positions)
        planes = b.udiv(unit.columns, p.positions)
        base = self._place(unit.base, b.mul(plane, p.planes[1]))
        with b.loop(0, p.window, p.lines) as first:
            count = b.intrinsic("smin", b.sub(p.window, first), p.lines)
            whole = self._whole(count)
            self._fill_lanes(first, count)
            with b.loop(0, p.channels) as channel:
                images = self._place(base, b.mul(channel, p.channel))
                with b.loop(0, whole, kind.lanes) as lane:
                    target = b.byte_address(self._turned, b.mul(lane, self.size))
                    self._write(target, p.line_nbytes, lane, images, planes, p.planes[1])
                self._turn(unit.columns, whole)
                place = b.add(b.mul(channel, p.left[1]), b.mul(first, p.left[2]))
                self._multiply(unit, self._place(unit.left, place), count, b.or_(first, channel))

    def _fill_lanes(self, first: Value, count: Value) -> None:
        p, b = self.plan, self.b
        arguments = LanesArguments(
            table=self._lanes,
            line=b.const(I64, p.lanes_line),
            first=first,
            size=count,
            room=self._whole(count),
            facts=self._numbers("lanes", p.lanes_facts),
        )
        call_lanes(b, len(p.lanes), arguments)

    def _numbers(self, what: str, numbers: tuple[int, ...]) -> Value:
        return self.b.table(f"{self.k.spec.name}.{what}", I64, numbers)

    def _write(
        self, target: Value, line: int, lane: Value, base: Value, planes: Value, plane: int
    ) -> None:
        """One vector of lanes at all lines."""
        p, b = self.plan, self.b
        arguments = PatchesArguments(
            target=target,
            line=b.const(I64, line),
            lanes=b.byte_address(self._lanes, b.mul(lane, 4)),
            lanes_line=b.const(I64, p.lanes_line),
            base=base,
            planes=planes,
            plane=b.const(I64, plane * self.size),
            positions=b.const(I64, p.positions),
            windows=self._numbers("windows", p.window_numbers),
            facts=self._numbers("axes", p.patch_facts),
        )
        call_patches(b, self.kind, p.patch, arguments)

    def _turn(self, columns: Value, lines: Value) -> None:
        """Packs what is turned into panels, whole ones: nobody sees their last columns."""
        p, b, kind = self.plan, self.b, self.kind
        with b.loop(0, columns, kind.width) as column:
            panel = b.mul(b.udiv(column, kind.width), self._panel_nbytes)
            arguments = PanelArguments(
                panel=b.byte_address(self.k.scratch, panel),
                source=b.byte_address(self._turned, b.mul(column, p.line_nbytes)),
                positions=b.const(I64, 1),
                position=b.const(I64, 0),
                steps=lines,
                step=b.const(I64, self.size),
                column=b.const(I64, p.line_nbytes),
                columns=b.const(I64, kind.width),
            )
            call_pack(b, kind, kind.vectors, Order.COLUMNS, arguments)

    def _multiply(self, unit: _Unit, left: Value, lines: Value, goes_on: Value) -> None:
        """Filters times what is in the panels."""
        p, b, size = self.plan, self.b, self.size
        row, step = p.left[0], p.left[2] if p.is_turned else p.step
        if p.is_gathered:
            left, row, step = self._gather(unit, left, lines)
        stride = b.const(I64, row * size)
        call_lines(b, self.kind.rows, LinesArguments(self._table, left, stride, unit.rows))
        result, result_row, columns = unit.result, p.row_stride, unit.columns
        if p.is_joined:
            result, result_row, columns = self._kept, p.room, self._whole(unit.columns)
        arguments = BlockArguments(
            table=self._table,
            rows=unit.rows,
            positions=b.const(I64, 1),
            left_step=b.const(I64, step * size),
            steps=lines,
            right=self.k.scratch,
            right_position=b.const(I64, 0),
            right_step=b.const(I64, self.kind.width * size),
            right_column=b.const(I64, p.lines * size),
            result=result,
            result_row=b.const(I64, result_row * size),
            columns=columns,
            goes_on=goes_on,
            runs=Value("null", PTR),
            panel=Value("null", PTR),
            most_lines=b.const(I64, _ENDLESS),
        )
        call_block(b, self.kind, Order.PANELS, arguments)

    def _gather(self, unit: _Unit, left: Value, lines: Value) -> tuple[Value, int, int]:
        """Copies filters to where they lie together; strides along features and lines."""
        p, b, size = self.plan, self.b, self.size
        rows, length, runs = unit.rows, b.const(I64, p.window), b.udiv(lines, p.window)
        source_row, source_run = p.left[0], p.left[1]
        if p.window == 1:
            rows, length, runs = lines, unit.rows, b.const(I64, 1)
            source_row = p.left[1]
        arguments = RunsArguments(
            target=self._gathered,
            target_row=b.const(I64, p.gathered_row * size),
            source=left,
            source_row=b.const(I64, source_row * size),
            source_run=b.const(I64, source_run * size),
            rows=rows,
            per_row=runs,
            length=length,
        )
        call_runs(b, self.kind, arguments)
        strides = (1, p.gathered_row) if p.window == 1 else (p.gathered_row, 1)
        return self._gathered, *strides

    def _put(self, unit: _Unit) -> None:
        """Sums of several images, each to its place in the result."""
        p, b, size = self.plan, self.b, self.size
        pixels = prod(p.pixels)
        with b.loop(0, b.udiv(unit.columns, pixels)) as image:
            arguments = RunsArguments(
                target=self._place(unit.result, b.mul(image, p.batch[1])),
                target_row=b.const(I64, p.row_stride * size),
                source=self._place(self._kept, b.mul(image, pixels)),
                source_row=b.const(I64, p.room * size),
                source_run=b.const(I64, 0),
                rows=unit.rows,
                per_row=b.const(I64, 1),
                length=b.const(I64, pixels),
            )
            call_runs(b, self.kind, arguments)

    def _whole(self, count: Value) -> Value:
        """A count rounded up to whole vectors."""
        b, lanes = self.b, self.kind.lanes
        return b.mul(b.udiv(b.add(count, lanes - 1), lanes), lanes)
