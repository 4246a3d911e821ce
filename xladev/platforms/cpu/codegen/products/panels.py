"""Right operands that are packed: how they are laid out, in HLO, and how a kernel sees that.

A product of a constant needs no packing if the constant is in memory as packing would leave it:
panel by panel, each as wide as a tile, zeros after the last column. The kernel's computation says
so in HLO: its parameter is the array of panels, and what it multiplies by is that array transposed,
reshaped and sliced to the operand it stands for. Whoever does not know of panels computes the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from xladev.hlo.attributes import ConvDims, SliceDim
from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloInstruction
from xladev.hlo.literal import Array
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.shape import array as array_shape

_MOVES = frozenset({"transpose", "reshape", "slice"})


@dataclass(frozen=True, slots=True)
class PanelForm:
    """How an array is laid out in panels.

    Attributes:
        dims: of the array.
        outer: sizes of what is no matrix: batch dimensions, or groups of features.
        depth: size of all dimensions that are summed over.
        columns: number of columns, for each index of ``outer``.
        is_inside: true if ``outer`` is between depth and columns in the array, and not before.
        width: columns of a panel.
        unit: elements of a column that are multiplied at once, and neighbours in a panel.
    """

    dims: tuple[int, ...]
    outer: tuple[int, ...]
    depth: int
    columns: int
    is_inside: bool
    width: int
    unit: int = 1

    @property
    def count(self) -> int:
        """Panels for each index of ``outer``."""
        return -(-self.columns // self.width)

    @property
    def lines(self) -> int:
        """Lines of a panel."""
        return self.depth // self.unit

    @property
    def panels(self) -> tuple[int, ...]:
        """Dimensions of the array of panels: outer, panel, line, column, and those of a unit."""
        inner = (self.unit,) if self.unit > 1 else ()
        return (*self.outer, self.count, self.lines, self.width, *inner)

    def packed(self, array: Array, out: Array | None = None) -> Array:
        """The array of panels, of the same element type.

        Args:
            array: of the form's dimensions, in any order in memory.
            out: where to; by default a new array.
        """
        if out is None:
            out = np.empty(self.panels, array.dtype)
        if self.is_inside:
            matrices = array.reshape(self.depth, *self.outer, self.columns)
            matrices = np.moveaxis(matrices, 0, -2)
        else:
            matrices = array.reshape(*self.outer, self.depth, self.columns)
        panels = out.reshape(*self.outer, self.count, self.lines, self.width, self.unit)
        whole = self.columns // self.width
        last = self.columns - whole * self.width
        for first, count, width in ((0, whole, self.width), (whole, self.count - whole, last)):
            begin = first * self.width
            columns = matrices[..., begin : begin + count * width]
            cut = columns.reshape(*self.outer, self.lines, self.unit, count, width)
            panels[..., first : first + count, :, :width, :] = self._by_panels(cut)
        panels[..., whole:, :, last:, :] = 0
        return out

    def _by_panels(self, cut: Array) -> Array:
        """Lines, units, panels and columns in the order of panels."""
        outer = len(self.outer)
        return cut.transpose(*range(outer), outer + 2, outer, outer + 3, outer + 1)

    def unpacked(self, panels: HloInstruction) -> HloInstruction:
        """The array of a value that holds its panels."""
        n = len(self.outer)
        outer, lines = tuple(range(n)), (n + 1, *((n + 3,) if self.unit > 1 else ()))
        rows = (*lines, *outer) if self.is_inside else (*outer, *lines)
        leading = (self.depth, *self.outer) if self.is_inside else (*self.outer, self.depth)
        turned = _made("transpose", panels, dimensions=(*rows, n, n + 2))
        whole = self.count * self.width
        value = _reshaped(turned, (*leading, whole))
        if whole != self.columns:
            bounds = tuple(SliceDim(0, size) for size in (*leading, self.columns))
            value = _made("slice", value, slice=bounds)
        return _reshaped(value, self.dims)


def with_plain_right(i: HloInstruction) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The order of a dot's or convolution's right operand in which panels hold it.

    That is batch, depth and columns for a dot; window, channels and features for a convolution,
    whose window goes as it is in memory.

    Returns:
        The dimensions in that order, and attributes that say so of an operand transposed to it.
    """
    if i.opcode == "dot":
        dot = DotDims.of(i)
        batch, depth = dot.rhs_batch, dot.rhs_contracting
        free = dot.rhs_free(i.operands[1].shape.rank)
        first, last = len(batch), len(batch) + len(depth)
        dims = {"rhs_batch_dims": _upto(first), "rhs_contracting_dims": _upto(last)[first:]}
        return (*batch, *depth, *free), dims
    d: ConvDims = i["dim_labels"]
    order, count = i.operands[1].shape.minor_to_major, len(d.kernel_spatial)
    axes = sorted(range(count), key=lambda n: -order.index(d.kernel_spatial[n]))
    labels = replace(
        d,
        kernel_spatial=tuple(map(axes.index, range(count))),
        kernel_input_feature=count,
        kernel_output_feature=count + 1,
    )
    spatial = (d.kernel_spatial[n] for n in axes)
    return (*spatial, d.kernel_input_feature, d.kernel_output_feature), {"dim_labels": labels}


