"""Depthwise convolutions by planes with their padding, against the evaluator."""

from dataclasses import replace

import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.codegen.products.test_planar import arguments_of, check, text
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler, linker
from xladev.platforms.cpu.codegen.products import padded_planes
from xladev.platforms.cpu.codegen.products.convolution_kernel import convolution_way
from xladev.platforms.cpu.codegen.products.padded_planes import PaddedPlan
from xladev.platforms.cpu.engine import target_traits

CASES = {
    "padded": text("2,19,14,20", "19,1,3,3", "2,19,14,20", "size=3x3 pad=1_1x1_1", groups=19),
    "not padded": text("1,5,18,19", "5,1,3,3", "1,5,16,17", "size=3x3", groups=5),
    "strided": text(
        "1,9,21,40", "9,1,3,3", "1,9,11,20", "size=3x3 pad=1_1x1_1 stride=2x2", groups=9
    ),
    "strided along rows": text(
        "1,3,12,31", "3,1,4,5", "1,3,11,15", "size=4x5 pad=1_1x2_1 stride=1x2", groups=3
    ),
    "strided along columns": text(
        "1,3,64,16", "3,1,3,3", "1,3,21,16", "size=3x3 pad=1_0x1_1 stride=3x1", groups=3
    ),
    "uneven padding": text(
        "2,3,23,12", "3,1,3,2", "2,3,20,15", "size=3x2 pad=0_-1x3_1", groups=3
    ),
    "more padding than window": text(
        "1,3,9,10", "3,1,3,3", "1,3,17,18", "size=3x3 pad=5_5x5_5", groups=3
    ),
    "dilated window": text(
        "1,4,22,23", "4,1,3,3", "1,4,16,17", "size=3x3 pad=1_1x1_1 rhs_dilate=4x4", groups=4
    ),
    "dilated and strided": text(
        "1,4,25,33", "4,1,3,3", "1,4,10,14", "size=3x3 stride=2x2 rhs_dilate=3x3", groups=4
    ),
    "reversed": text(
        "1,6,20,21", "6,1,3,4", "1,6,20,22", "size=3x4 pad=1_1x2_2 rhs_reversal=1x1", groups=6
    ),
    "axes of the filter exchanged": text(
        "1,6,21,22", "6,1,2,3", "1,6,19,21", "size=3x2", "bf01_oi10->bf01", groups=6
    ),
    "in parts": text(
        "1,3,70,150", "3,1,5,5", "1,3,70,150", "size=5x5 pad=2_2x2_2", groups=3
    ),
    "strided, in parts": text(
        "1,3,141,150", "3,1,5,5", "1,3,71,75", "size=5x5 pad=2_2x2_2 stride=2x2", groups=3
    ),
    "one dimension": text("3,33,350", "33,1,4", "3,33,347", "size=4", "bf0_oi0->bf0", groups=33),
    "one dimension, strided": text(
        "2,5,301", "5,1,9", "2,5,151", "size=9 pad=4_4 stride=2", "bf0_oi0->bf0", groups=5
    ),
    "images in rows": text(
        "9,2,18,19", "9,1,3,3", "9,2,16,17", "size=3x3", "fb01_oi01->fb01", groups=9
    ),
    "f64": text(
        "1,9,16,17", "9,1,3,3", "1,9,16,17", "size=3x3 pad=1_1x1_1", groups=9, dtype="f64"
    ),
    "f64, strided": text(
        "1,9,23,22", "9,1,3,3", "1,9,11,11", "size=3x3 pad=0_0x1_0 stride=2x2", groups=9,
        dtype="f64",
    ),
}  # fmt: skip


def plan_of(hlo: str) -> PaddedPlan:
    plan = convolution_way(parse_module(hlo).entry.root)
    assert isinstance(plan, PaddedPlan)
    return plan


@pytest.mark.parametrize("name", CASES)
def test_as_the_evaluator_has_it(name: str, seed: int) -> None:
    assert (plan_of(CASES[name]).parts > 1) == ("in parts" in name)
    check(CASES[name], seed)


@pytest.mark.parametrize("nbytes", [8, 16, 32, 64])
@pytest.mark.parametrize("name", ["padded", "strided", "f64, strided", "strided, in parts"])
def test_processors_with_other_vectors(
    nbytes: int, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = replace(target_traits(), vector_nbytes=nbytes)
    for each in (linker, compiler):
        monkeypatch.setattr(each, "target_traits", lambda: traits)
    check(CASES[name], seed)


@pytest.mark.parametrize("name", ["in parts", "strided, in parts", "images in rows"])
def test_the_same_bits_at_any_number_of_threads_and_parts(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = parse_module(CASES[name])
    arguments = arguments_of(module, seed)
    wanted = np.asarray(xladev.compile(module, "cpu", CompileOptions(threads=1))(*arguments))
    for threads in (2, 3):
        compiled = xladev.compile(module, "cpu", CompileOptions(threads=threads))
        np.testing.assert_array_equal(np.asarray(compiled(*arguments)), wanted)
    monkeypatch.setattr(padded_planes, "PART_NBYTES", 12 << 10)
    smaller = xladev.compile(module, "cpu")
    np.testing.assert_array_equal(np.asarray(smaller(*arguments)), wanted)


@pytest.mark.parametrize("name", ["padded", "strided", "uneven padding", "in parts"])
def test_nans_stay_where_they_are_seen(name: str) -> None:
    module = parse_module(CASES[name])
    x, w = (np.ones(p.shape.dims, np.float32) for p in module.entry.parameters)
    x[0, 1, 3, -1] = x[0, 0, -1, 0] = np.nan
    wanted = np.isnan(np.asarray(HloEvaluator().run(module, x, w)))
    assert wanted.any()
    assert not wanted.all()
    got = np.isnan(np.asarray(xladev.compile(module, "cpu")(x, w)))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    "hlo",
    [
        text("1,9,6,7", "9,1,3,3", "1,9,6,7", "size=3x3 pad=1_1x1_1", groups=9),
        text("1,9,61,70", "9,1,3,3", "1,9,20,23", "size=3x3 stride=3x3", groups=9),
        text(
            "1,9,30000", "9,1,400", "1,9,12604", "size=400 stride=2 rhs_dilate=12", "bf0_oi0->bf0",
            groups=9,
        ),
        text(
            "1,9,14,14,14", "9,1,3,3,3", "1,9,12,12,12", "size=3x3x3", "bf012_oi012->bf012",
            groups=9,
        ),
    ],
    ids=["few pixels", "stride of three", "rows that are too long", "three dimensions"],
)  # fmt: skip
def test_what_other_code_is_for(hlo: str) -> None:
    assert not isinstance(convolution_way(parse_module(hlo).entry.root), PaddedPlan)
