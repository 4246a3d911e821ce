"""Convolutions in register tiles, against the evaluator."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import xladev
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler, linker
from xladev.platforms.cpu.codegen.products import convolution_kernel as convolution
from xladev.platforms.cpu.codegen.products import windows
from xladev.platforms.cpu.codegen.products.convolution_kernel import convolution_of
from xladev.platforms.cpu.codegen.products.windows import window_plan
from xladev.platforms.cpu.engine import target_traits

NHWC, NCHW, MIXED = "b01f_01io->b01f", "bf01_oi01->bf01", "f01b_i01o->01bf"


def text(
    base: str, filters: str, result: str, window: str, labels: str, extra: str = "",
    dtype: str = "f32",
) -> str:  # fmt: skip
    return f"""
    HloModule m
    ENTRY main {{ x = {dtype}[{base}] parameter(0)  w = {dtype}[{filters}] parameter(1)
      ROOT y = {dtype}[{result}] convolution(x, w), window={{{window}}},
        dim_labels={labels}{extra} }}
    """


CASES = {
    "padded": text("2,9,8,5", "3,3,5,20", "2,9,8,20", "size=3x3 pad=1_1x1_1", NHWC),
    "strided": text("2,11,9,3", "3,2,3,40", "2,5,4,40", "size=3x2 stride=2x2", NHWC),
    "channels first": text("2,5,9,8", "18,5,3,3", "2,18,7,6", "size=3x3", NCHW),
    "dilated base": text(
        "1,5,5,4", "3,3,4,16", "1,9,9,16", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2", NHWC
    ),
    "dilated window": text("1,9,9,4", "3,3,4,16", "1,5,5,16", "size=3x3 rhs_dilate=2x2", NHWC),
    "reversed window": text("1,9,9,4", "3,3,4,16", "1,7,7,16", "size=3x3 rhs_reversal=1x1", NHWC),
    "filter gradient": text("4,6,6,3", "4,4,4,20", "3,3,3,20", "size=4x4", MIXED),
    "groups": text(
        "2,6,6,8", "3,3,4,12", "2,4,4,12", "size=3x3", NHWC, ", feature_group_count=2"
    ),
    "one dimension": text("3,17,6", "4,6,33", "3,14,33", "size=4", "b0f_0io->b0f"),
    "points": text("2,4,4,20", "1,1,20,34", "2,4,4,34", "size=1x1", NHWC),
    "wide": text("1,14,14,64", "3,3,64,96", "1,14,14,96", "size=3x3 pad=1_1x1_1", NHWC),
    "deep": text("1,3,3,300", "3,3,300,50", "1,3,3,50", "size=3x3 pad=1_1x1_1", NHWC),
    "uneven padding": text(
        "2,9,8,5", "3,2,5,33", "2,6,11,33", "size=3x2 pad=0_-1x3_1", NHWC
    ),
    "dilated and strided": text(
        "1,5,7,4", "3,3,4,16", "1,5,7,16",
        "size=3x3 pad=2_2x2_2 stride=2x2 lhs_dilate=2x2 rhs_dilate=2x2", NHWC
    ),
    "dilated by three": text(
        "1,4,4,4", "3,3,4,16", "1,10,10,16", "size=3x3 pad=1_1x1_1 lhs_dilate=3x3", NHWC
    ),
    "reversed and padded": text(
        "2,6,6,8", "3,3,8,24", "2,6,6,24", "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", NHWC
    ),
    "filters turned": text(
        "2,6,6,24", "3,3,40,24", "2,6,6,40", "size=3x3 pad=1_1x1_1", "b01f_01oi->b01f"
    ),
    "filters outermost": text(
        "2,6,6,24", "40,24,3,3", "2,6,6,40", "size=3x3 pad=1_1x1_1", "b01f_oi01->b01f"
    ),
    "filters outermost, few channels": text(
        "2,30,33,3", "40,3,7,7", "2,15,17,40", "size=7x7 stride=2x2 pad=2_3x3_3", "b01f_oi01->b01f"
    ),
    "filters outermost, many pixels": text(
        "1,25,24,20", "70,20,3,2", "1,25,24,70", "size=3x2 pad=1_1x1_0", "b01f_oi01->b01f"
    ),
    "filters outermost, groups": text(
        "1,25,24,20", "96,10,3,3", "1,25,24,96", "size=3x3 pad=1_1x1_1", "b01f_oi01->b01f",
        ", feature_group_count=2"
    ),
    "filters outermost, reversed, few pixels, groups": text(
        "1,5,7,20", "80,10,3,3", "1,5,7,80", "size=3x3 pad=1_1x1_1 rhs_reversal=1x0",
        "b01f_oi01->b01f", ", feature_group_count=2"
    ),
    "filters outermost, two elements": text(
        "1,9,9,1", "33,1,5,1", "1,5,9,33", "size=5x1", "b01f_oi01->b01f"
    ),
    "filters outermost, f64": text(
        "1,6,6,7", "21,7,3,3", "1,6,6,21", "size=3x3 pad=1_1x1_1", "b01f_oi01->b01f", dtype="f64"
    ),
    "points, many pixels": text(
        "1,25,24,37", "43,37,1,1", "1,25,24,43", "size=1x1", "b01f_oi01->b01f"
    ),
    "wide groups": text(
        "2,6,6,32", "3,3,16,48", "2,6,6,48", "size=3x3 pad=1_1x1_1", NHWC,
        ", feature_group_count=2"
    ),
    "large window": text("1,20,20,4", "11,11,4,16", "1,10,10,16", "size=11x11", NHWC),
    "three dimensions": text(
        "1,5,6,7,8", "2,3,2,8,20", "1,5,4,3,20", "size=2x3x2 pad=1_0x0_0x0_0 stride=1x1x2",
        "b012f_012io->b012f"
    ),
    "few channels": text(
        "1,30,33,3", "7,7,3,40", "1,15,17,40", "size=7x7 stride=2x2 pad=2_3x3_3", NHWC
    ),
    "one channel": text("3,10,12,1", "3,5,1,16", "3,10,12,16", "size=3x5 pad=1_1x2_2", NHWC),
    "one channel, far padding": text(
        "2,3,4,1", "2,4,1,16", "2,6,9,16", "size=2x4 pad=2_2x4_4", NHWC
    ),
    "few channels, wide window": text(
        "1,4,3,3", "2,5,3,16", "1,3,3,16", "size=2x5 pad=0_0x2_2", NHWC
    ),
    "few channels, dilated": text(
        "1,8,9,3", "3,3,3,16", "1,4,5,16", "size=3x3 rhs_dilate=2x2", NHWC
    ),
    "few channels, groups": text(
        "1,8,9,6", "3,3,3,32", "1,8,9,32", "size=3x3 pad=1_1x1_1", NHWC,
        ", feature_group_count=2"
    ),
    "lines of seven": text(
        "2,7,7,20", "3,3,20,40", "2,7,7,40", "size=3x3 pad=1_1x1_1", NHWC
    ),
    "lines of fourteen, deep": text(
        "1,3,14,300", "3,3,300,33", "1,3,14,33", "size=3x3 pad=1_1x1_1", NHWC
    ),
    "lines of seven, wide window": text(
        "1,7,7,16", "5,5,16,40", "1,7,7,40", "size=5x5 pad=2_2x2_2", NHWC
    ),
    "lines of seven, few channels": text(
        "1,14,14,3", "7,7,3,40", "1,7,7,40", "size=7x7 stride=2x2 pad=3_2x3_2", NHWC
    ),
    "more padding than pixels": text(
        "1,1,2,8", "7,7,8,16", "1,5,6,16", "size=7x7 pad=5_5x5_5", NHWC
    ),
    "f64": text("1,6,6,8", "3,3,8,24", "1,6,6,24", "size=3x3 pad=1_1x1_1", NHWC, dtype="f64"),
    "bf16": text("2,7,7,6", "3,3,6,20", "2,5,5,20", "size=3x3", NHWC, dtype="bf16"),
}  # fmt: skip
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


def check(hlo: str, seed: int) -> None:
    module = parse_module(hlo)
    rng = np.random.default_rng(seed)
    shapes = [p.shape for p in module.entry.parameters]
    arguments = [rng.standard_normal(s.dims).astype(s.element_type.np) for s in shapes]
    wanted = np.asarray(HloEvaluator().run(module, *arguments), np.float64)
    got = np.asarray(xladev.compile(module, "cpu")(*arguments)).astype(np.float64)
    bound = (1e-2 if "bf16" in hlo else 1e-5) * float(np.abs(wanted).max())
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("name", CASES)
def test_in_one_block(name: str, seed: int) -> None:
    assert convolution_of(parse_module(CASES[name]).entry.root) is not None
    check(CASES[name], seed)


@pytest.mark.parametrize("name", ["padded", "channels first", "groups", "bf16"])
def test_in_several_blocks(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "BLOCK_NBYTES", 1)
    monkeypatch.setattr(convolution, "LEAST_BLOCK", 16)
    check(CASES[name], seed)


@pytest.mark.parametrize(
    "hlo",
    [
        text("1,6,6,8", "3,3,1,8", "1,4,4,8", "size=3x3", NHWC, ", feature_group_count=8"),
        text("1,6,6,8", "3,3,1,16", "1,4,4,16", "size=3x3", NHWC, ", feature_group_count=8"),
        text("4,6,6,8", "3,3,8,8", "2,4,4,8", "size=3x3", NHWC, ", batch_group_count=2"),
        text("1,6,6,8", "3,3,8,2", "1,4,4,2", "size=3x3", NHWC),
    ],
    ids=["few channels", "two features a channel", "groups of the batch", "two features"],
)
def test_what_is_done_element_by_element(hlo: str, seed: int) -> None:
    assert convolution_of(parse_module(hlo).entry.root) is None
    check(hlo, seed)


DEPTHWISE = {
    "padded": text(
        "2,9,8,32", "3,3,1,32", "2,9,8,32", "size=3x3 pad=1_1x1_1", NHWC,
        ", feature_group_count=32"
    ),
    "channels left": text(
        "1,7,9,53", "3,2,1,53", "1,5,4,53", "size=3x2 stride=1x2", NHWC,
        ", feature_group_count=53"
    ),
    "dilated": text(
        "1,9,9,16", "3,3,1,16", "1,9,9,16", "size=3x3 pad=2_2x2_2 rhs_dilate=2x2", NHWC,
        ", feature_group_count=16"
    ),
    "gradient": text(
        "1,5,5,17", "3,3,1,17", "1,9,9,17", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2 "
        "rhs_reversal=1x1", NHWC, ", feature_group_count=17"
    ),
    "one dimension": text(
        "2,30,19", "4,1,19", "2,30,19", "size=4 pad=3_0", "b0f_0io->b0f",
        ", feature_group_count=19"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEPTHWISE)
def test_each_channel_on_its_own(name: str, seed: int) -> None:
    plan = window_plan(parse_module(DEPTHWISE[name]).entry.root)
    assert plan is not None
    assert plan.is_depthwise
    check(DEPTHWISE[name], seed)


@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize(
    "name",
    ["wide", "deep", "dilated and strided", "lines of seven", "filters outermost, groups",
     "filters outermost, reversed, few pixels, groups"],
)  # fmt: skip
def test_processors_with_other_vectors(
    nbytes: int, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = replace(target_traits(), vector_nbytes=nbytes)
    for each in (linker, compiler):
        monkeypatch.setattr(each, "target_traits", lambda: traits)
    check(CASES[name], seed)
    check(DEPTHWISE["padded"], seed)


def test_nans_and_infinities_stay_in_their_windows() -> None:
    x, w = np.ones((1, 6, 6, 8), np.float32), np.ones((3, 3, 8, 16), np.float32)
    x[0, 0, 0, 1] = np.nan
    hlo = text("1,6,6,8", "3,3,8,16", "1,4,4,16", "size=3x3", NHWC)
    got = np.asarray(xladev.compile(parse_module(hlo), "cpu")(x, w))
    assert np.isnan(got[0, 0, 0]).all()
    assert (got[0, 1:] == 72).all()


@pytest.mark.parametrize("size", [7, 8])
def test_products_with_padding_are_left_out(size: int) -> None:
    """A line of pixels is a tile: its upper and lower neighbours, and those beside it."""
    x, w = np.ones((1, size, size, 8), np.float32), np.ones((3, 3, 8, 16), np.float32)
    w[0], w[:, 0], w[2], w[:, 2] = np.inf, np.inf, np.inf, np.inf
    shape = f"1,{size},{size}"
    hlo = text(f"{shape},8", "3,3,8,16", f"{shape},16", "size=3x3 pad=1_1x1_1", NHWC)
    module = parse_module(hlo)
    plan = window_plan(module.entry.root)
    assert plan is not None
    assert plan.is_in_sevens == (size == 7)
    if target_traits().vector_nbytes == 64:
        assert not np.isnan(np.asarray(xladev.compile(module, "cpu")(x, w))).any()


def test_tiles_of_seven_rows_where_eight_fit() -> None:
    plan = window_plan(parse_module(CASES["lines of seven"]).entry.root)
    assert plan is not None
    assert [plan.kind(nbytes).rows for nbytes in (32, 64)] == [6, 7]
    assert all(plan.block_rows % plan.kind(nbytes).rows == 0 for nbytes in (32, 64))


@pytest.mark.parametrize(
    "hlo", [CASES["wide"], CASES["points"].replace("34", "48"), CASES["f64"], DEPTHWISE["padded"]]
)
def test_results_past_the_caches_have_the_same_bits(
    hlo: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = parse_module(hlo)
    rng = np.random.default_rng(seed)
    shapes = [p.shape for p in module.entry.parameters]
    arguments = [rng.standard_normal(s.dims).astype(s.element_type.np) for s in shapes]
    near = np.asarray(xladev.compile(module, "cpu")(*arguments))
    monkeypatch.setattr(windows, "NON_TEMPORAL_NBYTES", 0)
    plan = window_plan(module.entry.root)
    assert plan is not None
    assert plan.is_non_temporal
    assert (near == np.asarray(xladev.compile(module, "cpu")(*arguments))).all()


def test_results_whose_rows_lie_unaligned_stay_near() -> None:
    images = text("64,60,60,40", "1,1,40,40", "64,60,60,40", "size=1x1", NHWC)
    plans = [
        window_plan(parse_module(hlo).entry.root) for hlo in (images, images.replace("40", "48"))
    ]
    assert [plan is not None and plan.is_non_temporal for plan in plans] == [False, True]


@pytest.mark.parametrize(
    ("groups", "is_non_temporal"), [(1, True), (2, False), (5, True), (80, True)]
)
def test_results_whose_groups_begin_unaligned_stay_near(groups: int, is_non_temporal: bool) -> None:
    """Of 80 features, 40 begin in the middle of a vector, 16 do not; 1 each are one vector."""
    channels = 80 // groups
    extra = f", feature_group_count={groups}"
    hlo = text("64,60,60,80", f"1,1,{channels},80", "64,60,60,80", "size=1x1", NHWC, extra)
    plan = window_plan(parse_module(hlo).entry.root)
    assert plan is not None
    assert plan.is_non_temporal == is_non_temporal


def test_blocks_are_tall_where_tables_have_few_of_the_positions() -> None:
    window = "size=7x7 stride=2x2 pad=2_3x2_3"
    dense = text("1,224,224,{n}", "7,7,{n},64", "1,112,112,64", window, NHWC)
    plans = [window_plan(parse_module(dense.replace("{n}", n)).entry.root) for n in ("3", "32")]
    assert [plan and (plan.run, plan.block_rows) for plan in plans] == [(7, 336), (1, 48)]
