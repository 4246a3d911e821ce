"""Convolutions as kernels would have them, if their operands had dimensions moved."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.attributes import ConvDims
from xladev.hlo.ir import HloInstruction
from xladev.hlo.opset import opdef
from xladev.hlo.shape import Shape, array
from xladev.platforms.cpu.layouts.orders import Span, with_last


def moved_shape(i: HloInstruction, channels: Span) -> Shape:
    """The shape of a value with dimensions behind all others."""
    return array(i.shape.element_type, with_last(i.shape.dims, channels)).row_major()


def in_kernel(
    i: HloInstruction, result: Shape, operands: Sequence[Shape], labels: ConvDims
) -> HloInstruction:
    """The convolution as a kernel has it: on parameters of these shapes."""
    parameters = tuple(
        HloInstruction(opdef("parameter"), shape, (), {"parameter_number": n}, f"p{n}")
        for n, shape in enumerate(operands)
    )
    attrs = {**i.attrs, "dim_labels": labels}
    return HloInstruction(i.op, result.row_major(), parameters, attrs, i.name)
