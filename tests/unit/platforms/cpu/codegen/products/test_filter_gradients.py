"""Gradients of filters with channels last, against the evaluator."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xladev
from tests.tools.cross import MACHINES, Machine, cross_compile
from tests.unit.platforms.cpu.codegen.products.test_planar import arguments_of, check, text
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler, linker
from xladev.platforms.cpu.codegen.products import filter_gradients
from xladev.platforms.cpu.codegen.products.convolution_kernel import convolution_way
from xladev.platforms.cpu.codegen.products.filter_gradients import (
    FilterGradientPlan,
    filter_gradient_plan,
)
from xladev.platforms.cpu.engine import target_traits

TORCH, JAX, MIXED = "f01b_i01o->fb01", "f01b_i01o->01bf", "f01b_i01o->b01f"
PADDED = "size=9x9 pad=1_1x1_1"
CASES = {
    "PyTorch's": text("2,9,9,16", "2,9,9,32", "32,16,3,3", PADDED, TORCH),
    "JAX's": text("2,9,9,16", "2,9,9,32", "3,3,16,32", PADDED, JAX),
    "places between": text("2,9,9,16", "2,9,9,32", "16,3,3,32", PADDED, MIXED),
    "uneven numbers": text("3,8,7,23", "3,8,7,45", "45,23,3,3", "size=8x7 pad=1_1x1_1", TORCH),
    "uneven numbers, JAX's": text("3,8,7,23", "3,8,7,9", "3,3,23,9", "size=8x7 pad=1_1x1_1", JAX),
    "strides": text(
        "2,16,16,12", "2,8,8,20", "20,12,3,3", "size=8x8 pad=1_0x1_0 rhs_dilate=2x2", TORCH
    ),
    "strides, points": text(
        "2,14,14,24", "2,7,7,40", "40,24,1,1", "size=7x7 pad=0_-1x0_-1 rhs_dilate=2x2", TORCH
    ),
    "dilated filters": text(
        "1,12,12,16", "1,8,8,16", "16,16,3,3", "size=8x8 stride=2x2", TORCH
    ),
    "more padding than pixels": text(
        "2,2,3,16", "2,6,5,16", "16,16,3,5", "size=6x5 pad=3_3x3_3", TORCH
    ),
    "large places": text("3,8,8,70", "3,6,6,34", "34,70,9,9", "size=6x6 pad=3_3x3_3", TORCH),
    "wide images": text("1,3,400,8", "1,3,398,16", "1,3,8,16", "size=3x398", JAX),
    "high images": text("1,90,9,8", "1,88,9,16", "3,3,8,16", "size=88x9 pad=0_0x1_1", JAX),
    "many images": text("70,4,5,9", "70,4,5,16", "3,3,9,16", "size=4x5 pad=1_1x1_1", JAX),
    "one dimension": text("3,50,9", "3,47,33", "33,9,4", "size=47", "f0b_i0o->fb0"),
    "one dimension, JAX's": text("3,50,9", "3,47,33", "4,9,33", "size=47", "f0b_i0o->0bf"),
    "few channels": text("2,9,12,3", "2,9,10,20", "3,3,3,20", "size=9x10 pad=1_1x0_0", JAX),
    "few channels, strides": text(
        "2,16,21,3", "2,8,9,20", "7,5,3,20", "size=8x9 pad=3_2x0_0 rhs_dilate=2x2", JAX
    ),
    "few channels, one dimension": text("3,60,2", "3,47,33", "14,2,33", "size=47", "f0b_i0o->0bf"),
    "f64": text("2,9,9,16", "2,9,9,19", "19,16,3,3", PADDED, TORCH, dtype="f64"),
}  # fmt: skip
PARTS = ("wide images", "high images", "many images")


def plan_of(hlo: str) -> FilterGradientPlan:
    plan = convolution_way(parse_module(hlo).entry.root)
    assert isinstance(plan, FilterGradientPlan)
    return plan


@pytest.mark.parametrize("name", CASES)
def test_as_the_evaluator_has_it(name: str, seed: int) -> None:
    plan = plan_of(CASES[name])
    sizes = plan.images[0], *(a.window.size for a in plan.axes)
    assert (plan.part != sizes) == (name in PARTS)
    check(CASES[name], seed)


@pytest.mark.parametrize("nbytes", [4, 16, 32, 64])
@pytest.mark.parametrize("name", ["PyTorch's", "uneven numbers", "uneven numbers, JAX's", "f64"])
def test_processors_with_other_vectors(
    nbytes: int, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = replace(target_traits(), vector_nbytes=nbytes)
    for each in (linker, compiler):
        monkeypatch.setattr(each, "target_traits", lambda: traits)
    check(CASES[name], seed)


THREADED = {
    "turned": text("2,14,14,80", "2,14,14,96", "96,80,3,3", "size=14x14 pad=1_1x1_1", TORCH),
    "in order": text("2,14,14,200", "2,14,14,96", "3,3,200,96", "size=14x14 pad=1_1x1_1", JAX),
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


@pytest.mark.parametrize("name", THREADED)
def test_the_same_bits_however_blocks_are_cut(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = parse_module(THREADED[name])
    arguments = arguments_of(module, seed)
    wanted = np.asarray(xladev.compile(module, "cpu")(*arguments))
    monkeypatch.setattr(filter_gradients, "MOST_CHANNELS", 24)
    monkeypatch.setattr(filter_gradients, "SUMS_NBYTES", 64 << 10)
    np.testing.assert_array_equal(np.asarray(xladev.compile(module, "cpu")(*arguments)), wanted)


def test_nans_stay_where_they_are_seen() -> None:
    module = parse_module(CASES["strides"])
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
        text("2,16,9,9", "2,32,9,9", "32,16,3,3", PADDED, "fb01_io01->fb01"),
        text("2,9,9,3", "2,9,9,32", "32,3,3,3", PADDED, TORCH),
        text("2,9,9,3", "2,9,9,32", "3,3,3,32", PADDED, JAX),
        text("2,9,11,3", "2,9,9,32", "32,3,3,3", "size=9x9 pad=1_1x0_0", TORCH),
        text("2,9,9,16", "2,9,9,3", "3,16,3,3", PADDED, TORCH),
        text("2,9,9,16", "2,9,9,32", "16,32,3,3", PADDED, "f01b_i01o->bf01"),
        text("2,9,9,16", "2,3,3,32", "32,16,9,9", "size=3x3 pad=1_1x1_1", TORCH),
        text("2,9,9,16", "2,9,9,32", "32,16,3,3", f"{PADDED} rhs_reversal=1x1", TORCH),
        text("2,9,9,16", "2,9,9,32", "32,16,3,3", PADDED, TORCH, dtype="bf16"),
    ],
    ids=["planes", "few channels", "few channels, padded", "few channels, turned",
         "few features", "turned otherwise", "forward", "reversed", "bf16"],
)  # fmt: skip
def test_what_other_code_is_for(hlo: str) -> None:
    assert filter_gradient_plan(parse_module(hlo).entry.root) is None


def test_what_each_place_sees() -> None:
    plan = plan_of(CASES["strides"])
    assert (plan.seen(0), plan.seen(1)) == ((1, 8, 0, 8, 0, 8),) * 2
    outside = plan_of(CASES["more padding than pixels"])
    assert outside.seen(0) == (3, 5, 2, 4, 1, 3)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.target)
def test_results_on_other_machines(machine: Machine, seed: int, tmp_path: Path) -> None:
    if machine.missing:
        pytest.skip(machine.missing)
    if machine.needs and machine.needs not in Path("/proc/cpuinfo").read_text("utf-8"):
        pytest.skip(f"this processor has no {machine.needs}")
    module = parse_module(CASES["uneven numbers"])
    arguments = arguments_of(module, seed)
    wanted = np.asarray(HloEvaluator().run(module, *arguments), np.float64)
    (got,) = cross_compile(module, machine)(arguments, tmp_path)
    bound = 1e-5 * float(np.abs(wanted).max())
    np.testing.assert_allclose(np.asarray(got, np.float64), wanted, rtol=0, atol=bound)
