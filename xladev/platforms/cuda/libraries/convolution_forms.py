"""Which convolution of cuDNN an HLO convolution is, and the layouts that it asks for.

Gradients are recognised by what only they need: a dilated input, groups of the batch, a reversed
kernel, images that are summed over (their number is HLO's input feature, which is outermost). f32
that must not be rounded to tf32 goes features first, all else features last, which are the
orders that cuDNN's exact engines and its tensor cores take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.platforms.cuda.libraries.calls import Convolution, Tensor
from xladev.platforms.cuda.libraries.convolution_axes import AXES, ConvolutionAxis

TYPES = frozenset({"f32", "bf16", "f16"})
MOST_SPATIAL = 3
PRECISE = frozenset({"high", "highest"})
"""Operand precisions that tf32 does not have."""
FEATURE_MULTIPLE = {"f32": 4, "bf16": 8, "f16": 8}
"""Features that come in whole vectors of 16 bytes, which an epilogue asks for."""


@dataclass(frozen=True, slots=True)
class ConvolutionForm:
    """How an HLO convolution is one of cuDNN's.

    Attributes:
        call: of the library.
        axes: its spatial dimensions, as HLO counts them.
        lhs, rhs, result: dimensions of HLO's arrays in cuDNN's order: batch, features, spatial.
        order: cuDNN's dimensions as they are in memory, outermost first.
        reversed_dims: dimensions of the second operand to be reversed first.
    """

    call: Convolution
    axes: tuple[ConvolutionAxis, ...]
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    result: tuple[int, ...]
    order: tuple[int, ...]
    reversed_dims: tuple[int, ...]


def cudnn_support(i: HloInstruction) -> Support:
    """Whether cuDNN computes a convolution."""
    shapes = (*(o.shape for o in i.operands[:2]), i.shape)
    names = {s.element_type.name for s in shapes}
    if len(i.operands) != 2 or len(names) != 1 or not names <= TYPES:
        return no(f"cuDNN is not asked for {', '.join(s.element_type.name for s in shapes)}")
    if i["algorithm"] != "dot_unset":
        return no(f"cuDNN is not asked for algorithm {i['algorithm']}")
    spatial = len(ConvolutionDims.of(i).window)
    if not 1 <= spatial <= MOST_SPATIAL:
        return no(f"{spatial} spatial dimensions")
    if not all(s.size for s in shapes):
        return no("nothing is multiplied")
    if is_product(i):
        return no("windows of one element are a matrix product as they are")
    return YES if _axes(i, kind_of(i)) else no("a window that no convolution of cuDNN has")


def is_product(i: HloInstruction) -> bool:
    """Whether the input already is the matrix that a kernel of one element multiplies."""
    c = ConvolutionDims.of(i)
    order = (c.labels.input_batch, *c.labels.input_spatial, c.labels.input_feature)
    return c.is_pointwise and c.groups == 1 and order == tuple(range(len(order)))


def kind_of(i: HloInstruction) -> str:
    """``FORWARD``, ``BACKWARD_INPUT`` or ``BACKWARD_KERNEL``."""
    c = ConvolutionDims.of(i)
    window, d = c.window, c.labels
    if c.batch_groups > 1:
        return "BACKWARD_KERNEL"
    if any(w.base_dilation > 1 for w in window):
        return "BACKWARD_INPUT"
    is_large = prod(w.size for w in window) > prod(i.shape.dims[n] for n in d.output_spatial)
    if is_large and c.feature_groups == 1 and d.input_feature < d.input_batch:
        return "BACKWARD_KERNEL"
    turned = [t for t, w in zip(_turned(i), window, strict=True) if w.size > 1]
    slow = any(w.stride > 1 for w in window)
    return "BACKWARD_INPUT" if turned and all(turned) and not slow else "FORWARD"


def _turned(i: HloInstruction) -> list[bool]:
    """For each spatial dimension, whether the kernel (without a reverse before it) is reversed."""
    before = reversed_before(i)
    c = ConvolutionDims.of(i)
    pairs = zip(c.window, c.labels.kernel_spatial, strict=True)
    return [w.reversal != (k in before) for w, k in pairs]


def reversed_before(i: HloInstruction) -> tuple[int, ...]:
    """Dimensions that a reverse of spatial ones alone reverses before the convolution."""
    kernel = i.operands[1]
    if kernel.opcode != "reverse":
        return ()
    dims: tuple[int, ...] = kernel["dimensions"]
    return dims if set(dims) <= set(ConvolutionDims.of(i).labels.kernel_spatial) else ()


def _axes(i: HloInstruction, kind: str) -> tuple[ConvolutionAxis, ...]:
    """The spatial dimensions; empty if the kind of call cannot have one of them."""
    c = ConvolutionDims.of(i)
    d = c.labels
    found = [
        AXES[kind](w, i.operands[0].shape.dims[n], i.shape.dims[m])
        for w, n, m in zip(c.window, d.input_spatial, d.output_spatial, strict=True)
    ]
    good = tuple(axis for axis in found if axis is not None)
    return good if len(good) == len(found) else ()


def form_of(
    i: HloInstruction, *, allow_tf32: bool = False, deterministic: bool = False
) -> ConvolutionForm:
    """The call that computes a convolution of `cudnn_support`, and the layouts it asks for.

    Args:
        i: the convolution.
        allow_tf32: f32 may be rounded to tf32, unless an operand wants high precision.
        deterministic: neither plan nor result may depend on the run.
    """
    kind, name = kind_of(i), i.shape.element_type.name
    axes = _axes(i, kind)
    fast = name == "f32" and allow_tf32 and not PRECISE & set(i["operand_precision"])
    spatial = range(2, i.shape.rank)
    order = (0, 1, *spatial) if name == "f32" and not fast else (0, *spatial, 1)
    image, kernel, result = (_tensor(name, dims, order) for dims in _sizes(i, kind, axes))
    call = Convolution(
        kind,
        image,
        kernel,
        result,
        _two([a.stride for a in axes], 1),
        _two([a.padding for a in axes], 0),
        _two([a.dilation for a in axes], 1),
        "32F_FAST_TF32" if fast else "32F",
        deterministic=deterministic,
    )
    return ConvolutionForm(call, axes, *_dimensions(i, kind), order, _to_reverse(i, axes))


def _two(values: Sequence[int], neutral: int) -> tuple[int, ...]:
    """Of one spatial dimension, two: cuDNN has no convolutions of rows."""
    return tuple(values) if len(values) > 1 else (neutral, *values)


def _tensor(name: str, dims: Sequence[int], order: Sequence[int]) -> Tensor:
    """A packed tensor; a row becomes an image of one row."""
    strides = [1] * len(dims)
    for outer, inner in pairwise(reversed(order)):
        strides[inner] = strides[outer] * dims[outer]
    if len(dims) > 3:
        return Tensor(name, tuple(dims), tuple(strides))
    row = dims[2] * strides[2]
    return Tensor(name, (*dims[:2], 1, dims[2]), (*strides[:2], row, strides[2]))


def _sizes(i: HloInstruction, kind: str, axes: Sequence[ConvolutionAxis]) -> tuple[list[int], ...]:
    """Dimensions of image, kernel and result of the forward convolution, in cuDNN's order."""
    c = ConvolutionDims.of(i)
    groups = c.groups
    lhs, _, out = _dimensions(i, kind)
    read, made = i.operands[0].shape.dims, i.shape.dims
    window = [w.size for w in c.window]
    left = [*(read[n] for n in lhs[:2])]
    left += [read[n] + sum(axis.edges) for n, axis in zip(lhs[2:], axes, strict=True)]
    written = [*(made[n] for n in out[:2]), *(axis.made for axis in axes)]
    if kind == "FORWARD":
        return left, [written[1], left[1] // groups, *window], written
    if kind == "BACKWARD_INPUT":
        return written, [left[1], written[1] // groups, *window], left
    return left, written, [left[0], written[0], *window]


def _dimensions(
    i: HloInstruction, kind: str
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Dimensions of both operands and the result, in cuDNN's order."""
    d = ConvolutionDims.of(i).labels
    by_output = (d.kernel_output_feature, d.kernel_input_feature, *d.kernel_spatial)
    by_input = (d.kernel_input_feature, d.kernel_output_feature, *d.kernel_spatial)
    if kind == "BACKWARD_KERNEL":
        lhs = (d.input_feature, d.input_batch, *d.input_spatial)
        return lhs, by_input, (d.output_feature, d.output_batch, *d.output_spatial)
    lhs = (d.input_batch, d.input_feature, *d.input_spatial)
    out = (d.output_batch, d.output_feature, *d.output_spatial)
    return lhs, by_output if kind == "FORWARD" else by_input, out


def _to_reverse(i: HloInstruction, axes: Sequence[ConvolutionAxis]) -> tuple[int, ...]:
    c = ConvolutionDims.of(i)
    parts = zip(c.labels.kernel_spatial, c.window, _turned(i), axes, strict=True)
    return tuple(n for n, w, turned, axis in parts if w.size > 1 and turned != axis.is_turned)


def with_epilogue(form: ConvolutionForm, epilogue: str) -> Convolution | None:
    """The call with a bias or an activation; None where cuDNN may have no plan for that."""
    call = form.call
    multiple = FEATURE_MULTIPLE[call.image.dtype]
    is_whole = not any(t.dims[1] % multiple for t in (call.image, call.result))
    is_fast = call.image.dtype != "f32" or call.compute == "32F_FAST_TF32"
    if call.kind != "FORWARD" or call.groups != 1 or not is_whole or not is_fast:
        return None
    return replace(call, epilogue=epilogue)
