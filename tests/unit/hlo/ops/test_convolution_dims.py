"""Attributes of convolutions: groups, and windows of single elements."""

from __future__ import annotations

from xladev.hlo.attributes import WindowDim
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims
from xladev.hlo.text import parse_module

HEAD = "HloModule m\n"


def root(text: str) -> HloInstruction:
    return parse_module(f"{HEAD}ENTRY e {{ {text} }}").entry.root


def test_a_convolution_in_groups() -> None:
    i = root(
        """x = f32[2,8,8,6] parameter(0)  k = f32[3,3,2,9] parameter(1)
        ROOT r = f32[2,6,6,9] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f,
          feature_group_count=3"""
    )
    c = ConvolutionDims.of(i)
    assert (c.feature_groups, c.batch_groups, c.groups) == (3, 1, 3)
    assert c.window == (WindowDim(3), WindowDim(3))
    assert (c.labels.input_spatial, c.labels.kernel_output_feature) == ((1, 2), 3)
    assert not c.is_pointwise


def test_a_convolution_of_single_elements() -> None:
    text = """x = f32[2,8,6] parameter(0)  k = f32[1,6,9] parameter(1)
        ROOT r = f32[2,8,9] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f"""
    assert ConvolutionDims.of(root(text)).is_pointwise
    strided = text.replace("f32[2,8,9]", "f32[2,4,9]").replace("size=1", "size=1 stride=2")
    assert not ConvolutionDims.of(root(strided)).is_pointwise
