"""Writes gradients of filters: blocks of channels times panels of features, all of them apart."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xladev.codegen.index import IndexValue
from xladev.codegen.llvm import I64, Value
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.dot import LEAST_BLOCKS, cut
from xladev.platforms.cpu.codegen.products.filter_gradients import (
    LEAST_CHANNELS,
    FilterGradientPlan,
)
from xladev.platforms.cpu.codegen.products.filter_gradients_tile import (
    PixelTileArguments,
    TurnArguments,
    call_pixel_tile,
    call_turn,
)
from xladev.platforms.cpu.codegen.products.orders import Order, PanelArguments
from xladev.platforms.cpu.codegen.products.panel import call_pack
from xladev.platforms.cpu.codegen.products.runs import RunsArguments, call_runs


def emit_filter_gradient(k: KernelBuild, plan: FilterGradientPlan) -> None:
    """Writes the kernel."""
    _Blocks(k, plan).emit()


@dataclass(frozen=True, slots=True)
class _Unit:
    """A block of the result: channels and features, and how many of each."""

    channel: Value
    feature: Value
    channels: Value
    features: Value


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the depth: first image, row and pixel, and how many of each."""

    first: tuple[Value, Value, Value]
    count: tuple[Value, Value, Value]


class _Blocks:
    def __init__(self, k: KernelBuild, plan: FilterGradientPlan) -> None:
        self.k, self.b, self.plan = k, k.b, plan
        self.kind = plan.kind(k.b.module.target.vector_nbytes)
        self.size = plan.total.host_nbytes
        self.line = self.kind.vectors * self.kind.nbytes
        self.panels = -(-plan.features // self.kind.width)
        least = -(-LEAST_BLOCKS // self.panels) if k.is_shared else 1
        rows = LEAST_CHANNELS
        self.channels = cut(plan.channels, least, rows, rows, max(plan.block_channels, rows))

    def emit(self) -> None:
        """One loop over all blocks, in parts."""
        p, b, at = self.plan, self.b, self.k.e.at
        extents = -(-p.channels // self.channels), self.panels

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                self._block(*map(at.value, at.delinear(number, extents)))

        self.k.split(prod(extents), part, private_nbytes=p.workspace_nbytes)

    @property
    def _sums(self) -> Value:
        return self.b.byte_address(self.k.scratch, self.plan.panel_nbytes)

    def _block(self, block: Value, panel: Value) -> None:
        p, b = self.plan, self.b
        channel, feature = b.mul(block, self.channels), b.mul(panel, self.kind.width)
        unit = _Unit(
            channel=channel,
            feature=feature,
            channels=b.intrinsic("smin", b.sub(p.channels, channel), self.channels),
            features=b.intrinsic("smin", b.sub(p.features, feature), self.kind.width),
        )
        sizes = (p.images[0], *(a.window.size for a in p.axes))
        images, rows, pixels = p.part
        with (
            b.loop(0, sizes[0], images) as image,
            b.loop(0, sizes[1], rows) as row,
            b.loop(0, sizes[2], pixels) as pixel,
        ):
            first = image, row, pixel
            count = tuple(
                b.intrinsic("smin", b.sub(size, x), most)
                for size, x, most in zip(sizes, first, p.part, strict=True)
            )
            part = _Part(first, (count[0], count[1], count[2]))
            self._pack(unit, part)
            self._tiles(unit, part)
        self._put_turned(unit) if p.is_turned else self._put(unit)

    def _place(self, base: Value, *terms: tuple[Value, int]) -> Value:
        """An element's address, of numbers along dimensions and their strides."""
        b = self.b
        for number, stride in terms:
            base = b.byte_address(base, b.mul(number, stride * self.size))
        return base

    def _pack(self, unit: _Unit, part: _Part) -> None:
        """The features of a part's pixels, one after the other."""
        p, b, size = self.plan, self.b, self.size
        image, row, pixel = part.first
        right = self.k.e.arrays[self.k.root.operands[1]][0].base
        _, _, stride = p.images
        first = self._place(
            right, (image, stride), (row, p.right[0]), (pixel, p.right[1]), (unit.feature, 1)
        )
        nbytes = b.mul(b.mul(part.count[1], part.count[2]), self.line)
        with b.loop(0, part.count[0]) as n:
            arguments = PanelArguments(
                panel=b.byte_address(self.k.scratch, b.mul(n, nbytes)),
                source=self._place(first, (n, stride)),
                positions=part.count[1],
                position=b.const(I64, p.right[0] * size),
                steps=part.count[2],
                step=b.const(I64, p.right[1] * size),
                column=b.const(I64, size),
                columns=unit.features,
            )
            call_pack(b, self.kind, self.kind.vectors, Order.ROWS, arguments)

    def _tiles(self, unit: _Unit, part: _Part) -> None:
        """All channels, as many at once as the registers hold and then fewer, at all places."""
        b, first = self.b, self.b.const(I64, 0)
        most = self.kind.rows
        for rows in (most, *(n for n in (4, 2, 1) if n < most)):
            count = b.mul(b.udiv(b.sub(unit.channels, first), rows), rows)
            end = b.add(first, count)
            with (
                b.loop(first, end, rows) as channel,
                b.loop(0, self.plan.places[0]) as y,
                b.loop(0, self.plan.places[1]) as x,
            ):
                self._tile(unit, part, rows, (channel, y, x))
            first = end

    def _tile(self, unit: _Unit, part: _Part, rows: int, at: tuple[Value, Value, Value]) -> None:
        p, b = self.plan, self.b
        channel, *places = at
        image, *begins = part.first
        left = self.k.e.arrays[self.k.root.operands[0]][0].base
        left = self._place(left, (image, p.images[1]), (b.add(unit.channel, channel), 1))
        right, counts = self.k.scratch, list[Value]()
        lines = b.mul(part.count[2], self.line), b.const(I64, self.line)
        for n, (axis, place) in enumerate(zip(p.axes, places, strict=True)):
            first, count = self._seen(n, place, begins[n], part.count[1 + n])
            counts.append(count)
            w = axis.window
            seen = b.mul(b.add(begins[n], first), w.window_dilation)
            seen = b.add(seen, b.sub(b.mul(place, w.stride), w.pad_low))
            left = self._place(left, (seen, axis.stride))
            right = b.byte_address(right, b.mul(first, lines[n]))
        number = b.add(b.mul(b.add(b.mul(channel, p.places[0]), places[0]), p.places[1]), places[1])
        along = [a.stride * a.window.window_dilation * self.size for a in p.axes]
        goes_on = b.or_(part.first[0], b.or_(part.first[1], part.first[2]))
        arguments = PixelTileArguments(
            left=left,
            left_image=b.const(I64, p.images[1] * self.size),
            left_row=b.const(I64, along[0]),
            left_pixel=b.const(I64, along[1]),
            right=right,
            right_image=b.mul(part.count[1], lines[0]),
            right_row=lines[0],
            images=part.count[0],
            rows=counts[0],
            pixels=counts[1],
            result=b.byte_address(self._sums, b.mul(number, self.line)),
            result_row=b.const(I64, p.taps * self.line),
            goes_on=goes_on,
        )
        call_pixel_tile(b, self.kind, rows, arguments)

    def _seen(self, axis: int, place: Value, begin: Value, count: Value) -> tuple[Value, Value]:
        """Of a part, the first row or pixel that sees the base, and how many do."""
        b = self.b
        table = b.table(f"{self.k.spec.name}.seen.{axis}", I64, self.plan.seen(axis))
        first, end = (
            b.load(I64, b.element_address(table, b.add(b.mul(place, 2), n), I64)) for n in (0, 1)
        )
        first = b.intrinsic("smax", b.sub(first, begin), 0)
        end = b.intrinsic("smin", b.sub(end, begin), count)
        return first, b.sub(end, first)

    # What is done with sums

    def _put_turned(self, unit: _Unit) -> None:
        p, b = self.plan, self.b
        feature, channel = p.result[:2]
        result = self.k.results[0].base
        arguments = TurnArguments(
            source=self._sums,
            lines=b.mul(unit.channels, p.taps),
            features=unit.features,
            target=self._place(result, (unit.feature, feature), (unit.channel, channel)),
            target_feature=b.const(I64, feature * self.size),
        )
        call_turn(b, self.kind, arguments)

    def _put(self, unit: _Unit) -> None:
        """Place by place, channel by channel."""
        p, b = self.plan, self.b
        _, channel, *along = p.result
        first = self._place(self.k.results[0].base, (unit.feature, 1), (unit.channel, channel))
        with b.loop(0, p.places[0]) as y, b.loop(0, p.places[1]) as x:
            number = b.add(b.mul(y, p.places[1]), x)
            arguments = RunsArguments(
                target=self._place(first, (y, along[0]), (x, along[1])),
                target_row=b.const(I64, channel * self.size),
                source=b.byte_address(self._sums, b.mul(number, self.line)),
                source_row=b.const(I64, p.taps * self.line),
                source_run=b.const(I64, 0),
                rows=unit.channels,
                per_row=b.const(I64, 1),
                length=unit.features,
            )
            call_runs(b, self.kind, arguments)
