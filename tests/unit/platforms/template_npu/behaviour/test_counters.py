"""Deterministic counters: what is moved, and that fusion and double-buffering pay."""

import numpy as np
import pytest

from benchmarks.npu_counters import PAGE, line, measure, nbytes, program_counters
from benchmarks.npu_programs import LEAST_NBYTES, PROGRAMS
from xladev.client import compile
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.compiler.options import CompileOptions
from xladev.errors import ExecutionError
from xladev.hlo.text import parse_module
from xladev.platforms.template_npu import plugin
from xladev.platforms.template_npu.device.assembler import assemble
from xladev.platforms.template_npu.device.timing import Counters
from xladev.runtime.registry import Registry, using_registry

STRICT = CompileOptions().with_option("strict")
DENSE = parse_module("""HloModule dense
ENTRY e {
  x = f32[256,256] parameter(0)  w = f32[256,256] parameter(1)  b = f32[256] parameter(2)
  d = f32[256,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[256,256] broadcast(b), dimensions={1}  s = f32[256,256] add(d, bb)
  ROOT t = f32[256,256] tanh(s)
}""")
LONG = parse_module("""HloModule long
ENTRY e { x = f32[6553600] parameter(0)  y = f32[6553600] multiply(x, x)
  ROOT z = f32[6553600] exponential(y) }""")


@pytest.fixture(autouse=True)
def registry():
    registry = Registry(find=lambda: ())
    registry.register(plugin.xladev_platforms())
    with using_registry(registry):
        yield registry


def counters(registry, module, *arguments, options=STRICT) -> Counters:
    """What one run does; the device counts all runs."""
    program = compile(module, "template_npu", options)
    executor = registry.device("npu:0").executor
    before = executor.counters()
    assert np.isfinite(np.asarray(program(*arguments))).all()
    after = executor.counters()
    return Counters(
        after.cycles - before.cycles,
        tuple(a - b for a, b in zip(after.busy, before.busy, strict=True)),
        after.instructions - before.instructions,
        after.loaded_nbytes - before.loaded_nbytes,
        after.stored_nbytes - before.stored_nbytes,
        after.multiply_adds - before.multiply_adds,
    )


def dense_arguments():
    return (
        np.ones((256, 256), np.float32),
        np.ones((256, 256), np.float32),
        np.ones(256, np.float32),
    )


def test_an_epilogue_saves_the_way_to_memory_and_back(registry):
    fused = counters(registry, DENSE, *dense_arguments())
    apart = counters(
        registry, DENSE, *dense_arguments(), options=STRICT.with_option("fusion=false")
    )
    assert fused.multiply_adds == apart.multiply_adds == 256**3
    assert fused.stored_nbytes == 256 * 256 * 4  # the result, once
    assert apart.stored_nbytes >= 3 * 256 * 256 * 4
    assert fused.cycles < apart.cycles


def test_a_long_array_is_read_once_and_written_once(registry):
    found = counters(registry, LONG, np.zeros(6553600, np.float32))
    assert found.loaded_nbytes == found.stored_nbytes == 4 * 6553600
    assert found.occupancy["load"] > 0.5


def test_double_buffering_pays(registry):
    argument = np.zeros(6553600, np.float32)
    double = counters(registry, LONG, argument)
    off = STRICT.with_option("template_npu.double_buffer=false")
    single = counters(registry, LONG, argument, options=off)
    assert double.cycles < 0.8 * single.cycles


def test_counters_are_deterministic(registry):
    runs = [counters(registry, DENSE, *dense_arguments()) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_fault_poisons_its_event_and_names_the_instruction(registry):
    executor = registry.device("npu:0").executor
    code = assemble("fill.f32 (1,1,1,1)\nunary.neg.f32 (1,1,1,1) src0=64:[0,0,0,0]")
    stream = executor.create_stream()
    executor.launch_kernel(
        stream, executor.load_kernel(KernelCode("k", code)), (), LaunchDimensions()
    )
    failed, later = stream.record(), stream.record()
    assert later.wait(10)
    error = failed.error()
    assert isinstance(error, ExecutionError)
    assert error.code == "NPU_UNINITIALIZED"
    assert "instruction 1: unary.neg.f32" in str(error)
    assert later.error() is None


# What is known of a list without running it

MOST_RATIO = {
    "dense layer, square": 1.4,
    "dense layer, many rows": 1.21,
    "dense layer, bf16": 1.9,
    "convolution 3x3, bias, relu": 3.7,
    "softmax": 3.01,
    "layer norm": 3.01,
}
"""Bytes moved over the least possible; 1 where none is given. docs/reference/npu-counters.md
says why."""


def test_what_is_known_of_a_list_is_what_a_run_does(registry):
    arguments = dense_arguments()
    assert counters(registry, DENSE, *arguments) == program_counters(DENSE, STRICT)


@pytest.mark.rotating
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_a_hundred_scratchpads(name):
    found = measure(name, PROGRAMS[name])
    module = PROGRAMS[name].module("m")
    shapes = [i.shape for i in module.entry.instructions if i.shape.is_array]
    assert max(s.nbytes for s in shapes) >= LEAST_NBYTES
    assert 1 <= found.ratio <= MOST_RATIO.get(name, 1.001)
    apart, single = found.off
    assert nbytes(apart) >= found.moved_nbytes
    assert apart.cycles >= found.full.cycles
    assert single.cycles > found.full.cycles
    assert line(found) in PAGE.read_text("utf-8"), "python -m benchmarks.npu_counters --write"


def test_a_layer_of_a_hundred_scratchpads_is_right(registry):
    program = compile(PROGRAMS["dense layer, many rows"].module("m"), "template_npu", STRICT)
    draw = np.random.default_rng(0)
    x, w, b = (draw.standard_normal(s, np.float32) for s in ((102400, 64), (64, 64), (64,)))
    np.testing.assert_allclose(program(x, w, b), np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-4)
