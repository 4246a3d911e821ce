"""Convolutions small enough to follow by hand, under the names by which they are known.

Inputs are batch, features, space and kernels output, input features, space, unless a case says
otherwise; stride 1, no padding. Where the result is written out, it counts, whatever the evaluator
says. What is varied is what XLA's own suite of the same case names varies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xladev.hlo.builder import HloBuilder
from xladev.hlo.literal import Array
from xladev.testing.conformance.case import Build, Case, given, ordinary
from xladev.testing.conformance.cells import Node
from xladev.testing.conformance.windows import (
    convolution,
    features_first,
    features_last,
    parameters,
)

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Variant:
    """One convolution: sizes and values of input and kernel, the window, the result."""

    input: Dims
    kernel: Dims
    values: Sequence[float] | Array | None = None
    weights: Sequence[float] | Array | None = None
    want: Sequence[float] | Array | None = None
    window: dict[str, Any] = field(default_factory=dict)
    last: bool = False
    backward: str = ""


def counting(first: float, dims: Dims) -> Array:
    return np.arange(first, first + np.prod(dims)).astype(np.float32)


def flat(height: int, width: int) -> Dims:
    return (1, 1, height, width)


def powers(count: int, most: int) -> Array:
    return (10.0 ** (most - np.arange(count))).astype(np.float32)


def by_place(dims: Dims) -> Array:
    """Batch + row + column + 1."""
    b, _, y, x = np.indices(dims)
    return (b + y + x + 1).astype(np.float32)


HALF = {"stride": (1, 2)}
SAME = {"padding": "SAME"}


def width(low: int, high: int, **window: Any) -> dict[str, Any]:
    return {"padding": [(0, 0), (low, high)], **window}


BOTH = {"base": (1, 2), "dilation": (1, 2)}
QUARTERS = np.repeat([1.0, 2.0, 3.0, 4.0], 64).astype(np.float32)

VARIANTS = {
    "Minimal": Variant((1, 1, 1, 1), (1, 1, 1, 1), [2], [3], [6]),
    "MinimalWithBatch": Variant(
        (5, 1, 1, 1), (1, 1, 1, 1), [1, 2, 3, 4, 5], [2], [2, 4, 6, 8, 10]
    ),
    "Flat1x1": Variant((2, 1, 3, 4), (1, 1, 1, 1), 3 * counting(1, (24,)), [2.3]),
    "Deep1x1": Variant((1, 2, 1, 1), (3, 2, 1, 1), [10, 1], [1, 2, 3, 4, 5, 6], [12, 34, 56]),
    "Filter1x2in1x2": Variant(flat(1, 2), flat(1, 2), [1, 2], [10, 1], [12]),
    "Filter1x2in1x3": Variant(flat(1, 3), flat(1, 2), [1, 2, 3], [10, 1], [12, 23]),
    "Filter1x2in2x2": Variant(flat(2, 2), flat(1, 2), [1, 2, 3, 4], [10, 1], [12, 34]),
    "Filter2x1in2x2": Variant(flat(2, 2), flat(2, 1), [1, 2, 3, 4], [10, 1], [13, 24]),
    "Filter2x2in2x2": Variant(flat(2, 2), flat(2, 2), [1, 2, 3, 4], [1000, 100, 10, 1], [1234]),
    "Filter1x2in2x3WithDepthAndBatch": Variant(
        (2, 2, 2, 3), (2, 2, 1, 2), counting(1, (24,)), powers(8, 3)
    ),
    "Filter1x1stride1x2in1x4": Variant(
        flat(1, 4), flat(1, 1), [1, 2, 3, 4], [10], [10, 30], HALF
    ),
    "Filter1x1stride1x2in1x5": Variant(
        flat(1, 5), flat(1, 1), [1, 2, 3, 4, 5], [10], [10, 30, 50], HALF
    ),
    "Filter1x3stride1x2in1x4": Variant(
        flat(1, 4), flat(1, 3), [1, 2, 3, 4], [100, 10, 1], [123], HALF
    ),
    "Filter1x3stride1x2in1x5": Variant(
        flat(1, 5), flat(1, 3), [1, 2, 3, 4, 5], [100, 10, 1], [123, 345], HALF
    ),
    "Filter1x1stride2x2in3x3": Variant(
        flat(3, 3), flat(1, 1), counting(1, (9,)), [10], [10, 30, 70, 90], {"stride": (2, 2)}
    ),
    "Filter3x1in1x1Padded": Variant(flat(1, 1), flat(1, 3), [1], [10, 20, 30], [20], SAME),
    "Filter5x1in3x1Padded": Variant(
        flat(1, 3), flat(1, 5), [1, 2, 3], [10000, 1000, 100, 10, 1], [123, 1230, 12300], SAME
    ),
    "Filter3x3in2x2Padded": Variant(
        flat(2, 2), flat(3, 3), [1, 2, 3, 4], [1e4, 0, 1e3, 0, 100, 0, 10, 0, 1],
        [104, 230, 2300, 10400], SAME,
    ),
    "Filter1x1in2x1WithPaddingAndDepth": Variant(
        (1, 2, 1, 2), (1, 2, 1, 1), [1, 2, 3, 4], [10, 1], [13, 24], SAME
    ),
    "Filter2x2Stride1x1Input3x3": Variant(
        flat(3, 3), flat(2, 2), counting(1, (9,)), [7, 13, 17, 23], [216, 276, 396, 456]
    ),
    "Filter1x2Stride1x1Input1x3": Variant(flat(1, 3), flat(1, 2), [1, 2, 3], [7, 13], [33, 53]),
    "Filter2x1x8x8Input1x1x8x8": Variant(
        flat(8, 8), (2, 1, 8, 8), counting(0, (64,)), np.repeat([1.0, 2.0], 64), [2016, 4032]
    ),
    "Filter1x1x1x1Input16x1x1x1": Variant(
        (16, 1, 1, 1), (1, 1, 1, 1), counting(1, (16,)), [1], counting(1, (16,))
    ),
    "Filter1x1x2x2Input16x1x2x2": Variant(
        (16, 1, 2, 2), (1, 1, 2, 2), np.repeat(counting(1, (16,)), 4), [1, 2, 3, 4],
        10 * counting(1, (16,)),
    ),
    "Filter1x1x2x2Input3x1x2x2": Variant(
        (3, 1, 2, 2), (1, 1, 2, 2), by_place((3, 1, 2, 2)), [1, 2, 3, 4], [23, 33, 43]
    ),
    "Filter1x1x8x8Input16x1x8x8": Variant(
        (16, 1, 8, 8), (1, 1, 8, 8), by_place((16, 1, 8, 8)), counting(1, (64,)),
        19664 + 2080 * counting(0, (16,)),
    ),
    "Filter2x2x8x8Input1x2x8x8": Variant(
        (1, 2, 8, 8), (2, 2, 8, 8), counting(0, (128,)), QUARTERS, [14240, 30496]
    ),
    "Filter2x2x8x8Input2x2x8x8": Variant(
        (2, 2, 8, 8), (2, 2, 8, 8), counting(0, (256,)), QUARTERS, [14240, 30496, 38816, 87840]
    ),
    "Filter2x2x8x8Input32x2x8x8": Variant(
        (32, 2, 8, 8), (2, 2, 8, 8), counting(0, (4096,)), QUARTERS
    ),
    "Filter16x16x1x1Input16x16x1x1": Variant(
        (16, 16, 1, 1), (16, 16, 1, 1),
        (1000 * np.arange(16)[:, None] + np.arange(16)).astype(np.float32), np.ones(256),
        np.repeat(16000 * counting(0, (16,)) + 120, 16), {"precision": ("highest", "highest")},
    ),
    "FlatRhsDilation": Variant(
        flat(4, 6), flat(2, 3), counting(0, (24,)), [1, 10, 100, 2, 20, 200],
        [3924, 4257, 5922, 6255], {"dilation": (2, 2)},
    ),
    "FlatLhsDilation1D": Variant(
        flat(1, 5), flat(1, 2), [1, 2, 3, 4, 5], [10, 1], [10, 2, 20, 3, 30, 4, 40, 5],
        {"base": (1, 2)},
    ),
    "FlatLhsDilation": Variant(
        flat(3, 4), flat(4, 3), counting(1, (12,)), counting(1, (12,)), None,
        {"stride": (2, 1), "padding": [(1, 0), (0, 0)], "base": (3, 2)},
    ),
    "NegativePaddingOnBothEnds": Variant(
        flat(1, 5), flat(1, 2), [1, 2, 3, 4, 5], [10, 1], [23, 34], width(-1, -1)
    ),
    "NegativePaddingLowAndPositivePaddingHigh": Variant(
        flat(1, 5), flat(1, 2), [1, 2, 3, 4, 5], [10, 1], [23, 34, 45, 50, 0], width(-1, 2)
    ),
    "PositivePaddingLowAndNegativePaddingHigh": Variant(
        flat(1, 5), flat(1, 2), [1, 2, 3, 4, 5], [10, 1], [0, 1, 12, 23, 34], width(2, -1)
    ),
    "PositivePaddingAndDilation": Variant(
        flat(1, 5), flat(1, 2), [1, 2, 3, 4, 5], [10, 1],
        [0, 1, 0, 12, 0, 23, 0, 34, 0, 45, 0, 50], width(3, 2, **BOTH),
    ),
    "NegativePaddingAndDilation": Variant(
        flat(1, 5), flat(1, 2), [1, 2, 3, 4, 5], [10, 1], [0, 34], width(-3, -2, **BOTH)
    ),
    "RandomData_Input1x1x2x3_Filter2x1x1x2": Variant((1, 1, 2, 3), (2, 1, 1, 2)),
    "RandomData_Input1x16x1x1_Filter1x16x1x1": Variant((1, 16, 1, 1), (1, 16, 1, 1)),
    "RandomData_Input16x16x1x1_Filter1x16x1x1": Variant((16, 16, 1, 1), (1, 16, 1, 1)),
    "RandomData_Input16x16x1x1_Filter16x16x1x1": Variant((16, 16, 1, 1), (16, 16, 1, 1)),
    "RandomData_Input16x16x16x16_Filter16x16x16x16": Variant((16, 16, 16, 16), (16, 16, 16, 16)),
    "Filter1x2x1x1Input1x2x3x1GeneralPadding": Variant(
        (1, 2, 3, 1), (1, 2, 1, 1), counting(1, (6,)), [1, 2], None,
        {"padding": [(2, 1), (2, 3)]}, last=True,
    ),
    "Filter1x1x1x1Input1x2x3x1GeneralPadding": Variant(
        (1, 2, 3, 1), (1, 1, 1, 1), counting(1, (6,)), [2], None,
        {"padding": [(2, 1), (2, 3)]}, last=True,
    ),
    "Filter1x1x1x1Input1x2x3x1NoPadding": Variant(
        (1, 2, 3, 1), (1, 1, 1, 1), counting(1, (6,)), [2], [2, 4, 6, 8, 10, 12], last=True
    ),
    "Filter1x1x2x3Input1x2x3x2NoPadding": Variant(
        (1, 2, 3, 2), (1, 1, 2, 3), counting(1, (12,)), counting(2, (6,)),
        [12, 15, 18, 26, 33, 40, 40, 51, 62, 54, 69, 84, 68, 87, 106, 82, 105, 128], last=True,
    ),
    "BackwardInputLowPaddingLessThanHighPadding": Variant(
        flat(1, 3), flat(1, 2), [1, 2, 3], [5, 6], [5, 16, 27], width(1, 0), backward="input"
    ),
    "BackwardInputLowPaddingGreaterThanHighPadding": Variant(
        flat(1, 1), flat(1, 3), [1], [1, 10, 100], [100, 0], width(0, 3, base=(1, 3)),
        backward="input",
    ),
    "BackwardInputEvenPadding": Variant(
        flat(1, 1), flat(1, 3), [1], [1, 10, 100], [10], width(1, 1), backward="input"
    ),
    "BackwardInputWithNegativePaddingHigh": Variant(
        flat(1, 3), flat(1, 2), [1, 2, 3], [1, 10], [12, 23, 30, 0], width(0, 2), backward="input"
    ),
    "BackwardFilterLowPaddingLessThanHighPadding": Variant(
        flat(1, 4), flat(1, 3), [1, 2, 3, 4], [100, 10, 1], [24, 130, 240],
        width(1, 2, dilation=(1, 2)), backward="filter",
    ),
    "BackwardFilterLowPaddingGreaterThanHighPadding": Variant(
        flat(1, 4), flat(1, 3), [1, 2, 3, 4], [100, 10, 1], [13, 24],
        width(2, 0, dilation=(1, 2)), backward="filter",
    ),
    "BackwardFilterEvenPadding": Variant(
        flat(1, 4), flat(1, 3), [1, 2, 3, 4], [100, 10, 1], [13, 24, 130],
        width(2, 1, dilation=(1, 2)), backward="filter",
    ),
    "BackwardInputEvenPadding1D": Variant(
        (1, 1, 1), (1, 1, 3), [1], [1, 10, 100], [10], {"padding": [(1, 1)]}, backward="input"
    ),
    "BackwardFilterEvenPadding1D": Variant(
        (1, 1, 4), (1, 1, 3), [1, 2, 3, 4], [100, 10, 1], [13, 24, 130],
        {"padding": [(2, 1)], "dilation": (2,)}, backward="filter",
    ),
    "BackwardInputEvenPadding3D": Variant(
        (1, 1, 1, 1, 1), (1, 1, 1, 1, 3), [1], [1, 10, 100], [10],
        {"padding": [(0, 0), (0, 0), (1, 1)]}, backward="input",
    ),
    "BackwardFilterEvenPadding3D": Variant(
        (1, 1, 1, 1, 4), (1, 1, 1, 1, 3), [1, 2, 3, 4], [100, 10, 1], [13, 24, 130],
        {"padding": [(0, 0), (0, 0), (2, 1)], "dilation": (1, 1, 2)}, backward="filter",
    ),
}  # fmt: skip


def program(v: Variant) -> Build:
    spatial = len(v.input) - 2
    dims = features_last(spatial) if v.last else features_first(spatial)

    def build(b: HloBuilder) -> Node:
        x, kernel = parameters(b, v.input, v.kernel)
        if v.backward == "input":
            kernel = b.op("reverse", kernel, dimensions=tuple(range(2, len(v.kernel))))
        made = convolution(b, x, kernel, dims, **v.window)
        if v.backward == "filter":
            made = b.op("transpose", made, dimensions=tuple(range(len(v.input))))
        return made

    return build


def case(name: str, v: Variant) -> Case:
    if v.values is None or v.weights is None:
        return Case(name, program(v), "convolution", "f32", ("conv",), inputs=ordinary)
    arrays = [
        np.asarray(values, np.float32).reshape(dims)
        for values, dims in ((v.values, v.input), (v.weights, v.kernel))
    ]
    want = None
    if v.want is not None:
        shape = program(v)(HloBuilder("shape")).shape
        want = (np.asarray(v.want, np.float32).reshape(shape.dims),)
    return Case(
        name, program(v), "convolution", "f32", ("conv",), inputs=given(arrays), expected=want
    )


CASES = tuple(case(name, v) for name, v in VARIANTS.items())
