"""Accumulations: along any dimension, both ways, in parts; planted bugs show."""

import re

import numpy as np
import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.emulation import host_code
from xladev.codegen.simt.emulation.host_threads import host_text
from xladev.codegen.simt.kernel import emit_stages
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.testing.differential import compare_with_evaluator, run_on_platform
from xladev.testing.random_inputs import random_arguments


def scan(
    dims: tuple[int, ...],
    axis: int,
    opcode: str = "add",
    dtype: str = "f32",
    init: str = "0",
    *,
    backwards: bool = False,
) -> str:
    """An accumulation of the negated elements."""
    text = ",".join(map(str, dims))
    size = dims[axis]
    pads = [["0_0"] * len(dims), ["1"] * len(dims)]
    pads[0][axis] = f"0_{size - 1}" if backwards else f"{size - 1}_0"
    pads[1][axis] = str(size)
    return f"""
apply {{ x = {dtype}[] parameter(0)
  y = {dtype}[] parameter(1)
  ROOT r = {dtype}[] {opcode}(x, y) }}
ENTRY e {{
  x = {dtype}[{text}] parameter(0)
  y = {dtype}[{text}] {"not" if dtype == "pred" else "negate"}(x)
  z = {dtype}[] constant({init})
  ROOT s = {dtype}[{text}] reduce-window(y, z), to_apply=apply,
    window={{size={"x".join(pads[1])} pad={"x".join(pads[0])}}}
}}"""


CASES = {
    "rows shorter than a tile": scan((5, 300), 1),
    "rows of some tiles": scan((3, 2500), 1),
    "rows of odd length": scan((3, 2501), 1),
    "backwards": scan((3, 2100), 1, backwards=True),
    "columns": scan((100, 7), 0),
    "middle, backwards": scan((3, 100, 7), 1, backwards=True),
    "products of f64": scan((2, 600), 1, "multiply", "f64", "1"),
    "maxima of s8": scan((2, 4100), 1, "maximum", "s8", "-128"),
    "sums of bf16": scan((2, 900), 1, dtype="bf16"),
    "minima of s64": scan((2, 700), 1, "minimum", "s64", str(2**63 - 1)),
    "or": scan((2, 700), 1, "or", "pred", "false"),
    "parts": scan((40000,), 0),
    "parts of rows, of odd length": scan((2, 30001), 1, "add", "s32"),
    "parts, backwards": scan((2, 30001), 1, "maximum", "s32", str(-(2**31)), backwards=True),
    "hundreds of parts": scan((1100000,), 0, "add", "s32"),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_are_accumulated(name, emulated):
    module = parse_module(CASES[name])
    kind = kind_of(KernelSpec("kernel", module.entry))
    assert kind.name == ("scan in parts" if "parts" in name else "scan")
    if "parts" in name or "tiles" in name:
        x = np.random.default_rng(0).integers(-9, 9, module.entry.parameters[0].shape.dims)
        arguments = [x.astype(module.entry.parameters[0].shape.element_type.numpy)]
    else:
        arguments = random_arguments(module, 0)
    if "hundreds" in name:
        (found,) = run_on_platform(module, arguments, emulated)
        assert np.array_equal(found, np.cumsum(-arguments[0], dtype=np.int32))
        return
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize(
    "text",
    [scan((5, 63), 1), scan((5, 80), 1, init="1"), scan((5, 80), 1, "subtract")],
    ids=["short", "not from nothing", "in order"],
)
def test_other_windows_are_loops(text):
    assert kind_of(KernelSpec("kernel", parse_module(text).entry)).name == "loop"


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_launches_assemble_without_spills(stage, assembled):
    found = assembled(CASES["parts"], stage=stage)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 48


def test_neighbours_are_read_and_written_together():
    ptx = ptx_of(scan((4, 4096), 1))
    assert "ld.global.nc.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx
    assert ptx.count("shfl.sync.bfly") == 5


WAIT = re.compile(
    r"  store i32 1, ptr %coro\.state\n  %wait\d+ = .*\n  switch .* label (%after\d+) i8 1.*\n"
)


def run(edit) -> np.ndarray:
    """Accumulates 0, 1, 2... by the kernel with its text edited."""
    text = scan((4096,), 0).replace("negate", "copy")
    spec = KernelSpec("scan", parse_module(text).entry)
    (thread,) = emit_stages(spec, nvptx.emulated_target())
    device = EmulatedDriver(0).open(0)
    text = edit(host_text(thread, nvptx.emulated_target()))
    code = host_code.host_image("scan", text, thread.nbytes)
    x, r = device.allocate(4096 * 4), device.allocate(4096 * 4)
    device.copy_to_device(x.address, np.arange(4096, dtype=np.float32).view(np.uint8))
    stream = device.create_stream()
    stream.launch(device.load(code, "scan"), thread.dimensions, [x.address, r.address])
    stream.record().synchronize()
    found = np.empty(4096 * 4, np.uint8)
    device.copy_to_host(found, r.address)
    return found.view(np.float32)


def test_missing_barriers_and_wrong_masks_are_caught():
    want = np.cumsum(np.arange(4096)).tolist()
    assert run(lambda text: text).tolist() == want
    assert run(lambda text: WAIT.sub(r"  br label \1\n", text)).tolist() != want
    assert run(lambda text: text.replace("i32 16)", "i32 8)")).tolist() != want