def panel_form(i: HloInstruction, width: int, unit: int = 1) -> PanelForm | None:
    """How panels hold the right operand of a product; None if it is in another order."""
    order, _ = with_plain_right(i)
    dims = i.operands[1].shape.dims
    if order != _upto(len(dims)):
        return None
    if i.opcode == "dot":
        dot = DotDims.of(i)
        first = len(dot.rhs_batch)
        last = first + len(dot.rhs_contracting)
        depth, columns = prod(dims[first:last]), prod(dims[last:])
        return PanelForm(dims, dims[:first], depth, columns, False, width, unit)
    groups = i["feature_group_count"]
    columns = dims[-1] // groups
    return PanelForm(dims, (groups,), prod(dims[:-1]), columns, True, width, unit)


@dataclass(frozen=True, slots=True)
class Panels:
    """The right operand of a product, in panels.

    Attributes:
        parameter: the kernel's parameter that holds them.
        form: how.
    """

    parameter: HloInstruction
    form: PanelForm


def panels_of(i: HloInstruction) -> Panels | None:
    """The panels that a product's right operand is made of; None if it is anything else."""
    chain = _chain(i.operands[1])
    source = chain[-1].operands[0] if chain else None
    if source is None or source.opcode != "parameter":
        return None
    dims = source.shape.dims
    for unit in {1, dims[-1]}:
        width = dims[-1] if unit == 1 else dims[-2]
        form = panel_form(i, width, unit) if width and unit else None
        if form is None or form.depth % unit or form.panels != dims:
            continue
        if _same(chain, _chain(form.unpacked(source))):
            return Panels(source, form)
    return None


def _chain(value: HloInstruction) -> list[HloInstruction]:
    """What moves elements on the way to a value, the last first."""
    found: list[HloInstruction] = []
    while value.opcode in _MOVES:
        found.append(value)
        value = value.operands[0]
    return found


def _same(chain: Sequence[HloInstruction], other: Sequence[HloInstruction]) -> bool:
    return len(chain) == len(other) and all(
        (a.opcode, a.shape.dims, a.attrs) == (b.opcode, b.shape.dims, b.attrs)
        for a, b in zip(chain, other, strict=True)
    )


def _upto(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def _made(opcode: str, operand: HloInstruction, **attrs: Any) -> HloInstruction:
    made = make_instruction(opcode, (operand,), attrs, name=f"{operand.name}.{opcode}")
    return replace(made, shape=made.shape.row_major())


def _reshaped(value: HloInstruction, dims: tuple[int, ...]) -> HloInstruction:
    if value.shape.dims == dims:
        return value
    shape = array_shape(value.shape.element_type, dims).row_major()
    return make_instruction("reshape", (value,), shape=shape, name=f"{value.name}.reshape")
