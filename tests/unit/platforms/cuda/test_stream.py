"""Programs on several streams of ``cuda_emu``, whose streams run in any legal order."""

from dataclasses import replace

import numpy as np
import pytest

from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.compiler.plan.kernel_plan import Parallel
from xladev.compiler.plan.plan_file import read_plan
from xladev.compiler.streams.stream_waits import START
from xladev.errors import CompileError, ExecutionError
from xladev.hlo.text import parse_module
from xladev.instrument import collect_counters
from xladev.instrument.trace import tracing
from xladev.platforms.cuda.description import describe_target
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.platforms.cuda.driver.interface import DriverError
from xladev.platforms.cuda.stream import CudaStream
from xladev.runtime import stream_order
from xladev.runtime.launch import plan_executable

OPTIONS = CompileOptions(streams=4, fusion=False, strict=True)
STEPS = 6
RUNS = 12


@pytest.fixture(autouse=True)
def drained(emulated):
    """Work that a planted bug leaves behind must not run in the memory of the next test."""
    yield
    stream = client.devices(emulated)[0].stream
    for branch in stream.branches(stream.branch_count):
        branch.synchronize()


OPERATIONS = {
    "add": np.add,
    "multiply": np.multiply,
    "xor": np.bitwise_xor,
    "subtract": np.subtract,
    "maximum": np.maximum,
}


def opcode(chain, step):
    return list(OPERATIONS)[(chain * (step + 1) + step) % len(OPERATIONS)]


def chains(count):
    """Independent chains of operations, all of which the result needs."""
    lines, last = [], []
    for chain in range(count):
        before = "x"
        for step in range(STEPS):
            lines.append(f"c{chain}s{step} = s32[500] {opcode(chain, step)}({before}, y)")
            before = f"c{chain}s{step}"
        last.append(before)
    total, *others = last
    for number, other in enumerate(others):
        lines.append(f"sum{number} = s32[500] add({total}, {other})")
        total = f"sum{number}"
    body = "\n  ".join(lines)
    return parse_module(f"""
ENTRY e {{
  x = s32[500] parameter(0)
  y = s32[500] parameter(1)
  {body}
  ROOT r = s32[500] not({total})
}}""")


X = np.arange(500, dtype=np.int32)
Y = np.arange(500, dtype=np.int32)[::-1].copy() % 7


def expected(count):
    total = 0
    for chain in range(count):
        value = X
        for step in range(STEPS):
            value = OPERATIONS[opcode(chain, step)](value, Y)
        total = total + value
    return ~total


def results(platform, options=OPTIONS):
    compiled = client.compile(chains(4), platform, options)
    return [np.asarray(compiled(X, Y)) for _ in range(RUNS)]


def are_right(found):
    return all(np.array_equal(each, expected(4)) for each in found)


def test_streams_give_what_one_gives(emulated):
    with collect_counters() as counters:
        assert are_right(results(emulated))
    assert counters["cuda.graph_launches"] > 0


def test_streams_give_what_one_gives_without_graphs(emulated, monkeypatch):
    monkeypatch.setenv("XLADEV_CUDA_GRAPHS", "0")
    assert are_right(results(emulated))


def test_so_they_do_where_memory_is_used_again(emulated, monkeypatch):
    for graphs in "01":
        monkeypatch.setenv("XLADEV_CUDA_GRAPHS", graphs)
        assert are_right(results(emulated, replace(OPTIONS, memory_limit=1)))


def careless(change):
    """Orders streams as a changed step says."""
    order = stream_order.StreamOrder
    return lambda streams, step: order(streams, change(step))


def without_waits(step):
    """Streams wait for the start of the launch alone."""
    waits = tuple(tuple(event for event in row if event == START) for row in step.waits)
    return replace(step, waits=waits)


@pytest.mark.parametrize("graphs", ["0", "1"])
def test_a_dropped_wait_is_caught(emulated, monkeypatch, graphs):
    monkeypatch.setenv("XLADEV_CUDA_GRAPHS", graphs)
    monkeypatch.setattr(plan_executable, "StreamOrder", careless(without_waits))
    assert not are_right(results(emulated))


APART = parse_module("""
ENTRY e {
  x = s32[500] parameter(0)
  y = s32[500] parameter(1)
  a = s32[500] add(x, y)
  b = s32[500] multiply(a, y)
  c = s32[500] subtract(x, y)
  d = s32[500] xor(c, y)
  ROOT r = (s32[500], s32[500]) tuple(b, d)
}""")


def are_right_apart(platform):
    compiled = client.compile(APART, platform, OPTIONS)
    wanted = (X + Y) * Y, (X - Y) ^ Y
    found = [list(map(np.asarray, compiled(X, Y))) for _ in range(RUNS)]
    return all(np.array_equal(r, w) for each in found for r, w in zip(each, wanted, strict=True))


