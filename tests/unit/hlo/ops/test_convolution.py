"""convolution: XLA's variants with their expected values, every option against loops, rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run
from xladev.hlo.attributes import ConvDims, Window, WindowDim


def labels(text: str) -> ConvDims:
    """Dimension numbers from text such as ``bf01_oi01->bf01``."""
    source, rest = text.split("_")
    kernel, result = rest.split("->")

    def axes(part: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
        spatial = sorted(c for c in part if c.isdigit())
        return part.index(first), part.index(second), tuple(part.index(c) for c in spatial)

    return ConvDims(*axes(source, "b", "f"), *axes(kernel, "i", "o"), *axes(result, "b", "f"))


NCHW, NHWC = labels("bf01_oi01->bf01"), labels("b01f_01io->b01f")


def window(sizes: tuple[int, ...], **options: Any) -> Window:
    """A window of these sizes; each option is one value for all dimensions, or a list."""
    dims = [WindowDim(size) for size in sizes]
    fields = {
        key: value if isinstance(value, list) else [value] * len(sizes)
        for key, value in options.items()
    }
    pads = fields.pop("pad", [(0, 0)] * len(sizes))
    return tuple(
        WindowDim(
            dim.size, pad_low=pad[0], pad_high=pad[1], **{key: v[i] for key, v in fields.items()}
        )
        for i, (dim, pad) in enumerate(zip(dims, pads, strict=True))
    )


def same(size: int) -> tuple[int, int]:
    """Padding that keeps the size of a dimension."""
    return (size - 1) // 2, size // 2


@dataclass(frozen=True)
class Case:
    """One variant: dims and values of input and filter, options, and the expected values."""

    name: str
    x: Any
    x_dims: tuple[int, ...]
    f: Any
    f_dims: tuple[int, ...]
    want: Any
    options: tuple[tuple[str, Any], ...] = ()


def case(name: str, x: Any, x_dims: Any, f: Any, f_dims: Any, want: Any, **options: Any) -> Case:
    return Case(name, x, x_dims, f, f_dims, want, tuple(options.items()))


def iota(count: int, start: int = 1) -> list[int]:
    return list(range(start, start + count))


def grid(batch: int, height: int, width: int) -> list[int]:
    """batch + y + x + 1."""
    return [b + y + x + 1 for b, y, x in product(range(batch), range(height), range(width))]


QUARTERS = [1] * 64 + [2] * 64 + [3] * 64 + [4] * 64
PAIR_SAME = [same(1), same(1)]

VARIANTS = [
    case("Minimal", [2], (1, 1, 1, 1), [3], (1, 1, 1, 1), [6]),
    case("MinimalWithBatch", iota(5), (5, 1, 1, 1), [2], (1, 1, 1, 1), [2, 4, 6, 8, 10]),
    case("Flat1x1", iota(24), (2, 1, 3, 4), [2.3], (1, 1, 1, 1), [2.3 * i for i in iota(24)]),
    case("Deep1x1", [10, 1], (1, 2, 1, 1), iota(6), (3, 2, 1, 1), [12, 34, 56]),
    case("Filter1x2in1x2", [1, 2], (1, 1, 1, 2), [10, 1], (1, 1, 1, 2), [12]),
    case("Filter1x2in1x3", [1, 2, 3], (1, 1, 1, 3), [10, 1], (1, 1, 1, 2), [12, 23]),
    case("Filter1x2in2x2", iota(4), (1, 1, 2, 2), [10, 1], (1, 1, 1, 2), [12, 34]),
    case("Filter2x1in2x2", iota(4), (1, 1, 2, 2), [10, 1], (1, 1, 2, 1), [13, 24]),
    case("Filter2x2in2x2", iota(4), (1, 1, 2, 2), [1000, 100, 10, 1], (1, 1, 2, 2), [1234]),
    case("Filter1x1stride1x2in1x4", iota(4), (1, 1, 1, 4), [10], (1, 1, 1, 1), [10, 30],
         stride=[1, 2]),
    case("Filter1x1stride1x2in1x5", iota(5), (1, 1, 1, 5), [10], (1, 1, 1, 1), [10, 30, 50],
         stride=[1, 2]),
    case("Filter1x3stride1x2in1x4", iota(4), (1, 1, 1, 4), [100, 10, 1], (1, 1, 1, 3), [123],
         stride=[1, 2]),
    case("Filter1x3stride1x2in1x5", iota(5), (1, 1, 1, 5), [100, 10, 1], (1, 1, 1, 3), [123, 345],
         stride=[1, 2]),
    case("Filter1x1stride2x2in3x3", iota(9), (1, 1, 3, 3), [10], (1, 1, 1, 1), [10, 30, 70, 90],
         stride=2),
    case("Filter3x1in1x1Padded", [1], (1, 1, 1, 1), [10, 20, 30], (1, 1, 1, 3), [20],
         pad=[(0, 0), (1, 1)]),
    case("Filter5x1in3x1Padded", [1, 2, 3], (1, 1, 1, 3), [10000, 1000, 100, 10, 1],
         (1, 1, 1, 5), [123, 1230, 12300], pad=[(0, 0), (2, 2)]),
    case("Filter3x3in2x2Padded", iota(4), (1, 1, 2, 2), [1e4, 0, 1e3, 0, 100, 0, 10, 0, 1],
         (1, 1, 3, 3), [104, 230, 2300, 10400], pad=[(1, 1), (1, 1)]),
    case("Filter1x1in2x1WithPaddingAndDepth", iota(4), (1, 2, 1, 2), [10, 1], (1, 2, 1, 1),
         [13, 24], pad=PAIR_SAME),
    case("Filter2x2Stride1x1Input3x3", iota(9), (1, 1, 3, 3), [7, 13, 17, 23], (1, 1, 2, 2),
         [216, 276, 396, 456]),
    case("Filter1x2Stride1x1Input1x3", [1, 2, 3], (1, 1, 1, 3), [7, 13], (1, 1, 1, 2), [33, 53]),
    case("Filter2x1x8x8Input1x1x8x8", iota(64, 0), (1, 1, 8, 8), [1] * 64 + [2] * 64,
         (2, 1, 8, 8), [2016, 4032]),
    case("Filter1x1x1x1Input16x1x1x1", iota(16), (16, 1, 1, 1), [1], (1, 1, 1, 1), iota(16)),
    case("Filter1x1x2x2Input16x1x2x2", [b for b in iota(16) for _ in range(4)], (16, 1, 2, 2),
         iota(4), (1, 1, 2, 2), [10 * b for b in iota(16)]),
    case("Filter1x1x2x2Input3x1x2x2", grid(3, 2, 2), (3, 1, 2, 2), iota(4), (1, 1, 2, 2),
         [23, 33, 43]),
    case("Filter1x1x8x8Input16x1x8x8", grid(16, 8, 8), (16, 1, 8, 8), iota(64), (1, 1, 8, 8),
         [19664 + 2080 * b for b in range(16)]),
    case("Filter2x2x8x8Input1x2x8x8", iota(128, 0), (1, 2, 8, 8), QUARTERS, (2, 2, 8, 8),
         [14240, 30496]),
    case("Filter2x2x8x8Input2x2x8x8", iota(256, 0), (2, 2, 8, 8), QUARTERS, (2, 2, 8, 8),
         [14240, 30496, 38816, 87840]),
    case("Filter2x2x8x8Input32x2x8x8", iota(4096, 0), (32, 2, 8, 8), QUARTERS, (2, 2, 8, 8),
         [v for b in range(32) for v in (14240 + 24576 * b, 30496 + 57344 * b)]),
    case("Filter16x16x1x1Input16x16x1x1", [1000 * b + f for b in range(16) for f in range(16)],
         (16, 16, 1, 1), [1] * 256, (16, 16, 1, 1),
         [16000 * b + 120 for b in range(16) for _ in range(16)]),
    case("FlatRhsDilation", iota(24, 0), (1, 1, 4, 6), [1, 10, 100, 2, 20, 200], (1, 1, 2, 3),
         [3924, 4257, 5922, 6255], window_dilation=2),
    case("FlatLhsDilation1D", iota(5), (1, 1, 1, 5), [10, 1], (1, 1, 1, 2),
         [10, 2, 20, 3, 30, 4, 40, 5], base_dilation=[1, 2]),
    case("NegativePaddingOnBothEnds", iota(5), (1, 1, 1, 5), [10, 1], (1, 1, 1, 2), [23, 34],
         pad=[(0, 0), (-1, -1)]),
    case("NegativePaddingLowAndPositivePaddingHigh", iota(5), (1, 1, 1, 5), [10, 1],
         (1, 1, 1, 2), [23, 34, 45, 50, 0], pad=[(0, 0), (-1, 2)]),
    case("PositivePaddingLowAndNegativePaddingHigh", iota(5), (1, 1, 1, 5), [10, 1],
         (1, 1, 1, 2), [0, 1, 12, 23, 34], pad=[(0, 0), (2, -1)]),
    case("PositivePaddingAndDilation", iota(5), (1, 1, 1, 5), [10, 1], (1, 1, 1, 2),
         [0, 1, 0, 12, 0, 23, 0, 34, 0, 45, 0, 50], pad=[(0, 0), (3, 2)],
         base_dilation=[1, 2], window_dilation=[1, 2]),
    case("NegativePaddingAndDilation", iota(5), (1, 1, 1, 5), [10, 1], (1, 1, 1, 2), [0, 34],
         pad=[(0, 0), (-3, -2)], base_dilation=[1, 2], window_dilation=[1, 2]),
    case("Filter1x1x1x1Input1x2x3x1NoPadding", iota(6), (1, 2, 3, 1), [2], (1, 1, 1, 1),
         [2 * i for i in iota(6)], labels=NHWC),
    case("Filter1x1x2x3Input1x2x3x2NoPadding", iota(12), (1, 2, 3, 2), iota(6, 2), (1, 1, 2, 3),
         [v for a in range(1, 12, 2) for v in (7 * a + 5, 9 * a + 6, 11 * a + 7)], labels=NHWC),
    case("BackwardInputLowPaddingLessThanHighPadding", [1, 2, 3], (1, 1, 1, 3), [5, 6],
         (1, 1, 1, 2), [5, 16, 27], pad=[(0, 0), (1, 0)], reversal=[False, True]),
    case("BackwardInputLowPaddingGreaterThanHighPadding", [1], (1, 1, 1, 1), [1, 10, 100],
         (1, 1, 1, 3), [100, 0], pad=[(0, 0), (0, 3)], base_dilation=[1, 3],
         reversal=[False, True]),
    case("BackwardInputEvenPadding", [1], (1, 1, 1, 1), [1, 10, 100], (1, 1, 1, 3), [10],
         pad=[(0, 0), (1, 1)], reversal=[False, True]),
    case("BackwardInputWithNegativePaddingHigh", [1, 2, 3], (1, 1, 1, 3), [1, 10], (1, 1, 1, 2),
         [12, 23, 30, 0], pad=[(0, 0), (0, 2)], reversal=[False, True]),
    case("BackwardFilterLowPaddingLessThanHighPadding", iota(4), (1, 1, 1, 4), [100, 10, 1],
         (1, 1, 1, 3), [24, 130, 240], pad=[(0, 0), (1, 2)], window_dilation=[1, 2]),
    case("BackwardFilterLowPaddingGreaterThanHighPadding", iota(4), (1, 1, 1, 4), [100, 10, 1],
         (1, 1, 1, 3), [13, 24], pad=[(0, 0), (2, 0)], window_dilation=[1, 2]),
    case("BackwardFilterEvenPadding", iota(4), (1, 1, 1, 4), [100, 10, 1], (1, 1, 1, 3),
         [13, 24, 130], pad=[(0, 0), (2, 1)], window_dilation=[1, 2]),
    case("BackwardInputEvenPadding1D", [1], (1, 1, 1), [1, 10, 100], (1, 1, 3), [10],
         pad=[(1, 1)], reversal=[True], labels=labels("bf0_oi0->bf0")),
    case("BackwardFilterEvenPadding1D", iota(4), (1, 1, 4), [100, 10, 1], (1, 1, 3),
         [13, 24, 130], pad=[(2, 1)], window_dilation=[2], labels=labels("bf0_oi0->bf0")),
    case("BackwardInputEvenPadding3D", [1], (1, 1, 1, 1, 1), [1, 10, 100], (1, 1, 1, 1, 3), [10],
         pad=[(0, 0), (0, 0), (1, 1)], reversal=[False, False, True],
         labels=labels("bf012_oi012->bf012")),
    case("BackwardFilterEvenPadding3D", iota(4), (1, 1, 1, 1, 4), [100, 10, 1], (1, 1, 1, 1, 3),
         [13, 24, 130], pad=[(0, 0), (0, 0), (2, 1)], window_dilation=[1, 1, 2],
         labels=labels("bf012_oi012->bf012")),
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_xla_variants(variant: Case) -> None:
    options = dict(variant.options)
    dims = options.pop("labels", NCHW)
    x = np.array(variant.x, np.float32).reshape(variant.x_dims)
    f = np.array(variant.f, np.float32).reshape(variant.f_dims)
    sizes = tuple(variant.f_dims[axis] for axis in dims.kernel_spatial)
    got = run("convolution", x, f, dim_labels=dims, window=window(sizes, **options))
    np.testing.assert_allclose(got.reshape(-1), variant.want, rtol=1e-6)


def by_loops(
    x: Any, f: Any, dims: ConvDims, win: Window, features: int = 1, batches: int = 1
) -> Any:
    """The definition, element by element: who meets whom, with no arrays of slices."""
    x = x.transpose(dims.input_batch, dims.input_feature, *dims.input_spatial)
    f = f.transpose(dims.kernel_output_feature, dims.kernel_input_feature, *dims.kernel_spatial)
    sizes = x.shape[2:]
    counts = [d.output_size(n) for d, n in zip(win, sizes, strict=True)]
    out = np.zeros((x.shape[0] // batches, f.shape[0], *counts), np.result_type(x, f))
    for n, o, *at in np.ndindex(*out.shape):
        group = o // (f.shape[0] // (features * batches))
        row = n + (group * out.shape[0] if batches > 1 else 0)
        first = group * f.shape[1] if features > 1 else 0
        for i, *k in np.ndindex(*f.shape[1:]):
            place = []
            for p, j, d, size in zip(at, k, win, sizes, strict=True):
                away, rest = divmod(
                    p * d.stride + j * d.window_dilation - d.pad_low, d.base_dilation
                )
                place.append(away if rest == 0 and 0 <= away < size else None)
            if None in place:
                continue
            turned = [d.size - 1 - j if d.reversal else j for j, d in zip(k, win, strict=True)]
            out[(n, o, *at)] += x[(row, first + i, *place)] * f[(o, i, *turned)]
    order = [dims.output_batch, dims.output_feature, *dims.output_spatial]
    return out.transpose(np.argsort(order))


GENERAL = {"pad": [(2, 1), (2, 3)], "labels": NHWC}
RANDOM = [
    case("Filter1x2in2x3WithDepthAndBatch", None, (2, 2, 2, 3), None, (2, 2, 1, 2), None),
    case("FlatLhsDilation", None, (1, 1, 3, 4), None, (1, 1, 4, 3), None, stride=[2, 1],
         pad=[(1, 0), (0, 0)], base_dilation=[3, 2]),
    case("Filter1x2x1x1Input1x2x3x1GeneralPadding", None, (1, 2, 3, 1), None, (1, 2, 1, 1), None,
         **GENERAL),
    case("Filter1x1x1x1Input1x2x3x1GeneralPadding", None, (1, 2, 3, 1), None, (1, 1, 1, 1), None,
         **GENERAL),
    case("RandomData_Input1x1x2x3_Filter2x1x1x2", None, (1, 1, 2, 3), None, (2, 1, 1, 2), None),
    case("RandomData_Input1x16x1x1_Filter1x16x1x1", None, (1, 16, 1, 1), None, (1, 16, 1, 1), None),
    case("RandomData_Input16x16x1x1_Filter1x16x1x1", None, (16, 16, 1, 1), None, (1, 16, 1, 1),
         None),
    case("RandomData_Input16x16x1x1_Filter16x16x1x1", None, (16, 16, 1, 1), None, (16, 16, 1, 1),
         None),
    case("RandomData_Input16x16x16x16_Filter16x16x16x16", None, (16, 16, 16, 16), None,
         (16, 16, 16, 16), None),
]  # fmt: skip


@pytest.mark.parametrize("variant", RANDOM, ids=lambda variant: variant.name)
def test_xla_variants_of_random_values(variant: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = dict(variant.options)
    dims = options.pop("labels", NCHW)
    x, f = (rng.integers(-9, 9, d).astype(np.float32) for d in (variant.x_dims, variant.f_dims))
    win = window(tuple(variant.f_dims[axis] for axis in dims.kernel_spatial), **options)
    got = run("convolution", x, f, dim_labels=dims, window=win)
    if variant.x_dims == (16,) * 4:
        np.testing.assert_array_equal(got[:, :, 0, 0], np.einsum("bihw,oihw->bo", x, f))
    else:
        np.testing.assert_array_equal(got, by_loops(x, f, dims, win))


@pytest.mark.parametrize("turn", range(40))
def test_random_windows_are_what_loops_give(turn: int, seed: int) -> None:
    rng = np.random.default_rng([seed, turn])
    rank = int(rng.integers(0, 4))
    orders = [rng.permutation(rank + 2).tolist() for _ in range(3)]
    dims = ConvDims(*(v for o in orders for v in (o[0], o[1], tuple(o[2:]))))
    features, batches = [(1, 1), (2, 1), (1, 2), (3, 1)][turn % 4]
    win = tuple(
        WindowDim(
            int(rng.integers(1, 4)), int(rng.integers(1, 3)), *map(int, rng.integers(-1, 3, 2)),
            *map(int, rng.integers(1, 4, 2)), bool(rng.integers(2)),
        )
        for _ in range(rank)
    )  # fmt: skip
    spatial = rng.integers(2, 5, rank).tolist()
    per_group = int(rng.integers(1, 3))
    x_dims, f_dims = [0] * (rank + 2), [0] * (rank + 2)
    for axis, size in zip(orders[0], [2 * batches, per_group * features, *spatial], strict=True):
        x_dims[axis] = size
    outputs = 2 * features * batches
    for axis, size in zip(orders[1], [per_group, outputs, *(d.size for d in win)], strict=True):
        f_dims[axis] = size
    dtype = [np.float32, np.int32, np.complex64, np.uint8][turn // 4 % 4]
    x, f = (rng.integers(0, 9, d).astype(dtype) for d in (x_dims, f_dims))
    got = run(
        "convolution", x, f, dim_labels=dims, window=win,
        feature_group_count=features, batch_group_count=batches,
    )  # fmt: skip
    np.testing.assert_array_equal(got, by_loops(x, f, dims, win, features, batches))


def test_without_spatial_dimensions() -> None:
    x, f = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    got = run("convolution", x, f, dim_labels=labels("bf_io->bf"))
    np.testing.assert_array_equal(got, x @ f)


def test_pred_is_or_of_ands() -> None:
    x = np.array([[[False, True, False]]])
    got = run(
        "convolution", x, np.array([[[True, True]]]), dim_labels=labels("bf0_oi0->bf0"),
        window=window((2,), pad=[(0, 1)]),
    )  # fmt: skip
    assert got.tolist() == [[[True, True, False]]]


def test_bf16_accumulates_in_f32() -> None:
    x, f = (np.ones(d, ml_dtypes.bfloat16) for d in ((1, 600, 1, 1), (1, 600, 1, 1)))
    got = run("convolution", x, f, dim_labels=NCHW, window=window((1, 1)))
    assert got.dtype == ml_dtypes.bfloat16 and got.item() == 600


def test_a_window_larger_than_the_input_gives_nothing() -> None:
    x, f = np.ones((1, 1, 2), np.float32), np.ones((1, 1, 3), np.float32)
    got = run("convolution", x, f, dim_labels=labels("bf0_oi0->bf0"), window=window((3,)))
    assert got.shape == (1, 1, 0)


X, F = "f32[4,6,8,8]", "f32[6,6,3,3]"
PLAIN: dict[str, Any] = {"dim_labels": NCHW, "window": window((3, 3))}


@pytest.mark.parametrize(
    ("constraint", "operands", "attrs"),
    [
        ("convolution_operand", ("token", F), {}),
        ("convolution_c1", ("f32[4,6,8]", F), {}),
        ("convolution_c1", ("f32[4]", "f32[4]"), {}),
        ("convolution_c2", (X, F), {"window": window((3,))}),
        ("convolution_c2", (X, F), {"window": window((3, 3), stride=0)}),
        ("convolution_c2", (X, F), {"window": window((3, 3), base_dilation=0)}),
        ("convolution_c3", (X, F), {"dim_labels": replace(NCHW, input_feature=0)}),
        ("convolution_c4", (X, F), {"dim_labels": replace(NCHW, kernel_output_feature=1)}),
        ("convolution_c5", (X, F), {"dim_labels": replace(NCHW, output_spatial=(2, 2))}),
        ("convolution_c6", (X, F), {"feature_group_count": 0}),
        ("convolution_c6", (X, F), {"feature_group_count": 2, "batch_group_count": 2}),
        ("convolution_c7", (X, F), {"feature_group_count": 2}),
        ("convolution_c8", (X, F), {"window": window((3, 2))}),
        ("convolution_c9", (X, "f32[5,3,3,3]"), {"feature_group_count": 2}),
        ("convolution_c9", (X, F), {"batch_group_count": 3}),
        ("convolution_c11", (X, F), {"operand_precision": ("high",)}),
    ],
)  # fmt: skip
def test_convolution_rejects(
    constraint: str, operands: tuple[str, str], attrs: dict[str, Any]
) -> None:
    assert_rejected(constraint, "convolution", *operands, **{**PLAIN, **attrs})


def test_convolution_shapes() -> None:
    assert result_of("convolution", X, F, **PLAIN) == "f32[4,6,6,6]"
    assert result_of("convolution", "f32[<=4,6,?,8]", F, **PLAIN) == "f32[<=4,6,?,6]"
    grouped = {**PLAIN, "batch_group_count": 2}
    assert result_of("convolution", X, F, **grouped) == "f32[2,6,6,6]"
