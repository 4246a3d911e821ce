"""Scatter and select-and-scatter: all ways of doing it, in place and not, the same on every run."""

import re

import numpy as np
import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.atomics import OPERATIONS
from xladev.codegen.simt.emulation import host_code
from xladev.codegen.simt.emulation.host_threads import host_text
from xladev.codegen.simt.kernel import emit_stages
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments


def scatter(dtype: str, body: str, extra: str = "") -> str:
    """Rows of 5 written to 40 places among 7, so that most meet."""
    return f"""
apply {{ x = {dtype}[] parameter(0)
  y = {dtype}[] parameter(1)
  ROOT r = {dtype}[] {body} }}
ENTRY e {{
  x = {dtype}[7,5] parameter(0)
  i = s32[40,1] parameter(1)
  u = {dtype}[40,5] parameter(2)
  ROOT s = {dtype}[7,5] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=apply{extra}
}}"""


SLICE = """
apply { x = f32[] parameter(0)
  ROOT y = f32[] parameter(1) }
ENTRY e {
  x = f32[9,8] parameter(0)
  i = s32[2] parameter(1)
  u = f32[3,4] parameter(2)
  ROOT s = f32[9,8] scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=apply
}"""

SELECT = """
ge { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=GE }
plus { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
ENTRY e {
  x = f32[2,9,10] parameter(0)
  u = f32[2,4,4] parameter(1)
  z = f32[] constant(0.5)
  ROOT s = f32[2,9,10] select-and-scatter(x, u, z),
    window={size=1x3x4 stride=1x2x2 pad=0_0x0_0x0_0}, select=ge, scatter=plus
}"""


def many(dtype: str, body: str) -> str:
    """Rows of 3 written to 3000 places among 90, and single elements to others."""
    return f"""
apply {{ x = {dtype}[] parameter(0)
  y = {dtype}[] parameter(1)
  ROOT r = {dtype}[] {body} }}
ENTRY e {{
  x = {dtype}[9,10,3] parameter(0)
  i = s32[50,2,60] parameter(1)
  u = {dtype}[50,3,60] parameter(2)
  n = {dtype}[50,3,60] negate(u)
  ROOT s = {dtype}[9,10,3] scatter(x, i, n), update_window_dims={{1}}, inserted_window_dims={{0,1}},
    scatter_dims_to_operand_dims={{1,0}}, index_vector_dim=1, to_apply=apply
}}"""


ROWS = """
apply { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
ENTRY e {
  x = f32[50,8] parameter(0)
  i = s32[3,7] parameter(1)
  u = f32[3,7,8] parameter(2)
  h = f32[] constant(-0.125)
  b = f32[3,7,8] broadcast(h), dimensions={}
  m = f32[3,7,8] multiply(u, b)
  ROOT s = f32[50,8] scatter(x, i, m), update_window_dims={2}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=apply
}"""

KINDS = {
    "rows, of which LLVM makes vectors of threads": (ROWS, "scatter by location"),
    "many sums": (many("f32", "add(x, y)"), "scatter in order"),
    "many sums of bf16": (many("bf16", "add(x, y)"), "scatter in order"),
    "many, the last one stays": (many("s8", "copy(y)"), "scatter in order"),
    "many differences": (many("c64", "subtract(x, y)"), "scatter in order"),
    "sums of floats": (scatter("f32", "add(x, y)"), "scatter by location"),
    "sums of bf16": (scatter("bf16", "add(x, y)"), "scatter by location"),
    "the last one stays": (scatter("s32", "copy(y)"), "scatter by location"),
    "sums of integers": (scatter("s32", "add(x, y)"), "scatter by atomics"),
    "maxima of u64": (scatter("u64", "maximum(x, y)"), "scatter by atomics"),
    "minima of s64": (scatter("s64", "minimum(x, y)"), "scatter by atomics"),
    "maxima of s32": (scatter("s32", "maximum(x, y)"), "scatter by atomics"),
    "one window": (SLICE, "scatter of apart"),
    "selected": (SELECT, "select and scatter"),
}


