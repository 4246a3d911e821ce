"""Convolutions and their gradients by cuDNN's emulation, against the evaluator."""

from collections import Counter

import numpy as np
import pytest

from tests.unit.platforms.cuda.libraries.behaviour.test_convolutions import (
    CONVOLUTIONS,
    convolution,
)
from tests.unit.platforms.cuda.libraries.behaviour.test_library_programs import called, compare
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.instrument import collect_decisions
from xladev.platforms.cuda.libraries.calls import Convolution, Matmul
from xladev.testing.random_inputs import random_arguments

OTHERS = ("transposed", "groups in vectors, dilated", "of single elements")
FORWARD = {
    **{k: v for k, v in CONVOLUTIONS.items() if k not in OTHERS},
    "depthwise": convolution(
        ("2,6,6,4", "3,3,1,4", "2,4,4,4"), "size=3x3", "b01f_01io->b01f",
        ", feature_group_count=4",
    ),
    "depthwise, bf16, features first": convolution(
        ("2,4,6,6", "8,1,3,3", "2,8,4,4"), "size=3x3", "bf01_oi01->bf01",
        ", feature_group_count=4", ("bf16",) * 3,
    ),
    "padded on one side": convolution(
        ("2,8,8,3", "3,3,3,5", "2,4,4,5"), "size=3x3 stride=2x2 pad=0_1x0_1",
        "b01f_01io->b01f",
    ),
    "f16, strided and dilated": convolution(
        ("1,11,9,8", "2,3,8,8", "1,5,3,8"),
        "size=2x3 stride=2x2 pad=0_0x-1_1 rhs_dilate=2x2", "b01f_01io->b01f",
        types=("f16",) * 3,
    ),
    "reversed in one dimension": convolution(
        ("2,6,7,3", "2,3,3,5", "2,5,5,5"), "size=2x3 rhs_reversal=0x1", "b01f_01io->b01f"
    ),
    "a window as large as the image": convolution(
        ("4,6,6,3", "6,6,3,5", "4,1,1,5"), "size=6x6", "b01f_01io->b01f"
    ),
}  # fmt: skip
BACKWARD_INPUT = {
    **{k: CONVOLUTIONS[k] for k in OTHERS[:2]},
    "strided, exact": convolution(
        ("2,4,4,5", "3,3,5,3", "2,9,9,3"),
        "size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01io->b01f",
    ),
    "strided, with a remainder": convolution(
        ("2,4,4,5", "3,3,5,3", "2,10,9,3"),
        "size=3x3 pad=2_3x2_2 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01io->b01f",
    ),
    "padded differently": convolution(
        ("2,4,4,5", "3,3,5,3", "2,8,7,3"),
        "size=3x3 pad=2_1x0_2 lhs_dilate=2x2 rhs_reversal=1x1", "b01f_01io->b01f",
    ),
    "padded by more than the kernel": convolution(
        ("2,4,4,5", "3,3,5,3", "2,10,7,3"),
        "size=3x3 pad=4_1x0_2 lhs_dilate=2x2", "b01f_01io->b01f",
    ),
    "dilated": convolution(
        ("1,3,4,5", "2,3,5,3", "1,11,16,3"),
        "size=2x3 pad=3_3x4_4 lhs_dilate=3x3 rhs_dilate=2x1 rhs_reversal=1x1",
        "b01f_01io->b01f",
    ),
    "in groups, bf16": convolution(
        ("2,4,4,6", "3,3,3,8", "2,6,6,8"), "size=3x3 pad=2_2x2_2 rhs_reversal=1x1",
        "b01f_01io->b01f", ", feature_group_count=2", ("bf16",) * 3,
    ),
    "in groups, features first": convolution(
        ("2,6,4,4", "8,3,3,3", "2,8,9,9"),
        "size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1", "bf01_oi01->bf01",
        ", feature_group_count=2",
    ),
    "one dimension": convolution(
        ("2,5,3", "3,3,4", "2,11,4"), "size=3 pad=2_2 lhs_dilate=2 rhs_reversal=1",
        "b0f_0io->b0f",
    ),
    "three dimensions": convolution(
        ("1,2,3,3,2", "2,2,2,2,3", "1,4,6,6,3"),
        "size=2x2x2 pad=1_1x1_1x1_1 lhs_dilate=2x2x2 rhs_reversal=1x1x1", "b012f_012io->b012f",
    ),
    "a kernel that is reversed before": """ENTRY e {
  x = f32[2,4,4,5] parameter(0)
  w = f32[3,3,3,5] parameter(1)
  v = f32[3,3,3,5] reverse(w), dimensions={0,1}
  ROOT r = f32[2,4,4,3] convolution(x, v), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01oi->b01f
}""",
}  # fmt: skip
BACKWARD_KERNEL = {
    "features first": convolution(
        ("2,3,8,8", "2,5,6,6", "3,5,3,3"), "size=6x6", "fb01_io01->bf01"
    ),
    "features last, padded": convolution(
        ("2,8,8,3", "2,8,8,5", "3,3,3,5"), "size=8x8 pad=1_1x1_1", "f01b_i01o->01bf"
    ),
    "strided": convolution(
        ("2,9,9,3", "2,4,4,5", "3,3,3,5"), "size=4x4 rhs_dilate=2x2", "f01b_i01o->01bf"
    ),
    "strided, with a remainder": convolution(
        ("2,10,9,3", "2,4,4,5", "3,3,3,5"), "size=4x4 pad=0_-1x0_0 rhs_dilate=2x2",
        "f01b_i01o->01bf",
    ),
    "padded differently": convolution(
        ("2,8,8,3", "2,4,4,5", "3,3,3,5"), "size=4x4 pad=0_1x1_0 rhs_dilate=2x2",
        "f01b_i01o->01bf",
    ),
    "dilated": convolution(
        ("2,9,9,3", "2,5,5,5", "3,3,3,5"), "size=5x5 stride=2x2", "f01b_i01o->01bf"
    ),
    "dilated, with a remainder": convolution(
        ("2,10,9,3", "2,4,5,5", "3,3,3,5"), "size=4x5 stride=3x2 pad=1_0x0_0", "f01b_i01o->01bf"
    ),
    "in groups, f16": convolution(
        ("6,2,8,8", "2,4,6,6", "3,4,3,3"), "size=6x6", "bf01_io01->bf01",
        ", batch_group_count=2", ("f16",) * 3,
    ),
    "batch groups of a plain convolution": convolution(
        ("4,6,6,3", "3,3,3,4", "2,4,4,4"), "size=3x3 rhs_reversal=1x0", "b01f_01io->b01f",
        ", batch_group_count=2",
    ),
    "one dimension, bf16": convolution(
        ("3,9,2", "3,8,4", "2,2,4"), "size=8", "f0b_i0o->0bf", types=("bf16",) * 3
    ),
    "three dimensions": convolution(
        ("2,4,5,6,2", "2,3,4,5,3", "2,2,2,2,3"), "size=3x4x5", "f012b_i012o->012bf"
    ),
}  # fmt: skip
KINDS = {
    "FORWARD": FORWARD,
    "BACKWARD_INPUT": BACKWARD_INPUT,
    "BACKWARD_KERNEL": BACKWARD_KERNEL,
}
CASES = [(kind, name) for kind, texts in KINDS.items() for name in texts]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_convolutions_and_gradients(kind, name, emulated):
    text = KINDS[kind][name]
    assert [call.kind for call in called(text)] == [kind]
    compare(text, emulated)


