"""Structured attributes <-> their messages: windows, dimension numbers, padding, aliasing."""

from __future__ import annotations

from typing import Any

from xladev.hlo.attributes import (
    ConvDims,
    OutputAlias,
    PadDim,
    ResultAccuracy,
    SliceDim,
    Window,
    WindowDim,
)
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message
from xladev.hlo.shape import MAX_RANK

_MOST_SPATIAL = 10


def read_window(message: Message) -> Window:
    """The window in a ``Window``; strides and dilations of 0, "not set", are 1."""
    return tuple(map(_read_window_dim, message.children("dimensions")))


def _read_window_dim(message: Message) -> WindowDim:
    return WindowDim(
        size=message.integer("size"),
        stride=message.integer("stride") or 1,
        pad_low=message.integer("padding_low"),
        pad_high=message.integer("padding_high"),
        base_dilation=message.integer("base_dilation") or 1,
        window_dilation=message.integer("window_dilation") or 1,
        reversal=message.flag("window_reversal"),
    )


def write_window(window: Window) -> bytes:
    """The ``Window`` of a window."""
    return encode("Window", {"dimensions": [_write_window_dim(d) for d in window]})


def _write_window_dim(dim: WindowDim) -> bytes:
    return encode(
        "WindowDimension",
        {
            "size": dim.size,
            "stride": dim.stride,
            "padding_low": dim.pad_low,
            "padding_high": dim.pad_high,
            "base_dilation": dim.base_dilation,
            "window_dilation": dim.window_dilation,
            "window_reversal": dim.reversal,
        },
    )


def read_conv_dims(message: Message) -> ConvDims:
    """The dimension numbers in a ``ConvolutionDimensionNumbers``.

    Raises:
        ProtoError: a dimension used twice or of no array, or other spatial dimensions per array.
    """
    found = ConvDims(
        *_conv_positions(message, "input_batch", "input_feature", "input_spatial"),
        *_conv_positions(
            message, "kernel_input_feature", "kernel_output_feature", "kernel_spatial"
        ),
        *_conv_positions(message, "output_batch", "output_feature", "output_spatial"),
    )
    counts = {len(d) for d in (found.input_spatial, found.kernel_spatial, found.output_spatial)}
    if len(counts) > 1 or max(counts) > _MOST_SPATIAL:
        raise message.error(
            "operands and result of a convolution differ in their spatial dimensions",
            f"all have the same number of them, at most {_MOST_SPATIAL}",
        )
    return found


def _conv_positions(
    message: Message, first: str, second: str, spatial: str
) -> tuple[int, int, tuple[int, ...]]:
    """Where one array of a convolution has its two named dimensions and its spatial ones."""
    a, b = message.integer(f"{first}_dimension"), message.integer(f"{second}_dimension")
    rest = message.integers(f"{spatial}_dimensions")
    places = (a, b, *rest)
    if len(set(places)) < len(places) or not all(0 <= p < MAX_RANK for p in places):
        raise message.error(
            f"{first}, {second} and {spatial} are dimensions {list(places)}",
            f"they differ, and are at least 0 and below {MAX_RANK}",
        )
    return a, b, rest


def write_conv_dims(dims: ConvDims) -> bytes:
    """The ``ConvolutionDimensionNumbers`` of dimension numbers."""
    return encode(
        "ConvolutionDimensionNumbers",
        {
            "input_batch_dimension": dims.input_batch,
            "input_feature_dimension": dims.input_feature,
            "input_spatial_dimensions": dims.input_spatial,
            "kernel_input_feature_dimension": dims.kernel_input_feature,
            "kernel_output_feature_dimension": dims.kernel_output_feature,
            "kernel_spatial_dimensions": dims.kernel_spatial,
            "output_batch_dimension": dims.output_batch,
            "output_feature_dimension": dims.output_feature,
            "output_spatial_dimensions": dims.output_spatial,
        },
    )


def read_slice_dim(message: Message) -> SliceDim:
    """One dimension of a slice; a stride of 0, "not set", is 1."""
    return SliceDim(
        message.integer("start"), message.integer("limit"), message.integer("stride") or 1
    )


def write_slice_dim(dim: SliceDim) -> bytes:
    """The ``SliceDimensions`` of one dimension."""
    values = {"start": dim.start, "limit": dim.limit, "stride": dim.stride}
    return encode("HloInstructionProto.SliceDimensions", values)


def read_padding(message: Message) -> tuple[PadDim, ...]:
    """The padding in a ``PaddingConfig``."""
    return tuple(
        PadDim(
            d.integer("edge_padding_low"),
            d.integer("edge_padding_high"),
            d.integer("interior_padding"),
        )
        for d in message.children("dimensions")
    )


def write_padding(padding: tuple[PadDim, ...]) -> bytes:
    """The ``PaddingConfig`` of padding."""
    return encode("PaddingConfig", {"dimensions": [_write_pad_dim(d) for d in padding]})


def _write_pad_dim(dim: PadDim) -> bytes:
    values = {
        "edge_padding_low": dim.low,
        "edge_padding_high": dim.high,
        "interior_padding": dim.interior,
    }
    return encode("PaddingConfig.PaddingConfigDimension", values)


def read_output_alias(message: Message) -> OutputAlias:
    """One pair of buffers that are the same."""
    return OutputAlias(
        message.integers("output_shape_index"),
        message.integer("operand_index"),
        message.integers("operand_shape_index"),
    )


def write_output_alias(alias: OutputAlias) -> bytes:
    """The ``OutputOperandAliasing`` of one pair."""
    return encode(
        "OutputOperandAliasing",
        {
            "output_shape_index": alias.output_index,
            "operand_index": alias.operand,
            "operand_shape_index": alias.operand_index,
        },
    )


def read_accuracy(message: Message) -> ResultAccuracy | None:
    """The accuracy in a ``ResultAccuracy``; None for the default mode."""
    tolerance = message.child("tolerance")
    if tolerance is not None:
        return ResultAccuracy(
            "", tolerance.real("atol"), tolerance.real("rtol"), tolerance.integer("ulps")
        )
    mode = message.enum("mode").lower()
    return None if mode == "default" else ResultAccuracy(mode)


def write_accuracy(accuracy: ResultAccuracy) -> bytes:
    """The ``ResultAccuracy`` of an accuracy."""
    if accuracy.mode:
        return encode("ResultAccuracy", {"mode": accuracy.mode.upper()})
    values: dict[str, Any] = {
        "atol": accuracy.atol,
        "rtol": accuracy.rtol,
        "ulps": accuracy.ulps,
    }
    return encode("ResultAccuracy", {"tolerance": encode("ResultAccuracy.Tolerance", values)})


def read_pair(message: Message) -> tuple[int, int]:
    """One source and target device."""
    return message.integer("source"), message.integer("target")


def write_pair(pair: tuple[int, int]) -> bytes:
    """The ``SourceTarget`` of a source and target device."""
    source, target = pair
    return encode("SourceTarget", {"source": source, "target": target})
