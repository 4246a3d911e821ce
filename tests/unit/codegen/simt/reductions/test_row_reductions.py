"""Reductions of rows: right for all types, by shuffles and shared memory; planted bugs show."""

import re

import numpy as np
import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.emulation import host_code
from xladev.codegen.simt.emulation.host_threads import host_text
from xladev.codegen.simt.kernel import emit_thread_function
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.testing.differential import compare_with_evaluator, run_on_platform
from xladev.testing.random_inputs import random_arguments


def reduction(opcode: str, dtype: str, dims: str, kept: str, reduced: str, init: str = "0") -> str:
    """A reduce of the exponentials, or of the elements themselves where they have none."""
    return f"""
apply {{ x = {dtype}[] parameter(0)
  y = {dtype}[] parameter(1)
  ROOT r = {dtype}[] {opcode}(x, y) }}
ENTRY e {{
  x = {dtype}[{dims}] parameter(0)
  z = {dtype}[] constant({init})
  ROOT s = {dtype}[{kept}] reduce(x, z), dimensions={{{reduced}}}, to_apply=apply
}}"""


CASES = {
    "a warp per row": reduction("add", "f32", "9,2048", "9", "1"),
    "a block per row": reduction("add", "f32", "3,4100", "3", "1", "2"),
    "rows of several dimensions": reduction("maximum", "f32", "2,3,16,40", "2,3", "2,3"),
    "all of an array": reduction("add", "f32", "70,64", "", "0,1"),
    "sums of bf16": reduction("add", "bf16", "5,264", "5", "1"),
    "f16, of odd length": reduction("maximum", "f16", "5,333", "5", "1", "-1"),
    "64 bits in two halves": reduction("add", "f64", "4,3000", "4", "1"),
    "s64": reduction("minimum", "s64", "4,3000", "4", "1"),
    "s8": reduction("multiply", "s8", "7,80", "7", "1", "1"),
    "pred, in a block": reduction("and", "pred", "3,5000", "3", "1", "true"),
    "from a start that is given": reduction("add", "f32", "5,128", "5", "1").replace(
        "constant(0)", "parameter(1)"
    ),
    "four rows of a warp": reduction("add", "f32", "37,30", "37", "1"),
    "sixteen rows of a warp": reduction("maximum", "s16", "37,8", "37", "1"),
    "rows apart from one another": reduction("add", "f32", "6,4,7,16", "4,7", "0,3"),
    "parts of few rows": reduction("add", "f32", "2,20000", "2", "1", "3"),
    "parts of rows of odd length": reduction("minimum", "bf16", "3,9999", "3", "1", "1"),
    "parts of all of an array, of odd size": reduction("add", "f32", "101,301", "", "0,1", "1"),
    "parts of an array of f64": reduction("add", "f64", "30001", "", "0"),
    "more parts than one thread reduces": reduction("xor", "u32", "400,400", "", "0,1"),
    "s4": reduction("add", "s4", "3,96", "3", "1"),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_are_reduced(name, emulated):
    module = parse_module(CASES[name])
    assert kind_of(KernelSpec("kernel", module.entry)).name == "row reduction"
    strict = CompileOptions(strict=True)
    arguments = random_arguments(module, 0)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize(
    "text",
    [
        reduction("add", "f32", "7,64", "64", "0"),
        reduction("add", "f32", "8,7", "8", "1"),
        reduction("add", "c64", "8,60", "8", "1", "(0, 0)"),
    ],
    ids=["low columns", "short rows", "complex numbers"],
)
def test_other_reductions_are_loops(text):
    assert kind_of(KernelSpec("kernel", parse_module(text).entry)).name == "loop"


@pytest.mark.parametrize("stage", [0, 1])
def test_parts_assemble_without_spills(stage, assembled):
    found = assembled(CASES["parts of all of an array, of odd size"], stage=stage)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 48


def test_parts_give_the_same_bits_whatever_the_order(emulated):
    module = parse_module(CASES["parts of few rows"])
    arguments = random_arguments(module, 0)
    found = {run_on_platform(module, arguments, emulated)[0].tobytes() for _ in range(4)}
    assert len(found) == 1


@pytest.mark.parametrize("name", ["a warp per row", "a block per row", "sums of bf16"])
def test_they_assemble_without_spills(name, assembled):
    found = assembled(CASES[name])
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 48


def test_a_warp_reads_side_by_side_and_shuffles():
    ptx = ptx_of(CASES["a block per row"])
    assert "ld.global.nc.v4.b32" in ptx
    assert ptx.count("shfl.sync.bfly") == 8
    assert ptx.count("bar.sync") + ptx.count("barrier.sync") == 1
    assert "ld.shared" in ptx


BLOCK = CASES["a block per row"]
LENGTH = 4100


def run(edit, seed: int = 0) -> tuple[np.ndarray, str]:
    """Sums of rows of ones, by BLOCK with its neutral text edited, and why it failed."""
    thread = emit_thread_function(
        KernelSpec("sums", parse_module(BLOCK).entry), nvptx.emulated_target()
    )
    device = EmulatedDriver(seed).open(0)
    text = edit(host_text(thread, nvptx.emulated_target()))
    code = host_code.host_image("sums", text, thread.nbytes)
    x, z, r = (device.allocate(n) for n in (3 * LENGTH * 4, 4, 12))
    device.copy_to_device(x.address, np.ones(3 * LENGTH, np.float32).view(np.uint8))
    stream = device.create_stream()
    stream.launch(device.load(code, "sums"), thread.dimensions, [x.address, r.address])
    event = stream.record()
    event.synchronize()
    found = np.empty(12, np.uint8)
    device.copy_to_host(found, r.address)
    device.free(z)
    return found.view(np.float32), str(event.failure() or "")


def test_the_sums_are_right():
    found, failure = run(lambda text: text)
    assert failure == ""
    assert found.tolist() == [LENGTH + 2] * 3


WAIT = re.compile(
    r"  store i32 1, ptr %coro\.state\n  %wait\d+ = .*\n  switch .* label (%after\d+) i8 1.*\n"
)


@pytest.mark.parametrize("seed", range(4))
def test_a_missing_barrier_is_caught(seed):
    found, failure = run(lambda text: WAIT.sub(r"  br label \1\n", text), seed)
    assert "a race on byte" in failure
    assert found.tolist() != [LENGTH + 2] * 3


@pytest.mark.parametrize("seed", range(4))
def test_a_race_on_shared_memory_is_caught(seed):
    def edit(text: str) -> str:
        slot = re.search(r"%v\d+ = udiv i64 %v\d+, 32\n  (%v\d+) = mul i64 (%v\d+), 8\n", text)
        assert slot is not None
        return text.replace(
            f"{slot[1]} = mul i64 {slot[2]}, 8", f"{slot[1]} = mul i64 {slot[2]}, 0"
        )

    failure = run(edit, seed)[1]
    assert re.search(r"a race on byte 0 of shared memory .* threads \d+ and \d+ of block", failure)


def test_warps_run_in_an_order_of_the_seed():
    def edit(text: str) -> str:
        """Without its barrier a block reads slots that some warps have not filled yet."""
        return WAIT.sub(r"  br label \1\n", text)

    assert len({str(run(edit, seed)[0].tolist()) for seed in range(8)}) > 1


def test_a_wrong_shuffle_mask_is_caught():
    def edit(text: str) -> str:
        assert "i32 16)" in text
        return text.replace("i32 16)", "i32 8)")

    assert run(edit)[0].tolist() != [LENGTH + 2] * 3


def test_a_shuffle_between_warps_is_reported():
    failure = run(lambda text: text.replace("i32 16)", "i32 48)"))[1]
    assert "a shuffle with threads of another sub-group, in block" in failure


def test_a_barrier_that_some_threads_skip_is_reported():
    def edit(text: str) -> str:
        leads = re.search(r"(%v\d+) = icmp eq i64 %v\d+, 0\n  br i1 \1, label %then", text)
        assert leads is not None
        guard = f"  br i1 {leads[1]}, label %waits, label \\1\nwaits:\n"
        return WAIT.sub(lambda found: found.expand(guard) + found[0], text)

    assert "not all threads reach, in block" in run(edit)[1]


def test_shared_memory_has_bounds():
    _, failure = run(lambda text: text.replace("i64 64, i64 -1)", "i64 56, i64 -1)"))
    assert "of array -1" in failure