def stages(text: str, *, in_place: bool):
    pairs = frozenset({(0, 0)}) if in_place else frozenset()
    spec = KernelSpec("kernel", parse_module(text).entry, pairs)
    return spec, emit_stages(spec, nvptx.emulated_target())


@pytest.mark.parametrize("name", KINDS)
def test_results_are_the_evaluators(name, emulated):
    text, kind = KINDS[name]
    module = parse_module(text)
    assert kind_of(KernelSpec("kernel", module.entry)).name == kind
    for seed in range(3):
        arguments = random_arguments(module, seed)
        strict = CompileOptions(strict=True)
        assert compare_with_evaluator(module, arguments, emulated, strict) is None


def test_windows_that_do_not_fit_change_nothing(emulated):
    module = parse_module(scatter("s32", "add(x, y)"))
    x, _, u = random_arguments(module, 0)
    i = np.array([[-1], [7], [3], [2**31 - 1], [-(2**31)]] * 8, np.int32)
    assert compare_with_evaluator(module, (x, i, u), emulated, CompileOptions(strict=True)) is None


@pytest.mark.parametrize("name", ["sums of integers", "one window"])
def test_in_place_nothing_is_copied(name):
    text, _ = KINDS[name]
    assert len(stages(text, in_place=False)[1]) == 2
    assert len(stages(text, in_place=True)[1]) == 1


def run_in_place(edit) -> tuple[list[int], str]:
    """Adds 1 to place 3 forty times, by the kernel with its text edited, and why it failed."""
    spec, (thread,) = stages(scatter("s32", "add(x, y)").replace(",5]", ",1]"), in_place=True)
    device = EmulatedDriver(0).open(0)
    text = edit(host_text(thread, nvptx.emulated_target()))
    code = host_code.host_image(spec.name, text, thread.nbytes)
    x, i, u = (device.allocate(n) for n in (28, 160, 160))
    for memory, data in ((x, np.zeros(7)), (i, np.full(40, 3)), (u, np.ones(40))):
        device.copy_to_device(memory.address, data.astype(np.int32).view(np.uint8))
    stream = device.create_stream()
    addresses = [m.address for m in (x, i, u, x)]
    stream.launch(device.load(code, spec.name), thread.dimensions, addresses)
    event = stream.record()
    event.synchronize()
    found = np.empty(28, np.uint8)
    device.copy_to_host(found, x.address)
    return found.view(np.int32).tolist(), str(event.failure() or "")


def test_atomic_updates_in_place():
    assert run_in_place(lambda text: text) == ([0, 0, 0, 40, 0, 0, 0], "")


def test_atomic_updates_have_bounds():
    found, failure = run_in_place(lambda text: re.sub(r"i64 28, i64 3\)", "i64 8, i64 3)", text))
    assert "40 accesses out of bounds" in failure
    assert found == [0] * 7


def test_a_gpu_updates_in_one_step(assembled):
    text = scatter("s32", "add(x, y)")
    ptx = ptx_of(text, stage=1)
    assert re.search(r"(atom|red)\.\S*global\S*\.add\.(u32|s32)", ptx)
    assert assembled(text, stage=1).spill_nbytes == 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_operations_assemble(operation, assembled):
    names = {"max": "maximum", "min": "minimum", "umax": "maximum", "umin": "minimum"}
    kind = "u" if operation.startswith("u") else "s"
    for bits in (32, 64):
        text = scatter(f"{kind}{bits}", f"{names.get(operation, operation)}(x, y)")
        found = assembled(text, stage=1)
        assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)


@pytest.mark.parametrize("stage", [0, 1, 2, 3, 4])
def test_scatters_in_order_assemble_without_spills(stage, assembled):
    found = assembled(KINDS["many sums"][0], stage=stage)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 64


@pytest.mark.parametrize("name", ["sums of floats", "selected"])
def test_others_assemble_without_spills(name, assembled):
    found = assembled(KINDS[name][0])
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 64
