"""Convolutions by type, shape and kind: forward, grouped, depthwise, backward, 0-D to 3-D, dilated.

What is varied is what XLA's own suites of convolutions vary. Features are last, as accelerators
like them, unless a name says otherwise.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import Layout, array
from xladev.testing.conformance.case import Case, special
from xladev.testing.conformance.cells import Node, Template, cells, of_type
from xladev.testing.conformance.windows import (
    convolution,
    features_last,
    labels,
)

Dims = tuple[int, ...]
THREE = (dt.F32, dt.S32, dt.F16)


def conv(x: Dims, kernel: Dims, form: Any = None, layout: Dims = (), **attrs: Any) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        shapes = [array(dtype, d, layout=Layout(layout) if layout else None) for d in (x, kernel)]
        numbers = labels(form) if isinstance(form, str) else features_last(len(x) - 2)
        operand, weights = (b.parameter(s) for s in shapes)
        return convolution(b, operand, weights, numbers, **attrs)

    return template


SAME: dict[str, Any] = {"padding": "SAME"}
TYPED: dict[str, Template] = {
    "ForwardPassConvolution_3x3x256_256_OutputZ_Iota": conv((1, 3, 3, 256), (2, 2, 256, 256)),
    "Convolve_1x1x1x2_1x1x1x2_Valid": conv((1, 1, 1, 2), (1, 1, 1, 2), "bf01_oi01->bf01"),
    "Convolve_1x1x4x4_1x1x2x2_Valid": conv((1, 1, 4, 4), (1, 1, 2, 2), "bf01_oi01->bf01"),
    "Convolve_1x1x4x4_1x1x2x2_Same": conv((1, 1, 4, 4), (1, 1, 2, 2), "bf01_oi01->bf01", **SAME),
    "Convolve_1x1x4x4_1x1x3x3_Same": conv((1, 1, 4, 4), (1, 1, 3, 3), "bf01_oi01->bf01", **SAME),
    "Convolve2D_1x3x3x5_3x3x5x3_Valid": conv((1, 3, 3, 5), (3, 3, 5, 3)),
    "Convolve2D_1x6x6x1_6x2x1x1_Same": conv((1, 6, 6, 1), (6, 2, 1, 1), **SAME),
    "Convolve1D_1x3x5_3x5x3_Valid": conv((1, 3, 5), (3, 5, 3)),
    "Convolve3D_1x4x2x3x3_2x2x2x3x3_Valid": conv((1, 4, 2, 3, 3), (2, 2, 2, 3, 3)),
    "Convolve0D": conv((5, 7), (7, 3)),
}


def depthwise(channels: int, batch: int = 1, size: int = 4, layout: Dims = ()) -> Template:
    return conv((batch, size, size, channels), (2, 2, 1, channels), layout=layout, groups=channels)


def grouped(features: int, outputs: int, groups: int, size: int = 5) -> Template:
    return conv((1, size, size, features), (2, 2, features // groups, outputs), groups=groups)


GROUPS: dict[str, Template] = {
    "Depthwise5": depthwise(5), "Depthwise15": depthwise(15), "Depthwise160": depthwise(160),
    "Depthwise512": depthwise(512, size=3), "Depthwise1024": depthwise(1024, size=3),
    "DepthwiseBatch256": depthwise(5, 256),
    "DepthwiseBatchInLanes": depthwise(15, 9, 4, (0, 3, 2, 1)),
    "DepthwiseFeaturesInLanes": depthwise(15, 9, 4, (3, 0, 2, 1)),
    "Grouped6To12": grouped(6, 12, 3), "Grouped1024To512By8": grouped(1024, 512, 8, 3),
    "Grouped1024To8": grouped(1024, 8, 8, 3), "Grouped12To4": grouped(12, 4, 4),
    "Grouped12To4By2": grouped(12, 4, 2), "Grouped12To12": grouped(12, 12, 12),
    "DepthMultiplier3": conv((1, 4, 4, 5), (2, 2, 1, 15), groups=5),
    "BatchGroups": conv((6, 4, 4, 3), (2, 2, 3, 6), batch_groups=3),
    "BatchGroupsAll": conv((4, 5, 5, 1), (3, 3, 1, 4), batch_groups=4),
}  # fmt: skip

BACKWARD: dict[str, Template] = {
    "BackwardInputGrouped": conv((1, 3, 3, 6), (2, 2, 2, 9), groups=3, padding=[(1, 1), (1, 1)],
                                 base=(2, 2), reversal=True),
    "BackwardFilterBatchGroups": conv((2, 5, 5, 2), (2, 3, 3, 4), "f01b_i01o->01bf",
                                      batch_groups=1, padding=[(1, 1), (1, 1)]),
    "BackwardInputStrided": conv((2, 3, 4, 5), (3, 3, 5, 4), padding=[(2, 2), (1, 2)], base=(2, 2),
                                 reversal=True),
    "ReversedWindow": conv((1, 6, 7, 3), (3, 2, 3, 4), reversal=True),
    "BackwardFilterDilated": conv((3, 8, 8, 2), (3, 3, 2, 5), dilation=(2, 2),
                                  padding=[(1, 1), (1, 2)]),
    "SwappedOperands": conv((2, 3, 5, 6), (2, 3, 4, 4), "fb01_io01->fb01"),
    "KernelAsInput": conv((4, 4, 2, 3), (5, 6, 3, 2), "01bf_01io->01bf", padding=[(4, 4), (5, 5)],
                          reversal=True),
    "FeaturesBetween": conv((2, 5, 3, 6), (3, 2, 4, 2), "b0f1_i0o1->0bf1"),
    "Transposed2D": conv((1, 4, 4, 3), (3, 3, 3, 2), padding=[(2, 2), (2, 2)], base=(2, 2)),
}  # fmt: skip

ONE_D = (
    (1, 1, 1, 1, 1), (1, 1, 1, 3, 5), (1, 2, 3, 2, 9), (3, 4, 2, 4, 17), (5, 1, 1, 5, 10),
    (130, 3, 1, 3, 8), (16, 33, 2, 1, 20), (33, 16, 1, 7, 40), (2, 5, 2, 16, 100),
    (1, 128, 1, 3, 30), (64, 64, 1, 2, 12), (7, 3, 9, 5, 6),
)  # fmt: skip
"""Input features, output features, batch, window, elements."""


WINDOWS_1D: dict[str, dict[str, Any]] = {
    "lhs-dilated-full": {"padding": [(3, 3)], "base": (2,)},
    "lhs-dilated-none": {"padding": [(0, 0)], "base": (3,)},
    "lhs-dilated-half": {"padding": [(1, 2)], "base": (2,)},
    "lhs-dilated-strided": {"padding": [(2, 2)], "base": (2,), "stride": (3,)},
    "both-dilated": {"padding": [(2, 3)], "base": (2,), "dilation": (2,)},
    "rhs-dilated": {"dilation": (2,)},
    "rhs-dilated-padded": {"padding": [(3, 3)], "dilation": (3,)},
    "padded": {"padding": [(5, 4)]},
    "padded-strided": {"padding": [(1, 1)], "stride": (2,)},
    "negative-padding": {"padding": [(-2, -1)]},
}


def one_dimensional() -> Iterator[Case]:
    for features, outputs, batch, window, elements in ONE_D:
        made = conv((batch, elements, features), (window, features, outputs))
        name = f"-1d-{features}-{outputs}-{batch}-{window}-{elements}"
        yield from cells("convolution", made, types=(dt.F32, dt.F16), suffix=name)
    for name, attrs in WINDOWS_1D.items():
        made = conv((2, 11, 3), (4, 3, 5), **attrs)
        yield from cells("convolution", made, types=(dt.F32, dt.F16), suffix=f"-1d-{name}")


def sweep() -> Iterator[Case]:
    """Depthwise and grouped, over batch, space, kernel, layout and type."""
    for batch, size, features, outputs in (
        (1, 3, 64, 64), (2, 5, 64, 128), (3, 10, 128, 128), (5, 4, 256, 256), (2, 7, 64, 192),
    ):  # fmt: skip
        for layout in ((3, 0, 2, 1), (0, 3, 2, 1)):
            made = conv((batch, size, size, features), (3, 3, 1, outputs), layout=layout,
                        groups=features)  # fmt: skip
            order = "".join(map(str, layout))
            name = f"-depthwise-{batch}-{size}-{features}-{outputs}-{order}"
            yield from cells("convolution", made, types=(dt.F32, dt.BF16), suffix=name)
    for batch, size, group, features, outputs in (
        (1, 4, 4, 64, 64), (3, 5, 8, 64, 128), (2, 7, 2, 128, 64), (1, 10, 16, 32, 32),
    ):  # fmt: skip
        made = conv((batch, size, size, features), (3, 3, features // group, outputs), groups=group)
        name = f"-grouped-{batch}-{size}-{group}-{features}-{outputs}"
        yield from cells("convolution", made, types=(dt.F32, dt.BF16), suffix=name)
    for batch, size, outputs in ((8, 5, 8), (4, 10, 16), (6, 3, 6)):
        made = conv((batch, size, size, 16), (size - 1, size - 1, 16, outputs), batch_groups=2)
        name = f"-backprop-filter-{batch}-{size}-{outputs}"
        yield from cells("convolution", made, types=(dt.F32, dt.BF16), suffix=name)


def of_truth(b: HloBuilder) -> Node:
    """Truth values as numbers."""
    x, kernel = (
        b.parameter(array(dt.PRED, (3, 10, 10, 2))),
        b.parameter(array(dt.PRED, (3, 3, 2, 5))),
    )
    wide = [b.op("convert", v, shape=array(dt.F32, v.shape.dims)) for v in (x, kernel)]
    return convolution(b, wide[0], wide[1], features_last(2))


def with_bias(spatial: int, b: HloBuilder) -> Node:
    """Convolution, bias and rectification, which a backend fuses."""
    space = (6,) * spatial
    x = b.parameter(array(dt.F32, (2, *space, 5)))
    kernel = b.parameter(array(dt.F32, (*(3,) * spatial, 5, 8)))
    made = convolution(b, x, kernel, features_last(spatial), padding="SAME")
    rank = spatial + 2
    bias = b.op("broadcast", b.parameter(array(dt.F32, (8,))), shape=made.shape,
                dimensions=(rank - 1,))  # fmt: skip
    zero = b.op("broadcast", b.constant(0.0, dt.F32), shape=made.shape, dimensions=())
    return b.op("maximum", b.op("add", made, bias), zero)


def labelled_twice(b: HloBuilder) -> Node:
    """Two convolutions whose inputs and results name their dimensions differently."""
    x, kernel = b.parameter(array(dt.F32, (2, 3, 4, 5))), b.parameter(array(dt.F32, (4, 3, 2, 2)))
    made = convolution(b, x, kernel, labels("bf01_oi01->fb01"))
    second = b.parameter(array(dt.F32, (2, 3, 4, 2)))
    return convolution(b, made, second, labels("fb01_01io->b01f"))


def mixed_types() -> Iterator[Case]:
    for narrow, wide in (
        (dt.BF16, dt.F32),
        (dt.S8, dt.S32),
        (dt.F8E4M3FN, dt.F32),
        (dt.F16, dt.F32),
    ):
        made = conv((2, 6, 6, 5), (3, 3, 5, 7), result=wide)
        yield from cells(
            "convolution", made, types=(narrow,), suffix=f"-to-{wide}", tags=("lowprec",)
        )


CELL = conv((2, 5, 6, 3), (3, 2, 3, 4), padding=[(1, 1), (0, 1)], stride=(2, 1))


def named(table: dict[str, Template], types: Sequence[PrimitiveType]) -> Iterator[Case]:
    for name, made in table.items():
        for dtype in types:
            yield Case(f"{name}_{dtype}", of_type(made, dtype), "convolution", dtype.name,
                       ("conv",))  # fmt: skip


CASES = (
    *cells("convolution", CELL),
    *cells("convolution", CELL, types=(dt.F32, dt.F64), suffix="-special", inputs=special),
    *named(TYPED, THREE),
    *named(TYPED, (dt.BF16,)),
    *named(GROUPS, (dt.F32, dt.BF16)),
    *named(BACKWARD, (dt.F32, dt.F64, dt.F16)),
    *named({"ForwardC64": conv((1, 5, 5, 3), (2, 2, 3, 4))}, (dt.C64, dt.C128)),
    *one_dimensional(),
    *sweep(),
    *mixed_types(),
    Case("ConvolutionOfPredicates", of_truth, "convolution", "f32", ("conv",)),
    Case("FusedBiasRelu2D", partial(with_bias, 2), "convolution", "f32", ("conv", "fusion")),
    Case("FusedBiasRelu3D", partial(with_bias, 3), "convolution", "f32", ("conv", "fusion")),
    Case("TwoConvsWithDifferentDimensionNumbers", labelled_twice, "convolution", "f32", ("conv",)),
)  # fmt: skip
