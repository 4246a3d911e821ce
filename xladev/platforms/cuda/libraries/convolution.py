"""Convolutions as matrix products: patches of the input, laid out as rows, times the kernel.

Groups are a batch of products. What is left to the kernels that sum element by element: types that
cuBLASLt has not, groups of few features (most of depthwise ones), and patches that take more
memory than `MOST_NBYTES`.
"""

from __future__ import annotations

from xladev.compiler.support import YES, Support, no
from xladev.hlo.attributes import ConvDims
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.hlo.opset import opdef
from xladev.hlo.shape import Shape, array
from xladev.instrument import decision
from xladev.passes.rewrite import Rewriter
from xladev.platforms.cuda.codegen.patches import PATCHES
from xladev.platforms.cuda.libraries.custom_calls import STEP
from xladev.platforms.cuda.libraries.matmul import RULES

MOST_NBYTES = 1 << 30
"""Of all patches of one convolution."""
LEAST_FEATURES = 8
"""Output features of a group below which a product is mostly overhead."""


def convolution_support(i: HloInstruction) -> Support:
    """Whether a convolution is computed as a matrix product."""
    names = tuple(s.element_type.name for s in (*(o.shape for o in i.operands[:2]), i.shape))
    rule = RULES.get((names[0], names[1], names[2]))
    if len(i.operands) != 2 or rule is None or rule.multiple > 1:
        return no(f"cuBLASLt has no product of {', '.join(names)}")
    c = ConvolutionDims.of(i)
    if i["algorithm"] != "dot_unset" or c.batch_groups > 1:
        return no("an algorithm, or batch groups")
    if not i.shape.size or not i.operands[1].shape.size or not i.operands[0].shape.size:
        return no("nothing is multiplied")
    groups = c.feature_groups
    if groups > 1 and i.shape.dims[c.labels.output_feature] < groups * LEAST_FEATURES:
        return no(f"groups of less than {LEAST_FEATURES} features")
    nbytes = _patches_shape(i, c).nbytes
    return YES if nbytes <= MOST_NBYTES else no(f"its patches take {nbytes} bytes")


def _patches_shape(i: HloInstruction, c: ConvolutionDims) -> Shape:
    """Group (if there are several), batch, spatial output dimensions, window, feature."""
    lhs, d, groups = i.operands[0].shape, c.labels, c.feature_groups
    spatial = [i.shape.dims[n] for n in d.output_spatial]
    sizes = [w.size for w in c.window]
    features = lhs.dims[d.input_feature] // groups
    dims = [lhs.dims[d.input_batch], *spatial, *sizes, features]
    return array(lhs.element_type, [groups, *dims] if groups > 1 else dims)


def as_product(r: Rewriter, i: HloInstruction, why: str = "") -> HloInstruction:
    """A supported convolution as a dot of patches and kernel; ``why`` is told of the patches."""
    c = ConvolutionDims.of(i)
    d, groups = c.labels, c.feature_groups
    rows, kernel = _rows(r, i, c, why), _kernel(r, i.operands[1], d, groups)
    batch = (0,) if groups > 1 else ()
    kept, first = len(batch) + i.shape.rank - 1, len(batch)
    spatial = [i.shape.dims[n] for n in d.output_spatial]
    features = i.shape.dims[d.output_feature]
    dims = [i.shape.dims[d.output_batch], *spatial, features // groups]
    made = r.op(
        "dot", rows, kernel,
        shape=array(i.shape.element_type, [groups, *dims] if batch else dims),
        lhs_batch_dims=batch, rhs_batch_dims=batch,
        lhs_contracting_dims=tuple(range(kept, rows.shape.rank)),
        rhs_contracting_dims=tuple(range(first, kernel.shape.rank - 1)),
        operand_precision=i["operand_precision"],
    )  # fmt: skip
    return _as_output(r, made, i, d, groups)


def _rows(r: Rewriter, i: HloInstruction, c: ConvolutionDims, why: str) -> HloInstruction:
    """The patches; the input itself, its dimensions in order, where each is one element."""
    lhs, d = i.operands[0], c.labels
    shape = _patches_shape(i, c)
    if c.feature_groups == 1 and shape.size == lhs.shape.size and c.is_pointwise:
        order = (d.input_batch, *d.input_spatial, d.input_feature)
        return r.reshape(r.transpose(lhs, order), shape.dims)
    attrs = {
        "custom_call_target": PATCHES,
        "window": c.window,
        "dim_labels": d,
        "feature_group_count": c.feature_groups,
    }
    made = r.append(HloInstruction(opdef("custom-call"), shape, (lhs,), attrs, "patches"))
    decision(STEP, made.name, f"cuBLASLt multiplies them for {i.name}: {why}")
    return made


def _kernel(r: Rewriter, rhs: HloInstruction, d: ConvDims, groups: int) -> HloInstruction:
    """The kernel as group (if there are several), window, input feature, output feature."""
    order = (*d.kernel_spatial, d.kernel_input_feature, d.kernel_output_feature)
    ordered = r.transpose(rhs, order)
    if groups == 1:
        return ordered
    *dims, features = ordered.shape.dims
    split = r.reshape(ordered, (*dims, groups, features // groups))
    rank = split.shape.rank
    return r.transpose(split, (rank - 2, *range(rank - 2), rank - 1))


def _as_output(
    r: Rewriter, made: HloInstruction, i: HloInstruction, d: ConvDims, groups: int
) -> HloInstruction:
    """A product of dimensions (group,) batch, spatial, feature as the convolution's result."""
    count = i.shape.rank - 1
    if groups > 1:
        made = r.transpose(made, (*range(1, count + 1), 0, count + 1))
    batch, spatial = i.shape.dims[d.output_batch], [i.shape.dims[n] for n in d.output_spatial]
    plain = r.reshape(made, (batch, *spatial, i.shape.dims[d.output_feature]))
    places = (d.output_batch, *d.output_spatial, d.output_feature)
    return r.transpose(plain, tuple(places.index(n) for n in range(i.shape.rank)))
