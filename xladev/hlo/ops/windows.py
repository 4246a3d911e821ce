"""Sliding windows over arrays: rules, padding with holes, and strided views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.attributes import Window, WindowDim, dilated
from xladev.hlo.literal import Array
from xladev.hlo.opdef import OpCall


def check_window(call: OpCall, window: Window, constraint: str) -> None:
    """Requires positive sizes, strides and dilations."""
    for part in window:
        least = min(part.size, part.stride, part.base_dilation, part.window_dilation)
        if least < 1 and not (part.size == 0 and call.op.name == "convolution"):
            call.fail(constraint, "window sizes, strides and dilations must be at least 1")


def padded(values: Array, window: Sequence[WindowDim | None], fill: Array) -> Array:
    """The array that a window slides over: with holes, then padded or (if negative) cropped.

    Args:
        values: any array.
        window: one entry per dimension; None leaves the dimension alone.
        fill: scalar in holes and padding.
    """
    if all(part is None or _is_plain(part) for part in window):
        return values
    sizes: list[int] = []
    into: list[slice] = []
    source: list[slice] = []
    for size, part in zip(values.shape, window, strict=True):
        total, target, taken = _placed(size, part)
        sizes.append(total)
        into.append(target)
        source.append(taken)
    result = np.full(sizes, fill, values.dtype)
    result[tuple(into)] = values[tuple(source)]
    return result


def _is_plain(part: WindowDim) -> bool:
    return part.pad_low == part.pad_high == 0 and part.base_dilation == 1


def _placed(size: int, part: WindowDim | None) -> tuple[int, slice, slice]:
    """Padded size, where the elements that remain go, and which elements these are."""
    if part is None:
        return size, slice(None), slice(None)
    step = part.base_dilation
    total = max(part.pad_low + dilated(size, step) + part.pad_high, 0)
    first = max(0, -(part.pad_low // step))
    last = min(size, (total - 1 - part.pad_low) // step + 1)
    if last <= first:
        return total, slice(0, 0), slice(0, 0)
    start = part.pad_low + first * step
    return total, slice(start, start + (last - first - 1) * step + 1, step), slice(first, last)


def window_positions(window: Window, at: tuple[int, ...]) -> tuple[slice, ...]:
    """The elements of a padded array that the window covers at one of its positions."""
    return tuple(
        slice(
            i * part.stride,
            i * part.stride + (part.size - 1) * part.window_dilation + 1 if part.size else 0,
            part.window_dilation,
        )
        for i, part in zip(at, window, strict=True)
    )


def window_view(values: Array, window: Window) -> Array:
    """All windows of a padded array, without copying.

    Returns:
        A read-only view: window positions, one dimension each, then elements of the window.
    """
    counts: list[int] = []
    strides: list[int] = []
    for size, part in zip(values.shape, window, strict=True):
        extent = dilated(part.size, part.window_dilation)
        counts.append(0 if size < extent or size == 0 else (size - extent) // part.stride + 1)
    strides = [s * part.stride for s, part in zip(values.strides, window, strict=True)]
    inner = [s * part.window_dilation for s, part in zip(values.strides, window, strict=True)]
    shape = (*counts, *(part.size for part in window))
    # NumPy cannot make a strided view of ml_dtypes' float8_e5m2, but of bytes it can.
    narrow = values.dtype.itemsize == 1
    plain = values.view(np.uint8) if narrow else values
    view = np.lib.stride_tricks.as_strided(plain, shape, (*strides, *inner), writeable=False)
    return view.view(values.dtype) if narrow else view
