"""Convolutions whose rows are features, against the evaluator."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xladev
from tests.tools.cross import MACHINES, Machine, cross_compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler, linker
from xladev.platforms.cpu.codegen.products import dot, planar
from xladev.platforms.cpu.codegen.products.convolution_kernel import convolution_way
from xladev.platforms.cpu.codegen.products.padded_planes import PaddedPlan
from xladev.platforms.cpu.codegen.products.planar import PlanarPlan, planar_plan
from xladev.platforms.cpu.engine import target_traits

FORWARD, INPUT, FILTERS = "bf01_oi01->bf01", "bf01_io01->bf01", "fb01_io01->fb01"


def text(
    base: str, filters: str, result: str, window: str, labels: str = FORWARD, *, groups: int = 1,
    dtype: str = "f32",
) -> str:  # fmt: skip
    return f"""
    HloModule m
    ENTRY main {{ x = {dtype}[{base}] parameter(0)  w = {dtype}[{filters}] parameter(1)
      ROOT y = {dtype}[{result}] convolution(x, w), window={{{window}}},
        dim_labels={labels}, feature_group_count={groups} }}
    """


REVERSED = "size=3x3 pad=1_1x1_1 rhs_reversal=1x1"
LANES_ARE_PIXELS = {
    "padded": text("2,5,9,20", "18,5,3,3", "2,18,9,20", "size=3x3 pad=1_1x1_1"),
    "not padded": text("1,5,9,20", "18,5,3,3", "1,18,7,18", "size=3x3"),
    "strided": text("1,5,21,40", "20,5,3,3", "1,20,11,20", "size=3x3 pad=1_1x1_1 stride=2x2"),
    "dilated window": text("1,4,20,20", "9,4,3,3", "1,9,16,16", "size=3x3 rhs_dilate=2x2"),
    "dilated base": text(
        "1,9,6,7", "9,5,3,3", "1,5,12,14", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
        INPUT,
    ),
    "points": text("1,40,9,9", "33,40,1,1", "1,33,9,9", "size=1x1"),
    "points, filters turned": text("1,40,9,9", "40,33,1,1", "1,33,9,9", "size=1x1", INPUT),
    "filters turned": text("1,20,9,9", "20,33,3,3", "1,33,9,9", REVERSED, INPUT),
    "filters turned, deep": text("1,130,5,5", "130,60,3,3", "1,60,5,5", REVERSED, INPUT),
    "small images": text("5,20,4,4", "33,20,3,3", "5,33,4,4", "size=3x3 pad=1_1x1_1"),
    "many small images": text("70,3,2,2", "9,3,3,3", "70,9,2,2", "size=3x3 pad=1_1x1_1"),
    "small images, filters turned": text("3,70,3,3", "70,60,3,3", "3,60,3,3", REVERSED, INPUT),
    "images of seven": text("2,60,7,7", "50,60,3,3", "2,50,7,7", "size=3x3 pad=1_1x1_1"),
    "wide": text("1,9,3,150", "8,9,3,3", "1,8,3,150", "size=3x3 pad=1_1x1_1"),
    "few features": text("1,16,12,12", "3,16,3,3", "1,3,12,12", "size=3x3 pad=1_1x1_1"),
    "many features": text("1,4,3,3", "500,4,3,3", "1,500,3,3", "size=3x3 pad=1_1x1_1"),
    "one channel": text("1,1,9,20", "18,1,5,5", "1,18,9,20", "size=5x5 pad=2_2x2_2"),
    "groups": text("2,8,6,6", "12,4,3,3", "2,12,6,6", "size=3x3 pad=1_1x1_1", groups=2),
    "one dimension": text("3,6,37", "33,6,4", "3,33,34", "size=4", "bf0_oi0->bf0"),
    "three dimensions": text(
        "1,8,5,6,7", "20,8,2,3,2", "1,20,5,4,3", "size=2x3x2 pad=1_0x0_0x0_0 stride=1x1x2",
        "bf012_oi012->bf012",
    ),
    "channels last in": text("1,9,9,6", "18,6,3,3", "1,18,7,7", "size=3x3", "b01f_oi01->bf01"),
    "axes exchanged": text("1,6,9,7", "18,6,3,2", "1,18,5,8", "size=2x3", "bf01_oi10->bf10"),
    "uneven padding": text("2,5,9,8", "33,5,3,2", "2,33,6,11", "size=3x2 pad=0_-1x3_1"),
    "f64": text("1,6,9,9", "9,6,3,3", "1,9,9,9", "size=3x3 pad=1_1x1_1", dtype="f64"),
}  # fmt: skip
LANES_ARE_PLACES = {
    "filter gradient": text("2,5,9,9", "2,18,9,9", "18,5,3,3", "size=9x9 pad=1_1x1_1", FILTERS),
    "filter gradient, many": text(
        "2,37,8,8", "2,50,8,8", "50,37,3,3", "size=8x8 pad=1_1x1_1", FILTERS
    ),
    "filter gradient, large": text(
        "1,3,40,30", "1,7,40,30", "7,3,3,3", "size=40x30 pad=1_1x1_1", FILTERS
    ),
    "filter gradient of strides": text(
        "1,3,16,16", "1,9,8,8", "9,3,3,3", "size=8x8 pad=1_0x1_0 rhs_dilate=2x2", FILTERS
    ),
    "filter gradient, transposed": text(
        "1,4,8,8", "1,6,16,16", "6,4,2,2", "size=16x16 pad=1_1x1_1 lhs_dilate=2x2", FILTERS
    ),
    "filter gradient of points": text("2,9,6,6", "2,18,6,6", "18,9,1,1", "size=6x6", FILTERS),
    "more padding than pixels": text(
        "1,8,1,2", "16,8,7,7", "1,16,5,6", "size=7x7 pad=5_5x5_5"
    ),
    "large window": text("2,4,12,12", "9,4,10,10", "2,9,3,3", "size=10x10"),
    "large window, reversed": text(
        "1,4,12,12", "9,4,10,10", "1,9,3,3", "size=10x10 rhs_reversal=1x1"
    ),
}  # fmt: skip
DEPTHWISE = {
    "depthwise": text("2,19,9,20", "19,1,3,3", "2,19,9,20", "size=3x3 pad=1_1x1_1", groups=19),
    "depthwise, strided": text(
        "1,9,21,40", "9,1,3,3", "1,9,11,20", "size=3x3 pad=1_1x1_1 stride=2x2", groups=9
    ),
    "depthwise, dilated base": text(
        "1,9,6,7", "9,1,3,3", "1,9,12,14", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
        groups=9,
    ),
    "depthwise, small": text("2,40,2,2", "40,1,5,5", "2,40,2,2", "size=5x5 pad=2_2x2_2", groups=40),
    "depthwise, one dimension": text(
        "3,33,150", "33,1,4", "3,33,147", "size=4", "bf0_oi0->bf0", groups=33
    ),
    "depthwise, f64": text(
        "1,9,9,9", "9,1,3,3", "1,9,9,9", "size=3x3 pad=1_1x1_1", groups=9, dtype="f64"
    ),
    "depthwise, images in rows": text(
        "9,2,8,9", "9,1,3,3", "9,2,6,7", "size=3x3", "fb01_oi01->fb01", groups=9
    ),
}  # fmt: skip
CASES = LANES_ARE_PIXELS | LANES_ARE_PLACES | DEPTHWISE


def plan_of(hlo: str) -> PlanarPlan:
    plan = convolution_way(parse_module(hlo).entry.root)
    plan = plan.planar if isinstance(plan, PaddedPlan) else plan
    assert isinstance(plan, PlanarPlan)
    return plan


def arguments_of(module: HloModule, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    shapes = [p.shape for p in module.entry.parameters]
    return [rng.standard_normal(s.dims).astype(s.element_type.np) for s in shapes]


def check(hlo: str, seed: int) -> None:
    module = parse_module(hlo)
    arguments = arguments_of(module, seed)
    wanted = np.asarray(HloEvaluator().run(module, *arguments), np.float64)
    got = np.asarray(xladev.compile(module, "cpu")(*arguments)).astype(np.float64)
    bound = (1e-13 if "f64" in hlo else 1e-5) * float(np.abs(wanted).max())
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("name", CASES)
def test_as_the_evaluator_has_it(name: str, seed: int) -> None:
    plan = plan_of(CASES[name])
    assert plan.is_turned == (name in LANES_ARE_PLACES)
    assert plan.is_depthwise == (name in DEPTHWISE)
    check(CASES[name], seed)


@pytest.mark.parametrize("nbytes", [4, 16, 32, 64])
@pytest.mark.parametrize(
    "name",
    ["padded", "strided", "dilated base", "small images", "filter gradient", "f64", "depthwise"],
)
def test_processors_with_other_vectors(
    nbytes: int, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = replace(target_traits(), vector_nbytes=nbytes)
    for each in (linker, compiler):
        monkeypatch.setattr(each, "target_traits", lambda: traits)
    check(CASES[name], seed)


THREADED = {
    "tall": text("1,64,14,14", "300,64,3,3", "1,300,14,14", "size=3x3 pad=1_1x1_1"),
    "deep": text("2,140,4,4", "140,200,3,3", "2,200,4,4", REVERSED, INPUT),
    "depthwise": text(
        "2,200,40,40", "200,1,3,3", "2,200,40,40", "size=3x3 pad=1_1x1_1", groups=200
    ),
    "turned": text("2,64,14,14", "2,96,14,14", "96,64,3,3", "size=14x14 pad=1_1x1_1", FILTERS),
}


@pytest.mark.parametrize("name", THREADED)
def test_the_same_bits_at_any_number_of_threads(name: str, seed: int) -> None:
    module = parse_module(THREADED[name])
    plan_of(THREADED[name])
    arguments = arguments_of(module, seed)
    results = [
        np.asarray(xladev.compile(module, "cpu", CompileOptions(threads=n))(*arguments))
        for n in (1, 2, 3, 7)
    ]
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("name", ["many small images", "wide", "filter gradient, many", "deep"])
def test_the_same_bits_however_blocks_are_cut(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = parse_module((CASES | THREADED)[name])
    arguments = arguments_of(module, seed)
    wanted = np.asarray(xladev.compile(module, "cpu")(*arguments))
    monkeypatch.setattr(planar, "BLOCK_COLUMNS", 32)
    monkeypatch.setattr(planar, "BLOCK_ROWS", dot.ROWS_STEP)
    monkeypatch.setattr(planar, "MOST_LINES", 64)
    np.testing.assert_array_equal(np.asarray(xladev.compile(module, "cpu")(*arguments)), wanted)


@pytest.mark.parametrize("name", ["padded", "small images", "filter gradient", "depthwise"])
def test_nans_stay_where_they_are_seen(name: str) -> None:
    module = parse_module(CASES[name])
    x, w = (np.ones(p.shape.dims, np.float32) for p in module.entry.parameters)
    x[0, 0, 0, 0] = np.nan
    wanted = np.isnan(np.asarray(HloEvaluator().run(module, x, w)))
    assert wanted.any()
    assert not wanted.all()
    got = np.isnan(np.asarray(xladev.compile(module, "cpu")(x, w)))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    "hlo",
    [
        text("1,4,4,4", "16,4,3,3", "1,16,8,8", "size=3x3 lhs_dilate=3x3"),
        text("1,9,8,5", "3,3,5,20", "1,9,8,20", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
        text("1,4,6,6", "16,4,3,3", "1,16,4,4", "size=3x3", dtype="bf16"),
        text("3,4,6,6", "16,4,3,3", "4,3,16,4", "size=3x3", "bf01_oi01->0bf1"),
        text("1,4,6,6", "3,16,4,3", "1,16,4,4", "size=3x3", "bf01_0oi1->bf01"),
    ],
    ids=["dilated by three", "features last", "bf16", "lines first", "far window"],
)
def test_what_other_code_is_for(hlo: str) -> None:
    assert planar_plan(parse_module(hlo).entry.root) is None


def test_small_images_share_vectors() -> None:
    small, large = (plan_of(CASES[name]) for name in ("small images", "padded"))
    assert (small.is_joined, small.columns, small.matrices) == (True, 80, 1)
    assert (large.is_joined, large.columns, large.matrices) == (False, 180, 2)


def test_filters_that_lie_apart_are_copied() -> None:
    names = ("padded", "filters turned", "points, filters turned", "filter gradient")
    assert [plan_of(CASES[n]).is_gathered for n in names] == [False, True, True, False]


@pytest.mark.parametrize("name", ["strided", "dilated base"])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.target)
def test_results_on_other_machines(machine: Machine, name: str, seed: int, tmp_path: Path) -> None:
    """Vectors of other lengths, masks written out: LLVM stops at what it cannot lower."""
    if machine.missing:
        pytest.skip(machine.missing)
    if machine.needs and machine.needs not in Path("/proc/cpuinfo").read_text("utf-8"):
        pytest.skip(f"this processor has no {machine.needs}")
    module = parse_module(CASES[name])
    arguments = arguments_of(module, seed)
    wanted = np.asarray(HloEvaluator().run(module, *arguments), np.float64)
    (got,) = cross_compile(module, machine)(arguments, tmp_path)
    bound = 1e-5 * float(np.abs(wanted).max())
    np.testing.assert_allclose(np.asarray(got, np.float64), wanted, rtol=0, atol=bound)
