"""What tiles of depthwise convolutions fetch ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import xladev
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits


def depthwise(batch: int, size: int) -> HloModule:
    return parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{batch},{size},{size},40] parameter(0)  w = f32[3,3,1,40] parameter(1)
      ROOT y = convolution(x, w), window={{size=3x3 stride=2x2 pad=1_1x1_1}},
        dim_labels=b01f_01io->b01f, feature_group_count=40 }}""")


@pytest.mark.parametrize(("size", "positions"), [(128, 4), (32, 0)])
def test_positions_that_see_new_pixels_are_fetched_where_the_base_is_large(
    size: int, positions: int
) -> None:
    builder = ModuleBuilder("m", replace(target_traits(), vector_nbytes=64))
    emit_kernel(builder, KernelSpec("kernel", depthwise(1, size).entry))
    text = str(builder)
    (table,) = [
        line for line in text.splitlines() if line.startswith("@xladev.table.kernel.fetched")
    ]
    assert ("[i64 4, i64 5, i64 7, i64 8]" in table) == (positions > 0)
    (call,) = [line for line in text.splitlines() if "call void @xladev.channels." in line]
    assert f"ptr @xladev.table.kernel.fetched, i64 {positions}, " in call
    function = next(t for t in text.split("\ndefine ") if "@xladev.channels." in t.split("(")[0])
    assert "@llvm.prefetch" in function


def test_what_is_fetched_changes_no_bits() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((8, 61, 61, 40), np.float32)
    w = generator.standard_normal((3, 3, 1, 40), np.float32)
    together = xladev.compile(depthwise(8, 61), "cpu")(x, w)
    alone = xladev.compile(depthwise(1, 61), "cpu")
    for image, wanted in zip(x, np.asarray(together), strict=True):
        np.testing.assert_array_equal(np.asarray(alone(image[None], w))[0], wanted)
