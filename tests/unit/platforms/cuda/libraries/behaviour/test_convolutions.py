"""Convolutions as products of patches, where cuDNN is not, against the evaluator."""

import pytest

from tests.unit.platforms.cuda.libraries.behaviour import test_library_programs as programs
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.kernel import emit_thread_function
from xladev.hlo.builder import HloBuilder
from xladev.hlo.text import parse_module
from xladev.passes.default import default_pipeline
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.codegen.patches import PATCHES
from xladev.platforms.cuda.libraries.calls import Matmul
from xladev.platforms.cuda.libraries.rules import LIBRARIES, LibraryCalls

WITHOUT_CUDNN = frozenset(LIBRARIES) - {"convolution"}


def called(text):
    return programs.called(text, opcodes=WITHOUT_CUDNN)


def check(text, emulated, kind):
    assert kind in {type(call) for call in called(text)}
    programs.compare(text, emulated, "library_convolutions=false")


def convolution(dims, window, labels, more="", types=("f32",) * 3):
    lhs, rhs, out = types
    return f"""ENTRY e {{
  x = {lhs}[{dims[0]}] parameter(0)
  k = {rhs}[{dims[1]}] parameter(1)
  ROOT r = {out}[{dims[2]}] convolution(x, k), window={{{window}}}, dim_labels={labels}{more}
}}"""


CONVOLUTIONS = {
    "plain": convolution(("2,9,8,3", "3,2,3,5", "2,7,7,5"), "size=3x2", "b01f_01io->b01f"),
    "padded and strided": convolution(
        ("2,9,8,3", "3,3,3,5", "2,5,4,5"), "size=3x3 stride=2x2 pad=1_1x0_1", "b01f_01io->b01f"
    ),
    "features first": convolution(
        ("2,3,9,8", "5,3,3,2", "2,5,7,7"), "size=3x2", "bf01_oi01->bf01"
    ),
    "transposed": convolution(
        ("2,4,4,3", "3,3,5,3", "2,9,9,5"),
        "size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1",
        "b01f_01oi->b01f",
    ),
    "dilated": convolution(
        ("1,9,9,3", "3,3,3,8", "1,5,5,8"), "size=3x3 rhs_dilate=2x2", "b01f_01io->b01f"
    ),
    "negative padding": convolution(
        ("1,9,9,3", "3,3,3,8", "1,5,5,8"), "size=3x3 pad=-1_-1x-1_-1", "b01f_01io->b01f"
    ),
    "in groups": convolution(
        ("2,6,6,4", "3,3,2,16", "2,4,4,16"), "size=3x3", "b01f_01io->b01f",
        ", feature_group_count=2",
    ),
    "one dimension, bf16": convolution(
        ("2,9,3", "3,3,5", "2,7,5"), "size=3", "b0f_0io->b0f", types=("bf16",) * 3
    ),
    "three dimensions": convolution(
        ("1,4,5,6,2", "2,2,2,2,3", "1,3,4,5,3"), "size=2x2x2", "b012f_012io->b012f"
    ),
    "features in vectors, padded": convolution(
        ("2,6,5,8", "3,3,8,5", "2,6,5,5"), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f",
        types=("bf16",) * 3,
    ),
    "groups in vectors, dilated": convolution(
        ("2,5,6,8", "2,2,4,16", "2,10,12,16"), "size=2x2 pad=1_1x1_1 lhs_dilate=2x2",
        "b01f_01io->b01f", ", feature_group_count=2",
    ),
    "of single elements": convolution(
        ("2,4,5,3", "1,1,3,7", "2,4,5,7"), "size=1x1", "b01f_01io->b01f"
    ),
    "of single elements, features first": convolution(
        ("2,3,4,5", "7,3,1,1", "2,7,4,5"), "size=1x1", "bf01_oi01->bf01"
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "is_wide"),
    [("plain", False), ("features in vectors, padded", True), ("groups in vectors, dilated", True)],
)
def test_features_are_moved_together(name, is_wide):
    module = LibraryCalls(opcodes=WITHOUT_CUDNN).run(
        default_pipeline().run(parse_module(CONVOLUTIONS[name]))
    )
    (patches,) = [
        i
        for i in module.entry.instructions
        if i.opcode == "custom-call" and i["custom_call_target"] == PATCHES
    ]
    b = HloBuilder("alone")
    x = b.parameter(patches.operands[0].shape)
    spec = KernelSpec("k", b.build(b.op(patches.opcode, x, shape=patches.shape, **patches.attrs)))
    text, _ = nvptx.kernel_text(emit_thread_function(spec, nvptx.TARGET))
    ptx = nvptx.ptx_of("k", text, "sm_90a")
    assert ("ld.global.nc.v4.b32" in ptx) == is_wide
    assert ("st.global.v4.b32" in ptx) == is_wide


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, emulated):
    check(CONVOLUTIONS[name], emulated, Matmul)


def targets(text):
    module = LibraryCalls(opcodes=WITHOUT_CUDNN).run(default_pipeline().run(parse_module(text)))
    return [i["custom_call_target"] for i in module.entry.instructions if i.opcode == "custom-call"]


def test_single_elements_need_no_patches():
    assert PATCHES in targets(CONVOLUTIONS["plain"])
    assert PATCHES not in targets(CONVOLUTIONS["of single elements"])


@pytest.mark.parametrize(
    "text",
    [
        convolution(
            ("2,6,6,4", "3,3,1,4", "2,4,4,4"), "size=3x3", "b01f_01io->b01f",
            ", feature_group_count=4",
        ),
        convolution(
            ("2,9,8,3", "3,2,3,5", "2,7,7,5"), "size=3x2", "b01f_01io->b01f",
            types=("s32",) * 3,
        ),
        convolution(
            ("4,6,6,3", "3,3,3,4", "2,4,4,4"), "size=3x3", "b01f_01io->b01f",
            ", batch_group_count=2",
        ),
    ],
)  # fmt: skip
def test_others_are_summed_by_their_own_kernel(text, emulated):
    assert called(text) == []


def test_a_convolution_takes_its_bias_along(emulated):
    more = """
  b = f32[5] parameter(2)
  wide = f32[2,7,7,5] broadcast(b), dimensions={3}
  s = f32[2,7,7,5] add(c, wide)
  z = f32[] constant(0)
  zeros = f32[2,7,7,5] broadcast(z), dimensions={}
  ROOT r = f32[2,7,7,5] maximum(s, zeros)
}"""
    text = CONVOLUTIONS["plain"].replace("ROOT r", "c").replace("\n}", more)
    assert [call.epilogue for call in called(text)] == ["RELU_BIAS"]
    check(text, emulated, Matmul)


def test_patches_that_take_too_much_memory(monkeypatch):
    from xladev.platforms.cuda.libraries import convolution as module

    monkeypatch.setattr(module, "MOST_NBYTES", 1000)
    assert called(CONVOLUTIONS["plain"]) == []
