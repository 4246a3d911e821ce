"""Convolutions of dilated bases, phase by phase: the same values."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.dilated_convolutions import DilatedConvolutions

GRADIENT, TRANSPOSED = "bf01_io01->bf01", "b01f_01io->b01f"


def module_of(
    base: str, filters: str, result: str, window: str, labels: str = GRADIENT, more: str = ""
) -> HloModule:
    return parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{base}] parameter(0)  f = f32[{filters}] parameter(1)
      ROOT c = f32[{result}] convolution(x, f), window={{{window}}},
        dim_labels={labels}{more} }}""")


REVERSED = "lhs_dilate=2x2 rhs_reversal=1x1"
CHANGED = {
    "gradient of strides": module_of(
        "2,9,7,7", "9,5,3,3", "2,5,14,14", f"size=3x3 pad=1_2x1_2 {REVERSED}"
    ),
    "uneven size": module_of(
        "2,9,7,6", "9,5,3,3", "2,5,13,11", f"size=3x3 pad=1_1x1_1 {REVERSED}"
    ),
    "large window": module_of(
        "1,9,6,6", "9,5,7,6", "1,5,13,11", f"size=7x6 pad=4_4x3_2 {REVERSED}"
    ),
    "transposed": module_of(
        "1,5,6,16", "2,2,16,4", "1,10,12,4", "size=2x2 pad=1_1x1_1 lhs_dilate=2x2", TRANSPOSED
    ),
    "by three": module_of(
        "1,4,4,9", "5,5,9,3", "1,12,14,3", "size=5x5 pad=3_3x4_4 lhs_dilate=3x3", TRANSPOSED
    ),
    "along one dimension": module_of(
        "1,6,7,9", "3,3,9,3", "1,11,4,3", "size=3x3 pad=1_1x1_1 stride=1x2 lhs_dilate=2x1",
        TRANSPOSED,
    ),
    "fewer places than phases": module_of(
        "1,2,2,9", "3,3,9,3", "1,1,2,3", "size=3x3 pad=0_0x0_1 lhs_dilate=2x2", TRANSPOSED
    ),
    "a phase of holes": module_of(
        "1,4,4,40", "1,2,40,3", "1,8,8,3", "size=1x2 pad=0_1x1_1 lhs_dilate=2x2", TRANSPOSED
    ),
    "padding left out": module_of(
        "1,9,9,9", "3,3,9,3", "1,10,13,3", "size=3x3 pad=-3_-2x-1_-1 lhs_dilate=2x2", TRANSPOSED
    ),
}  # fmt: skip
POINTS = module_of("2,70,5,4", "70,6,1,1", "2,6,10,9", f"size=1x1 pad=0_1x1_1 {REVERSED}")
LEFT = {
    "few terms": module_of("2,3,7,7", "3,5,3,3", "2,5,14,14", f"size=3x3 pad=1_2x1_2 {REVERSED}"),
    "strides too": module_of(
        "1,9,9,9", "3,3,9,3", "1,8,8,3", "size=3x3 stride=2x2 lhs_dilate=2x2", TRANSPOSED
    ),
    "groups": module_of(
        "1,5,5,32", "3,3,16,4", "1,7,7,4", "size=3x3 lhs_dilate=2x2", TRANSPOSED,
        ", feature_group_count=2",
    ),
    "no holes": module_of("1,5,5,32", "3,3,32,4", "1,3,3,4", "size=3x3", TRANSPOSED),
}  # fmt: skip


def changed(module: HloModule, seed: int) -> HloModule:
    made = DilatedConvolutions().run(module)
    verify(made)
    rng = np.random.default_rng(seed)
    given = [rng.standard_normal(p.shape.dims).astype("f4") for p in module.entry.parameters]
    got, wanted = (HloEvaluator().run(m, *given) for m in (made, module))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    return made


@pytest.mark.parametrize("name", CHANGED)
def test_the_same_values(name: str, seed: int) -> None:
    made = changed(CHANGED[name], seed)
    found = [i for i in made.entry.instructions if i.opcode == "convolution"]
    assert found
    assert all(w.base_dilation == 1 for i in found for w in i["window"])
    assert any(i.opcode == "concatenate" for i in made.entry.instructions)


def test_a_single_phase_is_padded(seed: int) -> None:
    made = changed(POINTS, seed)
    opcodes = [i.opcode for i in made.entry.instructions]
    assert opcodes.count("convolution") == opcodes.count("pad") == 1
    assert "concatenate" not in opcodes


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name: str) -> None:
    assert DilatedConvolutions().run(LEFT[name]) is LEFT[name]


def test_annotations_stay() -> None:
    """All that is made is at the same place; the result alone is what was there before."""
    module = parse_module("""HloModule m
    ENTRY e { x = f32[1,9,6,6] parameter(0)  f = f32[9,5,3,3] parameter(1)
      ROOT c = f32[1,5,13,13] convolution(x, f), dim_labels=bf01_io01->bf01,
        window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2}, sharding={replicated}, origin={{"c"}},
        metadata={op_name="net/up"} }""")
    made = DilatedConvolutions().run(module)
    before = [i for i in made.entry.instructions if i.operands and i is not made.entry.root]
    assert made.entry.root.note == module.entry.root.note
    assert {i.note for i in before} == {module.entry.root.note.place}