@pytest.mark.parametrize("graphs", ["0", "1"])
def test_a_stream_that_is_not_waited_for_at_the_end_is_caught(
    emulated, monkeypatch, graphs, caplog
):
    monkeypatch.setenv("XLADEV_CUDA_GRAPHS", graphs)
    assert are_right_apart(emulated)
    order = careless(lambda step: replace(step, joins=()))
    monkeypatch.setattr(plan_executable, "StreamOrder", order)
    assert not are_right_apart(emulated)
    assert ("cudaErrorStreamCaptureUnjoined" in caplog.text) == (graphs == "1")


def test_memory_used_by_streams_without_order_is_caught(emulated, monkeypatch):
    """The waits of a plan that keeps memory, planted into one that uses it again."""
    monkeypatch.setenv("XLADEV_CUDA_GRAPHS", "0")
    kept = read_plan(_executable(client.compile(chains(4), emulated, OPTIONS))).steps[0]
    order = careless(lambda step: replace(step, waits=kept.waits, joins=kept.joins))
    monkeypatch.setattr(plan_executable, "StreamOrder", order)
    assert are_right(results(emulated))
    assert not are_right(results(emulated, replace(OPTIONS, memory_limit=1)))


def _executable(compiled):
    (executable,) = compiled.program.executables
    return executable


def test_plans_are_saved_with_their_streams(emulated, tmp_path):
    compiled = client.compile(chains(3), emulated, OPTIONS)
    compiled.save(tmp_path / "program")
    (step, *_) = read_plan(_executable(compiled)).steps
    assert isinstance(step, Parallel)
    loaded = client.load_executable(tmp_path / "program")
    assert np.array_equal(np.asarray(loaded(X, Y)), expected(3))


def test_a_failure_of_any_stream_is_the_launchs(emulated, monkeypatch):
    from xladev.platforms.cuda.driver import emulated as driver

    monkeypatch.setenv("XLADEV_CUDA_GRAPHS", "0")
    compiled = client.compile(chains(4), emulated, OPTIONS)
    assert np.array_equal(np.asarray(compiled(X, Y)), expected(4))
    run, count = driver.EmulatedStream._run, []

    def failing(self, kernel, dimensions, addresses):
        count.append(kernel)
        if len(count) == 3:
            raise DriverError("planted")
        run(self, kernel, dimensions, addresses)

    with monkeypatch.context() as planted:
        planted.setattr(driver.EmulatedStream, "_run", failing)
        with pytest.raises(ExecutionError, match="planted"):
            np.asarray(compiled(X, Y))
    assert np.array_equal(np.asarray(compiled(X, Y)), expected(4))


def test_a_launch_that_ends_early_waits_for_its_streams(emulated, monkeypatch):
    monkeypatch.setenv("XLADEV_CUDA_GRAPHS", "0")
    compiled = client.compile(chains(4), emulated, OPTIONS)
    after, seen = stream_order.StreamOrder.after, []

    def failing(self, number):
        after(self, number)
        if number == 5:
            seen.append(self)
            raise CompileError("planted")

    with monkeypatch.context() as planted:
        planted.setattr(stream_order.StreamOrder, "after", failing)
        with pytest.raises(CompileError, match="planted"):
            np.asarray(compiled(X, Y))
    assert len(seen) == 1
    assert np.array_equal(np.asarray(compiled(X, Y)), expected(4))


def test_a_timeline_has_a_row_for_each_stream(emulated):
    compiled = client.compile(chains(3), emulated, OPTIONS)
    with tracing() as trace:
        np.asarray(compiled(X, Y))
    kernels = [e for e in trace.events if e.category == "kernel"]
    rows = {e.track for e in kernels}
    assert rows == {"cuda_emu:0/stream", "cuda_emu:0/stream 2", "cuda_emu:0/stream 3"}
    enqueued = {e.leads_to for e in trace.events if e.category == "enqueue"}
    assert {e.follows for e in kernels} == enqueued
    (step,) = read_plan(_executable(compiled)).steps
    assert len(kernels) == len(enqueued) == len(step.steps)
    (whole,) = [e for e in trace.events if e.category == "cluster"]
    for row in rows:
        ends = 0
        for e in sorted((k for k in kernels if k.track == row), key=lambda k: k.start_ns):
            assert e.start_ns >= ends
            ends = e.start_ns + e.duration_ns
        assert whole.start_ns <= ends <= whole.start_ns + whole.duration_ns


def test_branches_are_kept():
    stream = CudaStream(EmulatedDriver(0).open(0).create_stream())
    first = stream.branches(1)
    assert [*stream.branches(3)][:1] == [*first]
    assert stream.branch_count == 3


def test_gpus_have_several_streams_and_the_npu_one(emulated):
    from xladev.platforms.template_npu.compiler import TemplateNpuCompiler

    assert describe_target("sm_90a").compute_streams == 4
    assert TemplateNpuCompiler().describe().compute_streams == 1
