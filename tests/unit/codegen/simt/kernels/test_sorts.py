"""Sorts: short rows, tiles, several launches; stable, with any comparator; planted bugs show."""

import re

import numpy as np
import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.emulation import host_code
from xladev.codegen.simt.emulation.host_threads import host_text
from xladev.codegen.simt.kernel import emit_stages
from xladev.codegen.simt.kernels.sorts import RowSort
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.codegen.kinds import MACHINE, kind_of
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.testing.differential import compare_with_evaluator, run_on_platform
from xladev.testing.random_inputs import random_arguments


def sort(dims: str, axis: int = 0, dtype: str = "f32", direction: str = "LT") -> str:
    """A sort by one array."""
    compare = f"compare(x, y), direction={direction}"
    if dtype[0] in "fb":
        compare += ", type=TOTALORDER"
    return f"""
less {{ x = {dtype}[] parameter(0)
  y = {dtype}[] parameter(1)
  ROOT r = pred[] {compare} }}
ENTRY e {{
  x = {dtype}[{dims}] parameter(0)
  ROOT s = {dtype}[{dims}] sort(x), dimensions={{{axis}}}, to_apply=less
}}"""


def pairs(dims: str, axis: int) -> str:
    """Remainders, which are often equal, with what they came from; and numbers of another type."""
    return f"""
less {{ a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  m = bf16[] parameter(4)
  n = bf16[] parameter(5)
  seven = s32[] constant(7)
  p = s32[] remainder(a, seven)
  q = s32[] remainder(b, seven)
  ROOT r = pred[] compare(p, q), direction=LT }}
ENTRY e {{
  x = s32[{dims}] parameter(0)
  y = f32[{dims}] parameter(1)
  z = bf16[{dims}] parameter(2)
  w = f32[{dims}] negate(y)
  ROOT s = (s32[{dims}], f32[{dims}], bf16[{dims}]) sort(x, w, z), dimensions={{{axis}}},
    is_stable=true, to_apply=less
}}"""


CASES = {
    "several short rows in a block": sort("50,7", 1),
    "columns": sort("33,20", 0),
    "rows of one element": sort("5,1", 1, "s8"),
    "one tile": sort("2,1500", 1, direction="GT"),
    "exactly one tile": sort("2048", 0, "u8"),
    "one more than a tile": sort("2,2049", 1),
    "three tiles": sort("6000", 0, "s32"),
    "five tiles of wide elements": sort("2,5100", 1, "f64"),
    "middle": sort("3,700,2", 1, "f16"),
    "equal keys keep their order": pairs("3,900", 1),
    "equal keys in several tiles": pairs("5000", 0),
    "no elements": sort("0,3", 1),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_are_sorted(name, emulated):
    module = parse_module(CASES[name])
    arguments = random_arguments(module, 0)
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


@pytest.mark.parametrize(
    ("name", "launches"),
    [("columns", 1), ("exactly one tile", 1), ("one more than a tile", 2), ("three tiles", 3)],
)
def test_launches_double_the_runs(name, launches):
    spec = KernelSpec("kernel", parse_module(CASES[name]).entry)
    kind = kind_of(spec)
    assert (kind.name, len(kind.stages)) == ("sort", launches)
    assert (kind.workspace_nbytes > 0) == (launches > 1)


def test_many_operands_have_small_tiles():
    dims = "c128[9]"
    names = [f"x{n}" for n in range(40)]
    text = f"""
less {{ {" ".join(f"p{n} = c128[] parameter({n})" for n in range(80))}
  a = f64[] real(p0)
  b = f64[] real(p1)
  ROOT r = pred[] compare(a, b), direction=LT }}
ENTRY e {{ {" ".join(f"{x} = {dims} parameter({n})" for n, x in enumerate(names))}
  ROOT s = ({", ".join([dims] * 40)}) sort({", ".join(names)}), dimensions={{0}},
    to_apply=less }}"""
    root = parse_module(re.sub(r"(parameter\(\d+\)) ", r"\1\n", text)).entry.root
    rows = RowSort(root, MACHINE.shared_nbytes)
    assert rows.tile == 32
    assert rows.tile * 2 * 40 * 16 <= 48 << 10


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("name", ["three tiles", "equal keys in several tiles"])
def test_launches_assemble_without_spills(name, stage, assembled):
    found = assembled(CASES[name], stage=stage)
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 64
    assert found.shared_nbytes <= 48 << 10


def test_a_tile_waits_in_a_loop():
    spec = KernelSpec("kernel", parse_module(CASES["one tile"]).entry)
    text, _ = nvptx.kernel_text(emit_stages(spec, nvptx.TARGET)[0])
    ptx = nvptx.ptx_of("kernel", text, "sm_90a")
    assert len(re.findall(r"\tbar(?:rier)?\.", ptx)) == 2


WAIT = re.compile(
    r"  store i32 1, ptr %coro\.state\n  %wait\d+ = .*\n  switch .* label (%after\d+) i8 1.*\n"
)


def run(edit) -> tuple[np.ndarray, str]:
    """Sorts 1500 descending numbers by the kernel with its text edited, and why it failed."""
    spec = KernelSpec("sort", parse_module(sort("1500")).entry)
    (thread,) = emit_stages(spec, nvptx.emulated_target())
    device = EmulatedDriver(0).open(0)
    text = edit(host_text(thread, nvptx.emulated_target()))
    code = host_code.host_image("sort", text, thread.nbytes)
    x, r = device.allocate(6000), device.allocate(6000)
    data = np.arange(1500, 0, -1, dtype=np.float32)
    device.copy_to_device(x.address, data.view(np.uint8))
    stream = device.create_stream()
    stream.launch(device.load(code, "sort"), thread.dimensions, [x.address, r.address])
    event = stream.record()
    event.synchronize()
    found = np.empty(6000, np.uint8)
    device.copy_to_host(found, r.address)
    return found.view(np.float32), str(event.failure() or "")


def test_missing_barriers_are_caught():
    found, failure = run(lambda text: text)
    assert (found.tolist(), failure) == (list(range(1, 1501)), "")
    found, _ = run(lambda text: WAIT.sub(r"  br label \1\n", text))
    assert found.tolist() != list(range(1, 1501))


def test_nans_come_last_in_total_order(emulated):
    module = parse_module(sort("3000"))
    data = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    data[::7], data[3] = np.nan, -np.nan
    (found,) = run_on_platform(module, [data], emulated)
    assert np.isnan(found[0])
    assert np.isnan(found[-429:]).sum() >= 428
    assert (np.diff(found[~np.isnan(found)]) >= 0).all()
