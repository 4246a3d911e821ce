"""Programs on ``cuda_emu``, by generated kernels, against the evaluator."""

import subprocess
import sys

import numpy as np
import pytest

import xladev
from tests.tools.ended_work import call_in_ended_work
from tests.unit.loops import around, counted
from xladev.compiler.options import CompileOptions
from xladev.errors import DeviceError, InterruptionError
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.driver.cupy_driver import CupyDriver
from xladev.runtime.registry import current_registry
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

PROGRAMS = {
    "vectors and what is left of them": """
ENTRY e {
  x = f32[1003] parameter(0)
  y = f32[1003] parameter(1)
  s = f32[1003] add(x, y)
  ROOT r = f32[1003] exponential(s)
}""",
    "rows, columns and scalars": """
ENTRY e {
  x = bf16[24,40] parameter(0)
  r = bf16[40] parameter(1)
  c = bf16[24] parameter(2)
  k = bf16[] constant(3)
  rb = bf16[24,40] broadcast(r), dimensions={1}
  cb = bf16[24,40] broadcast(c), dimensions={0}
  kb = bf16[24,40] broadcast(k), dimensions={}
  a = bf16[24,40] multiply(x, rb)
  b = bf16[24,40] add(a, cb)
  ROOT o = bf16[24,40] maximum(b, kb)
}""",
    "a transpose, a slice, and a concatenation": """
ENTRY e {
  x = s32[6,10] parameter(0)
  t = s32[10,6] transpose(x), dimensions={1,0}
  s = s32[4,6] slice(t), slice={[2:6], [0:6]}
  ROOT c = s32[14,6] concatenate(t, s), dimensions={0}
}""",
    "several results of different dimensions": """
ENTRY e {
  x = f32[64] parameter(0)
  a = f32[64] negate(x)
  b = f32[8,8] reshape(a)
  c = pred[64] compare(a, x), direction=LT
  i = f32[64] iota(), iota_dimension=0
  d = f32[64] select(c, i, x)
  ROOT t = (f32[8,8], pred[64], f32[64]) tuple(b, c, d)
}""",
    "reductions, of one and of several operands": """
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }
both { a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  m = f32[] maximum(a, c)
  n = s32[] add(b, d)
  ROOT r = (f32[], s32[]) tuple(m, n) }
ENTRY e {
  x = f32[16,33] parameter(0)
  y = s32[16,33] parameter(1)
  z = f32[] constant(0)
  n = s32[] constant(0)
  s = f32[16] reduce(x, z), dimensions={1}, to_apply=add
  v = (f32[33], s32[33]) reduce(x, y, z, n), dimensions={0}, to_apply=both
  ROOT t = (f32[16], (f32[33], s32[33])) tuple(s, v)
}""",
    "nothing at all": """
ENTRY e {
  x = f32[0,4] parameter(0)
  ROOT r = f32[0,4] negate(x)
}""",
    "complex and narrow numbers": """
ENTRY e {
  x = c64[77] parameter(0)
  y = f8e4m3fn[77] parameter(1)
  z = s4[77] parameter(2)
  a = c64[77] exponential(x)
  b = f8e4m3fn[77] add(y, y)
  c = s4[77] multiply(z, z)
  ROOT t = (c64[77], f8e4m3fn[77], s4[77]) tuple(a, b, c)
}""",
    "a loop": counted("f32[40]", "y = f32[40] tanh(x)", 5) + around("f32[40]"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_without_fallback(name, emulated):
    module = parse_module(PROGRAMS[name])
    arguments = random_arguments(module, 0)
    strict = CompileOptions(strict=True)
    assert compare_with_evaluator(module, arguments, emulated, strict) is None


def test_what_has_no_kernel_runs_on_the_host(emulated):
    text = """
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[50] parameter(0)
  n = f32[50] negate(x)
  ROOT s = f32[50] sort(n), dimensions={0}, to_apply=less
}"""
    module = parse_module(text)
    assert compare_with_evaluator(module, random_arguments(module, 0), emulated) is None


def test_the_emulator_shows_on_request_only(emulated):
    from xladev.platforms.cuda.platform import CudaEmulationPlatform

    platform = CudaEmulationPlatform()
    assert platform.visible_device_count() == 0
    assert platform.provide_devices(2) == 2
    assert platform.visible_device_count() == 2


@pytest.mark.skipif(CupyDriver().device_count() > 0, reason="there is a GPU")
def test_without_a_gpu_the_reason_is_said(emulated):
    platform = current_registry().platform("cuda")
    assert platform.visible_count() == 0
    assert "CuPy" in platform.platform.version()
    with pytest.raises(DeviceError, match="no CUDA device"):
        platform.device(0)


def test_the_plugin_imports_neither_cupy_nor_llvm():
    code = (
        "import sys, xladev.platforms.cuda.plugin as p; p.xladev_platforms()\n"
        "print([m for m in ('cupy', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_arrays_come_back_from_the_device(emulated):
    device = current_registry().device(emulated)
    executor = device.executor
    memory = executor.allocate(100, alignment=512, memory_space=0)
    data = np.arange(100, dtype=np.uint8)
    executor.copy_to_device(memory, data)
    found = np.zeros(60, np.uint8)
    stream = executor.create_stream()
    stream.copy(found, memory.slice(40, 60))
    event = stream.record()
    assert event.wait(10)
    assert event.error() is None
    assert np.array_equal(found, data[40:])
    assert executor.memory_stats().allocations >= 1
    executor.deallocate(memory)


def test_loops_end_with_whoever_waits(emulated):
    """The SDK runs them: kernels are launched in each iteration."""
    text = """HloModule m
b { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1  one = s64[] constant(1)  j = s64[] add(i, one)
  y = f32[] sine(x)  ROOT t = (s64[], f32[]) tuple(j, y) }
c { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  n = s64[] constant(100000000000)  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[] parameter(0)  z = s64[] constant(0)  t = (s64[], f32[]) tuple(z, x)
  w = (s64[], f32[]) while(t), condition=c, body=b
  ROOT r = f32[] get-tuple-element(w), index=1 }"""
    run = xladev.compile(parse_module(text), emulated)
    result = call_in_ended_work(lambda: run(np.float32(0.5)))
    with pytest.raises(InterruptionError):
        np.asarray(result)
