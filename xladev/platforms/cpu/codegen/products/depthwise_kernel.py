"""Writes depthwise convolutions of planes: blocks of channels and pixels for each image."""

from __future__ import annotations

from math import prod

from xladev.codegen.index import IndexValue
from xladev.codegen.llvm import I64, Value
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.depthwise import DepthwiseArguments, call_depthwise
from xladev.platforms.cpu.codegen.products.patches import LanesArguments, call_lanes
from xladev.platforms.cpu.codegen.products.planar import BLOCK_CHANNELS, PlanarPlan


def emit_depthwise(k: KernelBuild, plan: PlanarPlan) -> None:
    """Writes the kernel: all blocks apart."""
    _Blocks(k, plan).emit()


class _Blocks:
    def __init__(self, k: KernelBuild, plan: PlanarPlan) -> None:
        self.k, self.b, self.plan = k, k.b, plan
        self.kind = plan.kind(k.b.module.target.vector_nbytes)
        self.size = plan.total.host_nbytes

    def emit(self) -> None:
        """One loop over all blocks, in parts."""
        p, b, at = self.plan, self.b, self.k.e.at
        columns = -(-p.columns // p.block_columns)
        extents = (p.matrices, -(-p.groups // BLOCK_CHANNELS), columns)

        def part(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                self._block(*map(at.value, at.delinear(number, extents)))

        self.k.split(prod(extents), part, private_nbytes=p.workspace_nbytes)

    def _block(self, image: Value, channel: Value, column: Value) -> None:
        p, b, lanes = self.plan, self.b, self.kind.lanes
        channel, column = b.mul(channel, BLOCK_CHANNELS), b.mul(column, p.block_columns)
        count = b.intrinsic("smin", b.sub(p.columns, column), p.block_columns)
        room = b.mul(b.udiv(b.add(count, lanes - 1), lanes), lanes)
        table = LanesArguments(
            table=self.k.scratch,
            line=b.const(I64, p.lanes_line),
            first=column,
            size=count,
            room=room,
            facts=self._numbers("lanes", p.lanes_facts),
        )
        call_lanes(b, len(p.lanes), table)
        with b.loop(0, count, lanes) as lane:
            self._vector((image, channel, b.add(column, lane)), lane, b.sub(count, lane))

    def _numbers(self, what: str, numbers: tuple[int, ...]) -> Value:
        return self.b.table(f"{self.k.spec.name}.{what}", I64, numbers)

    def _vector(self, at: tuple[Value, Value, Value], lane: Value, left: Value) -> None:
        p, b, size = self.plan, self.b, self.size
        image, channel, column = at
        base, filters = (self.k.e.arrays[o][0].base for o in self.k.root.operands)
        seen = b.add(b.mul(image, p.batch[0]), b.mul(channel, p.channel))
        kept = b.add(b.mul(image, p.batch[1]), b.add(b.mul(channel, p.row_stride), column))
        arguments = DepthwiseArguments(
            result=self._place(self.k.results[0].base, kept),
            result_plane=b.const(I64, p.row_stride * size),
            left=left,
            lanes=b.byte_address(self.k.scratch, b.mul(lane, 4)),
            lanes_line=b.const(I64, p.lanes_line),
            base=self._place(base, seen),
            planes=b.intrinsic("smin", b.sub(p.groups, channel), BLOCK_CHANNELS),
            plane=b.const(I64, p.channel * size),
            positions=b.const(I64, p.window),
            windows=self._numbers("windows", p.window_numbers),
            facts=self._numbers("axes", p.patch_facts),
            right=self._place(filters, b.mul(channel, p.left[0])),
            right_plane=b.const(I64, p.left[0] * size),
            right_position=b.const(I64, p.left[2] * size),
        )
        call_depthwise(b, self.kind, p.patch, arguments)

    def _place(self, base: Value, elements: Value) -> Value:
        return self.b.byte_address(base, self.b.mul(elements, self.size))