def test_gradients_as_jax_writes_them(programs_dir):
    """ResNet-8's training step: nine convolutions, and all but one input need a gradient."""
    calls = called((programs_dir / "resnet8_train.hlo").read_text())
    kinds = Counter(call.kind for call in calls if isinstance(call, Convolution))
    assert kinds == {"FORWARD": 9, "BACKWARD_INPUT": 8, "BACKWARD_KERNEL": 9}


def test_tf32_unless_high_precision_is_asked_for(emulated):
    text = CONVOLUTIONS["plain"]
    precise = convolution(
        ("2,9,8,3", "3,2,3,5", "2,7,7,5"), "size=3x2", "b01f_01io->b01f",
        ", operand_precision={highest,default}",
    )  # fmt: skip
    found = [
        call.compute for t in (text, precise) for fast in (False, True)
        for call in called(t, allow_tf32=fast)
    ]  # fmt: skip
    assert found == ["32F", "32F_FAST_TF32", "32F", "32F"]


@pytest.mark.parametrize(
    "text",
    [
        CONVOLUTIONS["plain"].replace("f32", "f64"),
        convolution(
            ("2,4,4,5", "3,3,5,3", "2,4,4,3"), "size=3x3 stride=2x2 pad=2_2x2_2 lhs_dilate=2x2",
            "b01f_01io->b01f",
        ),
        CONVOLUTIONS["of single elements"],
        convolution(
            ("2,5,4,5,3,2", "2,2,2,2,2,3", "2,4,3,4,2,3"), "size=2x2x2x2", "b0123f_0123io->b0123f"
        ),
    ],
)  # fmt: skip
def test_what_cudnn_has_not_goes_by_patches(text):
    assert [type(call) for call in called(text)] == [Matmul]


