"""Where the lines of weights are that are asked for ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.narrow_streams import LINES, line_nbytes
from xladev.platforms.cpu.codegen.products.narrow_weights import narrow_weights_of
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits

WAYS = {
    "an argument": ("", "p = u8[2048,512] parameter(1)", 512),
    "one layer of three": (
        "",
        """a = u8[3,2048,512] parameter(1)  n = s32[] parameter(2)  z = s32[] constant(0)
      d = u8[1,2048,512] dynamic-slice(a, n, z, z), dynamic_slice_sizes={1,2048,512}
      p = u8[2048,512] reshape(d)""",
        512,
    ),
    "columns of longer lines": (
        "",
        """a = u8[2048,1536] parameter(1)
      p = u8[2048,512] slice(a), slice={[0:2048], [512:1024]}""",
        1536,
    ),
    "experts": ("4,", "p = u8[4,2048,512] parameter(1)", 512),
}


def product(batch: str, given: str) -> HloModule:
    """One row times 1024 columns of 4 bits, two in a byte."""
    dims = "lhs_batch_dims={0}, rhs_batch_dims={0}," if batch else ""
    axis = int(bool(batch))
    return parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{batch}1,2048] parameter(0)  {given}
      b = s4[{batch}2048,512,2] bitcast-convert(p)  c = f32[{batch}2048,512,2] convert(b)
      w = f32[{batch}2048,1024] reshape(c)
      ROOT r = f32[{batch}1,1024] dot(x, w), {dims}
        lhs_contracting_dims={{{axis + 1}}}, rhs_contracting_dims={{{axis}}} }}""")


@pytest.mark.parametrize("name", WAYS)
def test_the_next_lines_are_asked_for(name: str) -> None:
    batch, given, nbytes = WAYS[name]
    module = product(batch, given)
    plan = narrow_weights_of(module.entry.root)
    assert plan is not None
    assert line_nbytes(plan) == nbytes
    builder = ModuleBuilder("m", replace(target_traits(), vector_nbytes=64))
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    text = str(builder)
    assert "call void @llvm.prefetch" in text
    assert f", {LINES * nbytes}\n" in text
