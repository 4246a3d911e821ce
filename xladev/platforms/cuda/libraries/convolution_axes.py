"""One spatial dimension of a convolution: from HLO's window to cuDNN's stride, padding, dilation.

HLO writes the gradients of a convolution as convolutions, of a dilated input or with a window as
large as the result was. cuDNN pads both sides by the same; the rest is padded, or cut off, before
the call (`edges`) or after it (`trim`). Sizes are those of the forward convolution:
``result = (image + 2 padding - ((kernel - 1) dilation + 1)) // stride + 1``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xladev.hlo.attributes import WindowDim, dilated

Edges = tuple[int, int]
NONE: Edges = (0, 0)


@dataclass(frozen=True, slots=True)
class ConvolutionAxis:
    """One dimension, as cuDNN has it.

    Attributes:
        stride, padding, dilation: of the forward convolution.
        made: size of what the call computes.
        edges: elements to add before and behind HLO's input first; negative ones are removed.
        trim: the same, of what the call has computed.
        is_turned: the library slides the kernel over the image as HLO would slide the reversed one.
    """

    stride: int
    padding: int
    dilation: int
    made: int
    edges: Edges = NONE
    trim: Edges = NONE
    is_turned: bool = False


def result_size(image: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Size of a forward convolution's result; less than one if the kernel does not fit."""
    return (image + 2 * padding - dilated(kernel, dilation)) // stride + 1


def _forward(w: WindowDim, image: int, result: int) -> ConvolutionAxis | None:
    """HLO's convolution of an input that is not dilated."""
    if w.base_dilation != 1:
        return None
    low, high = w.pad_low, w.pad_high
    stride, dilation = w.stride, w.window_dilation
    if low >= 0 and result_size(image, w.size, stride, low, dilation) == result:
        return ConvolutionAxis(stride, low, dilation, result)
    both = max(0, min(low, high))
    return ConvolutionAxis(stride, both, dilation, result, edges=(low - both, high - both))


def _backward_input(w: WindowDim, loss: int, image: int) -> ConvolutionAxis | None:
    """HLO's convolution of the result, dilated by the stride."""
    if w.stride != 1:
        return None
    stride, dilation = w.base_dilation, w.window_dilation
    extent = dilated(w.size, dilation)
    low, high = extent - 1 - w.pad_low, extent - 1 - w.pad_high
    if low >= 0 and result_size(image, w.size, stride, low, dilation) == loss:
        return ConvolutionAxis(stride, low, dilation, image, is_turned=True)
    both = max(0, min(low, high))
    made = (loss - 1) * stride + extent - 2 * both
    return ConvolutionAxis(
        stride, both, dilation, made, trim=(both - low, both - high), is_turned=True
    )


def _backward_kernel(w: WindowDim, image: int, kernel: int) -> ConvolutionAxis | None:
    """HLO's convolution of the image with a window as large as the result."""
    if w.base_dilation != 1:
        return None
    stride, dilation, low = w.window_dilation, w.stride, w.pad_low
    if low >= 0 and result_size(image, kernel, stride, low, dilation) == w.size:
        return ConvolutionAxis(stride, low, dilation, kernel)
    wanted = (w.size - 1) * stride + dilated(kernel, dilation)
    high = wanted - image - low
    both = max(0, min(low, high))
    return ConvolutionAxis(stride, both, dilation, kernel, edges=(low - both, high - both))


AXES: Mapping[str, Callable[[WindowDim, int, int], ConvolutionAxis | None]] = MappingProxyType(
    {
        "FORWARD": _forward,
        "BACKWARD_INPUT": _backward_input,
        "BACKWARD_KERNEL": _backward_kernel,
    }
)
"""By kind of call: the axis of a window's dimension, the input's size and HLO's result's size; None
where the window asks for what that kind has not."""
