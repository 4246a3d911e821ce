"""Vocabulary of convolutions and windows: labels, padding by name, one convolution as a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ConvDims, WindowDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array

Dims = tuple[int, ...]
Padding = str | Sequence[tuple[int, int]]
"""VALID, SAME, or low and high by spatial dimension."""


def labels(text: str) -> ConvDims:
    """Dimension numbers from their spelling, such as ``bf01_oi01->bf01``."""
    inputs, _, rest = text.partition("_")
    kernel, _, outputs = rest.partition("->")

    def at(word: str) -> Dims:
        digits = sorted(c for c in word if c.isdigit())
        return tuple(word.index(c) for c in digits)

    return ConvDims(
        inputs.index("b"), inputs.index("f"), at(inputs),
        kernel.index("i"), kernel.index("o"), at(kernel),
        outputs.index("b"), outputs.index("f"), at(outputs),
    )  # fmt: skip


def features_first(spatial: int) -> ConvDims:
    """Batch, features, then space; kernels with outputs before inputs."""
    digits = "".join(map(str, range(spatial)))
    return labels(f"bf{digits}_oi{digits}->bf{digits}")


def features_last(spatial: int) -> ConvDims:
    """Batch, space, then features; kernels with space first, outputs last."""
    digits = "".join(map(str, range(spatial)))
    return labels(f"b{digits}f_{digits}io->b{digits}f")


def window_of(
    sizes: Sequence[int],
    *,
    inputs: Sequence[int] = (),
    stride: Sequence[int] = (),
    padding: Padding = "VALID",
    base: Sequence[int] = (),
    dilation: Sequence[int] = (),
    reversal: bool = False,
) -> tuple[WindowDim, ...]:
    """A window; SAME padding needs the sizes of the input."""
    rank = len(sizes)
    stride, base, dilation = (tuple(v) or (1,) * rank for v in (stride, base, dilation))
    pads = _padding(sizes, inputs, stride, padding)
    return tuple(
        WindowDim(sizes[d], stride[d], *pads[d], base[d], dilation[d], reversal)
        for d in range(rank)
    )


def _padding(
    sizes: Sequence[int], inputs: Sequence[int], stride: Sequence[int], padding: Padding
) -> Sequence[tuple[int, int]]:
    if not isinstance(padding, str):
        return padding
    if padding == "VALID":
        return [(0, 0)] * len(sizes)
    pads: list[tuple[int, int]] = []
    for size, given, step in zip(sizes, inputs, stride, strict=True):
        total = max((-(-given // step) - 1) * step + size - given, 0)
        pads.append((total // 2, total - total // 2))
    return pads


def convolution(
    b: HloBuilder,
    x: HloInstruction,
    kernel: HloInstruction,
    dims: ConvDims,
    *,
    result: PrimitiveType | None = None,
    groups: int = 1,
    batch_groups: int = 1,
    precision: tuple[str, ...] = (),
    **window: Any,
) -> HloInstruction:
    """Appends a convolution; the window's options are those of `window_of`."""
    sizes = [kernel.shape.dims[d] for d in dims.kernel_spatial]
    inputs = [x.shape.dims[d] for d in dims.input_spatial]
    attrs: dict[str, Any] = {"operand_precision": precision} if precision else {}
    made = {
        "window": window_of(sizes, inputs=inputs, **window),
        "dim_labels": dims,
        "feature_group_count": groups,
        "batch_group_count": batch_groups,
        **attrs,
    }
    if result is None:
        return b.op("convolution", x, kernel, **made)
    plain = HloBuilder("shape").op("convolution", x, kernel, **made)
    return b.op("convolution", x, kernel, shape=array(result, plain.shape.dims), **made)


def parameters(b: HloBuilder, *dims: Dims, dtype: PrimitiveType = dt.F32) -> list[HloInstruction]:
    """One parameter for each tuple of sizes."""
    return [b.parameter(array(dtype, d)) for d in dims]
