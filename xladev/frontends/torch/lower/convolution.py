"""Convolutions of any rank, transposed ones, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.hlo.attributes import ConvDims, Window, WindowDim
from xladev.hlo.shape import Shape

CONVOLUTION = Family("convolution", "Convolutions and their gradients.")
_lowers = CONVOLUTION.lowers

Ints = Sequence[int]


def _each(values: Ints, count: int) -> list[int]:
    return list(values) if len(values) == count else [values[0]] * count


def _dims(rank: int, *, swapped: bool = False) -> ConvDims:
    """Batch, features, space; of the kernel output features, input features, space."""
    space = tuple(range(2, 2 + rank))
    features = (0, 1) if swapped else (1, 0)
    return ConvDims(0, 1, space, *features, space, 0, 1, space)


def _convolve(x: Value, w: Value, window: Window, dims: ConvDims, groups: int) -> Value:
    return x.op("convolution", w, window=window, dim_labels=dims, feature_group_count=groups)


def _forward(x: Value, w: Value, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Value:
    window = tuple(
        WindowDim(size, s, p, p, 1, d)
        for size, s, p, d in zip(w.dims[2:], stride, padding, dilation, strict=True)
    )
    return _convolve(x, w, window, _dims(len(window)), groups)


def _transposed(
    x: Value, w: Value, stride: Ints, low: Ints, high: Ints, dilation: Ints, groups: int
) -> Value:
    """What a convolution with kernel ``w`` [in, out / groups, ...] spreads out again.

    ``low`` and ``high`` are what was padded; negative where more was.
    """
    rank = len(stride)
    if groups > 1:
        w = _regrouped(w, groups)
    window = tuple(
        WindowDim(size, 1, d * (size - 1) - lo, d * (size - 1) - hi, s, d, True)
        for size, s, lo, hi, d in zip(w.dims[2:], stride, low, high, dilation, strict=True)
    )
    return _convolve(x, w, window, _dims(rank, swapped=groups == 1), groups)


def _regrouped(w: Value, groups: int) -> Value:
    """[in, out / groups, ...] as [out, in / groups, ...], group by group."""
    inputs, outputs, *space = w.dims
    split = w.reshape((groups, inputs // groups, outputs, *space))
    order = (0, 2, 1, *range(3, 3 + len(space)))
    return split.transpose(order).reshape((groups * outputs, inputs // groups, *space))


@_lowers("convolution.default", "_convolution.default", sample="nn.functional.conv2d")
def _convolution(
    b: TensorBuilder,
    out: Shape,
    x: Value,
    w: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    *_: bool,
) -> Value:
    """Convolution, or transposed convolution, of any rank, with groups and dilation."""
    rank = w.rank - 2
    s, p, d = (_each(v, rank) for v in (stride, padding, dilation))
    batched = x if x.rank == w.rank else x.reshape((1, *x.dims))
    if 0 in (*out.dims, *x.dims, *w.dims):
        made = b.full(0, out.element_type, out.dims)
    elif transposed:
        high = [lo - extra for lo, extra in zip(p, _each(output_padding, rank), strict=True)]
        made = _transposed(batched, w, s, p, high, d, groups)
    else:
        made = _forward(batched, w, s, p, d, groups)
    if bias is not None:
        made = made + bias.reshape((1, bias.dims[0], *(1,) * rank))
    return made.reshape(out.dims)


def _kernel_gradient(
    gradient: Value,
    x: Value,
    shape: Shape,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Value:
    """The gradient of a kernel: x convolved with the gradient, batch and features exchanged."""
    rank = len(stride)
    space = tuple(range(2, 2 + rank))
    window = []
    for k, n, g, s, p, d in zip(
        shape.dims[2:], x.dims[2:], gradient.dims[2:], stride, padding, dilation, strict=True
    ):
        high = (g - 1) * s + 1 + (k - 1) * d - n - p
        window.append(WindowDim(g, d, p, high, 1, s))
    x_grouped, features = _by_group(x, groups), shape.dims[1]
    if groups == 1:
        dims = ConvDims(1, 0, space, 0, 1, space, 1, 0, space)
        return _convolve(x, gradient, tuple(window), dims, 1)
    dims = ConvDims(0, 1, space, 0, 1, space, 0, 1, space)
    made = _convolve(x_grouped, gradient, tuple(window), dims, groups)
    order = (1, 0, *space)
    return made.transpose(order).reshape((shape.dims[0], features, *shape.dims[2:]))


def _by_group(x: Value, groups: int) -> Value:
    """[batch, group * features, ...] as [features, group * batch, ...]."""
    if groups == 1:
        return x
    batch, features, *space = x.dims
    split = x.reshape((batch, groups, features // groups, *space))
    order = (2, 1, 0, *range(3, 3 + len(space)))
    return split.transpose(order).reshape((features // groups, groups * batch, *space))


@_lowers("convolution_backward.default", sample="nn.functional.conv2d")
def _convolution_backward(
    b: TensorBuilder,
    out: Sequence[Shape | None],
    gradient: Value,
    x: Value,
    w: Value,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    mask: Sequence[bool],
) -> list[Value | None]:
    """Gradients of a convolution: of its input, kernel and bias, those that the mask asks for."""
    rank = w.rank - 2
    s, p, d = (_each(v, rank) for v in (stride, padding, dilation))
    found: list[Value | None] = [None, None, None]
    if mask[0] and out[0] is not None:
        found[0] = _input_gradient(gradient, w, out[0], s, p, d, transposed, groups)
    if mask[1] and out[1] is not None:
        pair = (x, gradient) if transposed else (gradient, x)
        empty = 0 in (*gradient.dims, *x.dims, *w.dims)
        found[1] = (
            b.full(0, w.dtype, w.dims)
            if empty
            else _kernel_gradient(*pair, w.node.shape, s, p, d, groups)
        )
    if mask[2] and out[2] is not None:
        found[2] = gradient.sum((0, *range(2, 2 + rank)))
    return found


def _input_gradient(
    gradient: Value,
    w: Value,
    shape: Shape,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    groups: int,
) -> Value:
    if 0 in (*gradient.dims, *w.dims, *shape.dims):
        return gradient.builder.full(0, gradient.dtype, shape.dims)
    if transposed:
        return _forward(gradient, w, stride, padding, dilation, groups)
    high = []
    for n, k, g, s, p, d in zip(
        shape.dims[2:], w.dims[2:], gradient.dims[2:], stride, padding, dilation, strict=True
    ):
        covered = (g - 1) * s + d * (k - 1) + 1
        high.append(covered - n - p)
    return _transposed(gradient, w, stride, padding, high, dilation, groups)
