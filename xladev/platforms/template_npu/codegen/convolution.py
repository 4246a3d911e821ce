"""Convolution as a sum of products: the window is part of the left side's access map.

The coordinates of an element of the input are those of the output times the stride, plus those in
the window times its dilation. Where windows overlap, a block's input is loaded once, and the matrix
unit reads it at each offset through its strides; nothing is copied but padding.

What a vendor replaces: all of it, if their hardware convolves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.hlo.attributes import ConvDims, Window
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.platforms.template_npu.codegen.access_map import AccessMap, Row
from xladev.platforms.template_npu.codegen.contraction import (
    MATRIX_TYPES,
    Contraction,
    Sliding,
    unit_row,
)
from xladev.platforms.template_npu.codegen.contraction_stage import emit_contraction
from xladev.platforms.template_npu.codegen.dot import product_type
from xladev.platforms.template_npu.codegen.expression import Expression
from xladev.platforms.template_npu.codegen.loops import LoopStage
from xladev.platforms.template_npu.codegen.nodes import Array, Node

_NO_ROW: Row = (0, ())


def emit_convolution(
    stage: LoopStage, core: HloInstruction, results: Sequence[Array], root: HloInstruction
) -> None:
    """A convolution of any window and groups, and elementwise instructions on it."""
    kind = ConvolutionDims.of(core)
    padding = [(0, 0, 0)] * core.operands[0].shape.rank
    for axis, w in zip(kind.labels.input_spatial, kind.window, strict=True):
        padding[axis] = (w.pad_low, w.pad_high, w.base_dilation - 1)
    array, dims = stage.padded(core, core.operands[0], None, padding)
    c = _Convolution(core, kind, array, dims).contraction()
    emit_contraction(stage, c, core, results[0], root)


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution whose input is in memory, padded.

    Iteration variables: group; image, output positions; window offsets, input feature; output
    feature. A group is a feature group or a batch group; at most one of the two counts is not 1.
    """

    core: HloInstruction
    kind: ConvolutionDims
    array: Array
    dims: tuple[int, ...]

    @property
    def d(self) -> ConvDims:
        """Which dimension is what."""
        return self.kind.labels

    @property
    def window(self) -> Window:
        """How the kernel slides."""
        return self.kind.window

    @property
    def batch(self) -> int:
        """Images of one group."""
        return self.dims[self.d.input_batch] // self.kind.batch_groups

    @property
    def inputs(self) -> int:
        """Input features of one group."""
        return self.core.operands[1].shape.dims[self.d.kernel_input_feature]

    @property
    def outputs(self) -> int:
        """Output features of one group."""
        return self.core.operands[1].shape.dims[self.d.kernel_output_feature] // self.kind.groups

    def contraction(self) -> Contraction:
        """The sum of products that this is."""
        spatial = tuple(self.core.shape.dims[s] for s in self.d.output_spatial)
        sizes = tuple(w.size for w in self.window)
        return Contraction(
            batch=(self.kind.groups,),
            rows=(self.batch, *spatial),
            columns=(self.outputs,),
            depth=(*sizes, self.inputs),
            left=self.left,
            right=self.right,
            result=self.result(),
            type=product_type(self.core),
            windows=self.sliding,
        )

    @property
    def sliding(self) -> tuple[Sliding, ...]:
        """Windows whose positions overlap: the input is read once for all of them."""
        if product_type(self.core) not in MATRIX_TYPES:
            return ()
        return tuple(
            Sliding(1 + n, n, w.stride, w.window_dilation)
            for n, w in enumerate(self.window)
            if w.stride < w.size
        )

    def left(self, e: Expression) -> Node:
        """The input over (group, image, positions, window, input feature).

        Where the window slides, positions are those in the input and the window is 1.
        """
        rank = len(e.extents)
        by_batch = self.kind.batch_groups > 1
        rows = [_NO_ROW] * len(self.dims)
        rows[self.d.input_batch] = _sum(
            unit_row(1, rank), unit_row(0, rank, self.batch if by_batch else 0)
        )
        rows[self.d.input_feature] = _sum(
            unit_row(rank - 1, rank), unit_row(0, rank, 0 if by_batch else self.inputs)
        )
        count = len(self.window)
        sliding = {s.depth for s in self.sliding}
        for n, (axis, w) in enumerate(zip(self.d.input_spatial, self.window, strict=True)):
            offset = unit_row(2 + count + n, rank, w.window_dilation)
            position = unit_row(2 + n, rank, 1 if n in sliding else w.stride)
            rows[axis] = position if n in sliding else _sum(position, offset)
        start, steps = AccessMap(e.extents, tuple(rows)).position(self.dims)
        dtype = self.core.operands[0].shape.element_type
        node = e.load_at(self.array, dtype, start, steps)
        return e.converted(node, product_type(self.core))

    def right(self, e: Expression) -> Node:
        """The kernel over (group, window, input feature, output feature)."""
        kernel = self.core.operands[1]
        rank = len(e.extents)
        rows = [_NO_ROW] * kernel.shape.rank
        rows[self.d.kernel_input_feature] = unit_row(rank - 2, rank)
        rows[self.d.kernel_output_feature] = _sum(
            unit_row(rank - 1, rank), unit_row(0, rank, self.outputs)
        )
        for n, (axis, w) in enumerate(zip(self.d.kernel_spatial, self.window, strict=True)):
            start = w.size - 1 if w.reversal else 0
            rows[axis] = (start, unit_row(1 + n, rank, -1 if w.reversal else 1)[1])
        node = e.node(kernel, AccessMap(e.extents, tuple(rows)))
        return e.converted(node, product_type(self.core))

    def result(self) -> tuple[Row, ...]:
        """Coordinates of the output over (group, image, positions, output feature)."""
        rank = 3 + len(self.window)
        rows = [_NO_ROW] * self.core.shape.rank
        rows[self.d.output_batch] = unit_row(1, rank)
        rows[self.d.output_feature] = _sum(
            unit_row(rank - 1, rank), unit_row(0, rank, self.outputs)
        )
        for n, axis in enumerate(self.d.output_spatial):
            rows[axis] = unit_row(2 + n, rank)
        return tuple(rows)


def _sum(a: Row, b: Row) -> Row:
    return a[0] + b[0], tuple(x + y for x, y in zip(a[1], b[1], strict=True))
