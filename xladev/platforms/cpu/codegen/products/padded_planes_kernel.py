"""Writes depthwise convolutions by planes with their padding: parts of planes, all apart."""

from __future__ import annotations

from math import prod

from xladev.codegen.index import IndexValue
from xladev.codegen.llvm import I64, Value
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.padded_planes import (
    CopyArguments,
    PaddedPlan,
    SumsArguments,
    call_copy,
    call_sums,
)
from xladev.platforms.cpu.codegen.products.runs import RunsArguments, call_runs


def emit_padded_planes(k: KernelBuild, plan: PaddedPlan) -> None:
    """Writes the kernel."""
    _Parts(k, plan).emit()


class _Parts:
    def __init__(self, k: KernelBuild, plan: PaddedPlan) -> None:
        self.k, self.b, self.plan, self.planar = k, k.b, plan, plan.planar
        self.kind = plan.planar.kind(k.b.module.target.vector_nbytes)
        self.size = plan.planar.total.host_nbytes

    def emit(self) -> None:
        """One loop over images, channels and parts of planes."""
        p, b, at = self.planar, self.b, self.k.e.at
        extents = (p.images, p.groups, p.planes[0], self.plan.parts)

        def some(begin: IndexValue, end: IndexValue) -> None:
            with b.loop(at.value(begin), at.value(end)) as number, self.k.e.scope():
                self._part(*map(at.value, at.delinear(number, extents)))

        self.k.split(prod(extents), some, private_nbytes=self.plan.workspace_nbytes)

    def _part(self, image: Value, channel: Value, plane: Value, part: Value) -> None:
        p, b, plan = self.planar, self.b, self.plan
        base, filters = (self.k.e.arrays[o][0].base for o in self.k.root.operands)
        row = b.mul(part, plan.part_rows)
        rows = b.intrinsic("smin", b.sub(plan.height, row), plan.part_rows)
        seen = b.add(b.mul(image, p.batch[0]), b.mul(channel, p.channel))
        self._copy(self._place(base, b.add(seen, b.mul(plane, p.planes[1]))), row)
        results = b.byte_address(self.k.scratch, (plan.copied + plan.room) * self.size)
        sums = SumsArguments(
            target=results,
            source=self.k.scratch,
            results=b.mul(rows, plan.pitch),
            positions=b.const(I64, p.window),
            offsets=b.table(f"{self.k.spec.name}.offsets", I64, plan.offsets),
            right=self._place(filters, b.mul(channel, p.left[0])),
            right_position=b.const(I64, p.left[2] * self.size),
        )
        call_sums(b, self.kind, sums)
        kept = b.add(b.mul(image, p.batch[1]), b.mul(channel, p.row_stride))
        kept = b.add(kept, b.add(b.mul(plane, prod(p.pixels)), b.mul(row, plan.width)))
        runs = RunsArguments(
            target=self._place(self.k.results[0].base, kept),
            target_row=b.const(I64, plan.width * self.size),
            source=results,
            source_row=b.const(I64, plan.pitch * self.size),
            source_run=b.const(I64, 0),
            rows=rows,
            per_row=b.const(I64, 1),
            length=b.const(I64, plan.width),
        )
        call_runs(b, self.kind, runs)

    def _copy(self, plane: Value, row: Value) -> None:
        """What a part sees, from the row of its first result on."""
        p, b, plan, size = self.planar, self.b, self.plan, self.size
        down, along = plan.strides
        y, x = (p.axes[0] if plan.has_rows else None), p.axes[-1]
        copy = CopyArguments(
            target=self.k.scratch,
            remainder=b.const(I64, plan.remainder_step * size),
            pitch=b.const(I64, plan.pitch * size),
            source=plane,
            source_row=b.const(I64, y.stride if y else 0),
            rows=b.const(I64, plan.copied_rows),
            down=b.const(I64, down),
            first_row=b.sub(b.mul(row, down), y.window.pad_low if y else 0),
            first_pixel=b.const(I64, -x.window.pad_low),
            height=b.const(I64, y.size if y else 1),
            width=b.const(I64, x.size),
            length=b.const(I64, plan.pitch),
        )
        call_copy(b, self.kind, along, copy)

    def _place(self, base: Value, elements: Value) -> Value:
        return self.b.byte_address(base, self.b.mul(elements, self.size))