def layer(dtype, rest, features=8):
    """A convolution, and what follows."""
    y = f"{dtype}[2,5,5,{features}]"
    return f"""ENTRY e {{
  x = {dtype}[2,7,7,8] parameter(0)
  k = {dtype}[3,3,8,{features}] parameter(1)
  b = {dtype}[{features}] parameter(2)
  c = {y} convolution(x, k), window={{size=3x3}}, dim_labels=b01f_01io->b01f
  wide = {y} broadcast(b), dimensions={{3}}
  z = {dtype}[] constant(0)
  zeros = {y} broadcast(z), dimensions={{}}
  {rest.replace("Y", y)}
}}"""


EPILOGUES = {
    "BIAS": "ROOT r = Y add(wide, c)",
    "RELU": "ROOT r = Y maximum(c, zeros)",
    "RELU_BIAS": "s = Y add(c, wide)\n  ROOT r = Y maximum(zeros, s)",
}


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name, dtype, emulated):
    """Computed in f32 and rounded once, which is closer than what HLO rounds twice."""
    text = layer(dtype, EPILOGUES[name])
    assert [call.epilogue for call in called(text)] == [name]
    module = parse_module(text)
    arguments = random_arguments(module, 0)
    strict = CompileOptions(strict=True)
    found = np.asarray(client.compile(module, emulated, strict)(*arguments))
    wide = [a.astype(np.float32) for a in arguments]
    wanted = HloEvaluator().run(parse_module(text.replace(dtype, "f32")), *wide)
    half = 2.0**-8 if dtype == "bf16" else 2.0**-11
    np.testing.assert_allclose(found.astype(np.float32), wanted, 1.01 * half, 1e-5)
    assert np.any(wanted)


def test_epilogues_that_cudnn_may_not_have(emulated):
    rest = EPILOGUES["RELU_BIAS"]
    for text in (layer("f32", rest), layer("bf16", rest, 7)):
        assert [call.epilogue for call in called(text)] == ["DEFAULT"]
    compare(layer("f32", rest), emulated)
    assert [c.epilogue for c in called(layer("f32", rest), allow_tf32=True)] == ["RELU_BIAS"]


def test_what_the_library_refuses_goes_by_patches():
    text = layer("bf16", EPILOGUES["RELU_BIAS"])

    def without_bias(call):
        return "no plan" if call.epilogue.endswith("BIAS") else ""

    assert [c.epilogue for c in called(text, refusal=without_bias)] == ["DEFAULT"]
    with collect_decisions() as told:
        (product,) = called(text, refusal=lambda call: "no plan")
    assert (type(product), product.epilogue) == (Matmul, "RELU_BIAS")
    assert "cuBLASLt multiplies them for c: no plan" in [d.why for d in told]


def test_a_convolution_that_others_read_has_no_epilogue(emulated):
    rest = "s = Y add(c, wide)\n  ROOT r = (Y, Y) tuple(c, s)"
    text = layer("bf16", rest)
    assert [call.epilogue for call in called(text)] == ["DEFAULT"]
    compare(text, emulated)


def test_calls_of_convolutions_take_no_patches():
    assert [type(c) for c in called(CONVOLUTIONS["plain"])] == [Convolution]
