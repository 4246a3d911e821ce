"""Updates in place: only the slice is written, wherever it begins, in wide accesses."""

import numpy as np
import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.kernel import emit_stages
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

IN_PLACE = frozenset({(0, 0)})


def update(dims: str, part: str, dtype: str = "f32") -> str:
    """A slice of negated elements, written into a copy, so that the copy can be overwritten."""
    return f"""
ENTRY e {{
  x = {dtype}[{dims}] parameter(0)
  u = {dtype}[{part}] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  c = {dtype}[{dims}] copy(x)
  n = {dtype}[{part}] negate(u)
  ROOT s = {dtype}[{dims}] dynamic-update-slice(c, n, i, j)
}}"""


PLAIN = """
ENTRY e {
  x = f32[1024,256] parameter(0)
  u = f32[1,256] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  ROOT s = f32[1024,256] dynamic-update-slice(x, u, i, z)
}"""


@pytest.mark.parametrize(
    ("dims", "part", "dtype"),
    [("9,8", "3,8", "f32"), ("9,9", "2,4", "f32"), ("20,16", "1,16", "bf16"), ("7,5", "7,1", "s4"),
     ("6,4", "6,4", "c64"), ("6,4", "0,4", "f32"), ("8,6", "2,6", "pred")],
)  # fmt: skip
def test_slices_are_updated(dims, part, dtype, emulated):
    text = update(dims, part, dtype)
    module = parse_module(text if dtype != "pred" else text.replace("negate", "not"))
    x, u, _, _ = random_arguments(module, 0)
    for i, j in ((0, 0), (1, 3), (-5, 2**31 - 1)):
        arguments = (x, u, np.int32(i), np.int32(j))
        strict = CompileOptions(strict=True)
        assert compare_with_evaluator(module, arguments, emulated, strict) is None


def test_only_the_slice_has_threads():
    spec = KernelSpec("kernel", parse_module(PLAIN).entry, IN_PLACE)
    assert kind_of(spec).name == "update in place"
    (thread,) = emit_stages(spec, nvptx.TARGET)
    assert thread.dimensions.grid == (1, 1, 1)
    text, _ = nvptx.kernel_text(thread)
    ptx = nvptx.ptx_of("kernel", text, "sm_90a")
    assert "st.global.v4.b32" in ptx


def test_elsewhere_it_is_a_loop():
    assert kind_of(KernelSpec("kernel", parse_module(PLAIN).entry)).name == "loop"
