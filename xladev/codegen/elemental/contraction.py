"""Elements of dot and convolution: one sum of products each, in the accumulation type."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.elemental.choose import choose_many
from xladev.codegen.elemental.computation import Elements
from xladev.codegen.elemental.emitter import ElementalEmitter, ElementRule
from xladev.codegen.elemental.reduction import base_index, reduction_loop
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import Element
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.hlo.ops.convolution_dims import ConvolutionDims


def accumulation_type(result: PrimitiveType) -> PrimitiveType:
    """The type in which products are summed: f32 for narrower floats, s32 or u32 for integers."""
    if result.is_narrow_float:
        return dt.F32
    return result


def multiply_add(
    e: ElementalEmitter, dtype: PrimitiveType, total: Element, left: Element, right: Element
) -> Element:
    """``total + left * right`` in one element type."""
    both = (dtype, dtype)
    product = emit_elementwise(e.b, "multiply", both, dtype, (left, right))
    return emit_elementwise(e.b, "add", both, dtype, (total, product))


def _dot(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    lhs, rhs = i.operands[:2]
    d = DotDims.of(i)
    batch = len(d.lhs_batch)
    lhs_free, rhs_free = d.lhs_free(lhs.shape.rank), d.rhs_free(rhs.shape.rank)
    split = batch + len(lhs_free)
    total = accumulation_type(i.shape.element_type)

    def step(inner: Index, held: Elements) -> Elements:
        left = _gathered(
            lhs.shape.rank,
            (d.lhs_batch, index[:batch]),
            (lhs_free, index[batch:split]),
            (d.lhs_contracting, inner),
        )
        right = _gathered(
            rhs.shape.rank,
            (d.rhs_batch, index[:batch]),
            (rhs_free, index[split:]),
            (d.rhs_contracting, inner),
        )
        return (
            multiply_add(e, total, held[0], _as(e, lhs, left, total), _as(e, rhs, right, total)),
        )

    extents = [lhs.shape.dims[n] for n in d.lhs_contracting]
    zero = constant_element(total, 0)
    (element,) = reduction_loop(e, extents, (zero,), step)
    return _converted(e, element, total, i.shape.element_type)


def _gathered(rank: int, *groups: tuple[tuple[int, ...], Index]) -> Index:
    """Coordinates assembled from groups of (dimensions, coordinates)."""
    mapped: list[IndexValue] = [0] * rank
    for dims, coordinates in groups:
        for d, x in zip(dims, coordinates, strict=True):
            mapped[d] = x
    return tuple(mapped)


def _as(
    e: ElementalEmitter, operand: HloInstruction, index: Index, dtype: PrimitiveType
) -> Element:
    return _converted(e, e.element(operand, index), operand.shape.element_type, dtype)


def _converted(
    e: ElementalEmitter, element: Element, source: PrimitiveType, target: PrimitiveType
) -> Element:
    return element if source is target else emit_convert(e.b, element, source, target)


def _convolution(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    lhs, rhs = i.operands[:2]
    c = ConvolutionDims.of(i)
    d, window = c.labels, c.window
    total = accumulation_type(i.shape.element_type)
    out_batch, out_feature = index[d.output_batch], index[d.output_feature]
    spatial = tuple(index[x] for x in d.output_spatial)
    group_inputs = rhs.shape.dims[d.kernel_input_feature]
    feature_base, batch_base = _group_bases(e, i, c, out_feature)
    base_dims = [lhs.shape.dims[x] for x in d.input_spatial]

    def step(inner: Index, held: Elements) -> Elements:
        at_window, channel = inner[:-1], inner[-1]
        inside, base = base_index(e, window, base_dims, spatial, at_window)

        def product() -> Elements:
            left = _gathered(
                lhs.shape.rank,
                ((d.input_batch,), (e.at.add(batch_base, out_batch),)),
                ((d.input_feature,), (e.at.add(feature_base, channel),)),
                (d.input_spatial, base),
            )
            right = _gathered(
                rhs.shape.rank,
                ((d.kernel_input_feature,), (channel,)),
                ((d.kernel_output_feature,), (out_feature,)),
                (d.kernel_spatial, at_window),
            )
            pair = _as(e, lhs, left, total), _as(e, rhs, right, total)
            return (multiply_add(e, total, held[0], *pair),)

        return choose_many(e, inside, product, lambda: held)

    extents = [*(w.size for w in window), group_inputs]
    (element,) = reduction_loop(e, extents, (constant_element(total, 0),), step)
    return _converted(e, element, total, i.shape.element_type)


def _group_bases(
    e: ElementalEmitter, i: HloInstruction, c: ConvolutionDims, out_feature: IndexValue
) -> tuple[IndexValue, IndexValue]:
    """First input feature and first input batch that belong to an output feature's group."""
    d, groups, batches = c.labels, c.feature_groups, c.batch_groups
    features = i.shape.dims[d.output_feature]
    inputs = i.operands[1].shape.dims[d.kernel_input_feature]
    feature_group = e.at.div(out_feature, features // groups) if groups > 1 else 0
    batch_group = e.at.div(out_feature, features // batches) if batches > 1 else 0
    return e.at.mul(feature_group, inputs), e.at.mul(batch_group, i.shape.dims[d.output_batch])


CONTRACTION_RULES: Mapping[str, ElementRule] = MappingProxyType(
    {"dot": _dot, "convolution": _convolution}
)
"""Code by opcode."""
